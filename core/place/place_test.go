package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestAmountText(t *testing.T) {
	for _, c := range []struct {
		resource string
		amount   int64
		want     string
	}{
		{"cpu", 0, "0"},
		{"cpu", 500, "0.5"},
		{"cpu", 1250, "1.25"},
		{"cpu", 64_000, "64"},
		{"cpu", -500, "-0.5"},
		{"memory", 0, "0B"},
		{"memory", 256 << 20, "256MiB"},
		{"memory", 3 << 29, "1.5GiB"},
		{"memory", 256<<20 - 1, "255.99MiB"},
		{"memory", 1 << 10, "1KiB"},
		{"memory", -(1 << 30), "-1GiB"},
		{"memory", -1 << 63, "-8589934591.99GiB"},
		{"gpu", 2, "2"},
	} {
		if got := amountText(c.resource, c.amount); got != c.want {
			t.Errorf("%d of %s reads %s, want %s", c.amount, c.resource, got, c.want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		used, total int64
		want        uint32
	}{{0, 4000, 0}, {-5, 4000, 0}, {1000, 4000, 250_000}, {4000, 4000, 1_000_000}, {8000, 4000, 2_000_000}, {1, 0, maxLoad}, {1 << 62, 1, maxLoad}, {1 << 50, 1 << 51, 500_000}} {
		if got := share(c.used, c.total); got != c.want {
			t.Errorf("share(%d, %d) = %d, want %d", c.used, c.total, got, c.want)
		}
	}
}

// oneNode is a cluster of one node with 4 cores, of which some thousandths are taken.
func oneNode(taken int64) Cluster {
	n := &cluster.Node{ID: "id1"}
	n.Spec = cluster.NodeSpec{Name: "n1", Availability: cluster.Active}
	n.Status.State = cluster.NodeReady
	n.Description.Capacity = cluster.Resources{MilliCPU: 4000}
	return Cluster{Nodes: []*Node{{Node: n, Free: cluster.Resources{MilliCPU: 4000 - taken}}}}
}

func cpu(milli int64) cluster.Reserve {
	return cluster.Reserve{Resources: cluster.Resources{MilliCPU: milli}}
}

func one(job string, r cluster.Reserve) Group {
	t := &cluster.Task{ID: cluster.NewTaskID(job, "1", 9), Job: job, Slot: "1", CreatedRev: 9}
	return Group{Key: job, Job: job, Reserve: r, Tasks: []*cluster.Task{t}}
}

// While the old task still stops, the claim keeps only what the new one needs beyond it, and once it has stopped all of it.
func TestClaimBesideOldTask(t *testing.T) {
	old := &cluster.Task{ID: "web/1/3", Job: "web", Slot: "1", Reserve: cpu(1000)}
	claim := Claim{Job: "web", Slot: "1", Node: 0, Reserve: cpu(2000), Old: old}
	stopping := oneNode(1000)
	stopping.Claims = []Claim{claim}
	stopped := oneNode(0)
	claim.Old = nil
	stopped.Claims = []Claim{claim}
	for _, c := range []struct {
		name  string
		c     Cluster
		milli int64
		fits  bool
	}{
		{"stopping, the rest", stopping, 2000, true},
		{"stopping, more than the rest", stopping, 2001, false},
		{"stopped, the rest", stopped, 2000, true},
		{"stopped, more than the rest", stopped, 2001, false},
	} {
		if got := len(Place(c.c, []Group{one("other", cpu(c.milli))}).Placements) == 1; got != c.fits {
			t.Errorf("%s: placed %v, want %v", c.name, got, c.fits)
		}
	}
	if got := Place(stopped, []Group{one("web", cpu(2000))}); len(got.Placements) != 1 {
		t.Errorf("the slot does not get its own room: %v", got.Stalled[0].Standing.Facts())
	}
}

// A claim outlives an attempt of its own task, also where tasks of a version without the claim's limit per node have gone beyond that since.
func TestClaimSurvivesItsTasksAttempt(t *testing.T) {
	c := oneNode(0)
	limited := cpu(2000)
	limited.MaxPerNode = 1
	c.Claims = []Claim{{Job: "web", Slot: "1", Node: 0, Reserve: limited}}
	unlimited, own, later := one("web", cpu(1000)), one("web", cpu(1000)), one("other", cpu(2000))
	unlimited.Tasks[0].Slot, unlimited.Tasks[0].ID = "2", "web/2/9"
	unlimited.Key, unlimited.Priority = "unlimited", 3
	own.Key, own.Priority, own.Nodes = "own", 2, []int{} // it may run nowhere
	later.Priority = 1
	got := Place(c, []Group{unlimited, own, later})
	if len(got.Placements) != 1 || got.Placements[0].Task != "web/2/9" {
		t.Fatalf("placed %+v, want web/2 alone: the rest of the node is claimed for web/1", got.Placements)
	}
}

// Two moves may not count on the same free room.
func TestFitBesideEarlierClaims(t *testing.T) {
	c := oneNode(3000) // three tasks of one core each, one core free
	move := func(slot string) Use { return Use{Node: 0, Job: "web", Resources: cpu(1000).Resources} }
	grown := one("web", cpu(2000))
	if _, ok := Fit(c, grown, []Use{move("1")}); !ok {
		t.Fatal("the first does not fit with what it frees")
	}
	c.Claims = []Claim{{Job: "web", Slot: "1", Node: 0, Reserve: cpu(2000), Old: &cluster.Task{ID: "web/1/3", Job: "web", Reserve: cpu(1000)}}}
	if _, ok := Fit(c, grown, []Use{move("2")}); ok {
		t.Fatal("the second fits into room that the first has claimed")
	}
	if _, ok := Fit(c, one("web", cpu(1000)), []Use{move("2")}); !ok {
		t.Fatal("a second that needs no more than it frees does not fit")
	}
}

func TestExceedsEvery(t *testing.T) {
	c := oneNode(4000)
	big := oneNode(0).Nodes[0]
	big.Node.Description.Capacity = cluster.Resources{MilliCPU: 64_000}
	c.Nodes = append(c.Nodes, big, nil)
	only := func(i int, pending ...int) []Filter {
		f := Filter{Name: "constraint", Allowed: NewBitmap(3), Pending: NewBitmap(3)}
		f.Allowed.Set(i)
		for _, p := range pending {
			f.Pending.Set(p)
		}
		return []Filter{f}
	}
	with := func(r cluster.Reserve, f []Filter, nodes ...int) Group {
		g := one("a", r)
		g.Filters, g.Nodes = f, nodes
		return g
	}
	for _, x := range []struct {
		name string
		g    Group
		want string
	}{
		{"fits one when empty", with(cpu(64_000), nil), ""},
		{"fits none", with(cpu(64_001), nil), "cpu"},
		{"fits only where refused", with(cpu(8000), only(0)), "cpu"},
		{"fits where not yet judged", with(cpu(8000), only(0, 1)), ""},
		{"fits only beyond its nodes", with(cpu(8000), nil, 0), "cpu"},
		{"refused everywhere and fits", with(cpu(8000), only(2)), ""},
		{"another resource", with(cluster.Reserve{Resources: cluster.Resources{Units: map[string]int64{"gpu": 1}}}, nil), "gpu"},
	} {
		if got, ok := ExceedsEvery(c, x.g); got != x.want || ok != (x.want != "") {
			t.Errorf("%s: %q %v, want %q", x.name, got, ok, x.want)
		}
	}
	if got, ok := ExceedsEvery(Cluster{}, one("a", cpu(1))); ok {
		t.Errorf("without nodes: %q", got)
	}
}

func TestSentenceFromFactsAlone(t *testing.T) {
	f := cluster.Facts{Nodes: 6, Excluded: []cluster.Exclusion{
		{Source: "core", Code: cluster.CodeNodeSilent, Count: 1},
		{Source: "gpu", Code: "gpu.none", Count: 1},
		{Source: "core", Code: cluster.CodeInsufficientResources, Detail: "cpu", Count: 1},
		{Source: "core", Code: cluster.CodePortTaken, Detail: "80", Count: 1},
		{Source: "core", Code: cluster.CodePortTaken, Detail: DetailDynamic, Count: 1},
		{Source: "core", Code: cluster.CodeOnePerNode, Count: 1},
	}}
	want := "no node can run it (6 nodes: 1 silent, 1 refused by gpu (gpu.none), 1 lacks cpu, 1 has port 80 taken, 1 has too few free ports, 1 has a task of the job already)."
	if got := Sentence(f, Details{}); got != want {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
}

func TestSentenceNamesFewHolders(t *testing.T) {
	var c Cluster
	for i := range 5 {
		n := oneNode(0).Nodes[0]
		n.Node.ID, n.Node.Spec.Name = cluster.NodeID(fmt.Sprint(i)), fmt.Sprintf("n%d", i)
		n.Ports = map[uint16]cluster.TaskID{80: cluster.NewTaskID("p", cluster.SlotKey(fmt.Sprint(i)), 1)}
		c.Nodes = append(c.Nodes, n)
	}
	g := one("a", cluster.Reserve{Ports: []cluster.Port{{Name: "http", Static: 80}}})
	s := Stand(c, g)
	if got, want := Sentence(s.Facts(), Describe(c, g)), "5 have port 80 taken by p/0, p/1, p/2 and 2 others)"; !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %s", got, want)
	}
}

// A port that a job names twice can be given by no node; that is said instead of placing it.
func TestSamePortTwice(t *testing.T) {
	g := one("a", cluster.Reserve{Ports: []cluster.Port{{Name: "x", Static: 80}, {Name: "y", Static: 80}}})
	s := Stand(oneNode(0), g)
	if s.Code() != cluster.CodePortTaken || s.Facts().Excluded[0].Detail != "80" {
		t.Errorf("%s %v", s.Code(), s.Facts())
	}
	if r := Explain(oneNode(0), g)[0].Reasons; len(r) != 1 || r[0].Text() != "cannot give port 80 twice" || r[0].Clears != "the job names port 80 once" {
		t.Errorf("%+v", r)
	}
}

// A change that says nothing new costs no copy, and what is said no more does not pile up.
func TestRecheckIsSparing(t *testing.T) {
	c := Cluster{}
	for i := range 40 {
		n := oneNode(0).Nodes[0]
		n.Node.ID = cluster.NodeID(fmt.Sprint(i))
		c.Nodes = append(c.Nodes, n)
	}
	round := 0
	f := Filter{Name: "x", Allowed: NewBitmap(40), Reason: func(i int) (cluster.Code, string) { return "x.no", fmt.Sprint(i, round) }}
	g := one("a", cpu(1))
	g.Filters = []Filter{f}
	s := Stand(c, g)
	if same := Recheck(c, g, s, []int{1, 2, 3}); &same.first[0] != &s.first[0] {
		t.Error("copied without a change")
	}
	for round = range 30 {
		all := make([]int, 40)
		for i := range all {
			all[i] = i
		}
		s = Recheck(c, g, s, all)
	}
	if len(s.table) > 120 {
		t.Errorf("%d reasons are kept for 40 nodes", len(s.table))
	}
	if full := Stand(c, g); !slices.Equal(full.Facts().Excluded, s.Facts().Excluded) {
		t.Errorf("%v, want %v", s.Facts(), full.Facts())
	}
}

func TestUnknownAttributeSpreadsNothing(t *testing.T) {
	n := oneNode(0).Nodes[0].Node
	n.Description = cluster.NodeDescription{Hostname: "host", OS: "linux", Arch: "arm64", Attributes: map[string]string{"kernel": "6.1"}}
	n.Spec.Labels = map[string]string{"empty": ""}
	for name, want := range map[string]string{
		"node.id": "id1", "node.name": "n1", "node.hostname": "host", "node.os": "linux", "node.arch": "arm64", "node.attributes.kernel": "6.1", "node.labels.empty": "",
	} {
		if got, ok := attribute(n, name); got != want || !ok {
			t.Errorf("%s is %q %v, want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"node.labels.zone", "node.attributes.x", "node.unheard", "zone", ""} {
		if got, ok := attribute(n, name); ok {
			t.Errorf("%s is %q", name, got)
		}
	}
}
