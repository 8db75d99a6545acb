package place

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestPoolTotal(t *testing.T) {
	for text, want := range map[string]struct {
		total       int64
		first, last string
	}{
		"10.1.0.0/24": {254, "10.1.0.1", "10.1.0.254"},
		"10.1.0.9/30": {2, "10.1.0.9", "10.1.0.10"},
		"10.1.0.0/31": {2, "10.1.0.0", "10.1.0.1"},
		"10.1.0.7/32": {1, "10.1.0.7", "10.1.0.7"},
		"0.0.0.0/0":   {1<<32 - 2, "0.0.0.1", "255.255.255.254"},
		"fd00::/120":  {256, "fd00::", "fd00::ff"},
		"fd00::/64":   {1<<63 - 1, "fd00::", "fd00::ffff:ffff:ffff:ffff"},
	} {
		p := Pool{Prefix: netip.MustParsePrefix(text)}
		first, last := netip.MustParseAddr(want.first), netip.MustParseAddr(want.last)
		if p.Total() != want.total || p.first() != first {
			t.Errorf("%s gives %d from %s, want %d from %s", text, p.Total(), p.first(), want.total, first)
		}
		if !p.Gives(first) || !p.Gives(last) || p.whole() != (p.Prefix.Masked().Addr() == first) || text != "0.0.0.0/0" && p.Gives(first.Prev()) || p.Prefix.Contains(last.Next()) && p.Gives(last.Next()) {
			t.Errorf("%s does not give just what is from %s to %s", text, first, last)
		}
	}
}

// pooled adds a pool to a cluster, of which tasks hold so many addresses from the lowest on.
func pooled(c Cluster, name, prefix string, held int) Cluster {
	p := &Pool{Name: name, Prefix: netip.MustParsePrefix(prefix), Taken: map[netip.Addr]cluster.TaskID{}}
	a := p.first()
	for i := range held {
		p.Taken[a] = cluster.NewTaskID("old", cluster.SlotKey(fmt.Sprint(i+1)), 1)
		a = a.Next()
	}
	if c.Pools == nil {
		c.Pools = map[string]*Pool{}
	}
	c.Pools[name] = p
	return c
}

// addressed is a group of tasks of web that need an address of each pool.
func addressed(tasks int, pools ...string) Group {
	g := Group{Key: "web", Job: "web", Reserve: cpu(100)}
	for i, pool := range pools {
		g.Reserve.Addresses = append(g.Reserve.Addresses, cluster.Address{Name: fmt.Sprintf("eth%d", i), Pool: pool})
	}
	for i := range tasks {
		slot := cluster.SlotKey(fmt.Sprint(i + 1))
		g.Tasks = append(g.Tasks, &cluster.Task{ID: cluster.NewTaskID("web", slot, 9), Job: "web", Slot: slot, CreatedRev: 9})
	}
	return g
}

// granted returns the addresses that were given, task by task.
func granted(r Result) string {
	var out []string
	for _, p := range r.Placements {
		var of []string
		for _, g := range p.Addresses {
			of = append(of, g.Name+"="+g.Address)
		}
		out = append(out, strings.Join(of, ","))
	}
	return strings.Join(out, " ")
}

func TestAddressesAreGranted(t *testing.T) {
	c := pooled(pooled(oneNode(0), "lan", "10.1.0.0/29", 0), "wan", "10.2.0.0/30", 1)
	c.Pools["lan"].Taken[netip.MustParseAddr("10.1.0.2")] = "old/1/1"
	if got := granted(Place(c, []Group{addressed(2, "lan", "lan")})); got != "eth0=10.1.0.1,eth1=10.1.0.3 eth0=10.1.0.4,eth1=10.1.0.5" {
		t.Errorf("granted %s", got)
	}
	r := Place(c, []Group{addressed(2, "lan", "wan")})
	if got := granted(r); got != "eth0=10.1.0.1,eth1=10.2.0.2" || len(r.Stalled) != 1 || len(r.Stalled[0].Waiting) != 1 {
		t.Errorf("granted %s, stalled %v", got, r.Stalled)
	}
}

func TestAPoolIsTheLastReason(t *testing.T) {
	c := holding("", 1, 1, 1)
	c.Nodes[0].Node.Status.State = cluster.NodeDown
	c.Nodes[1].PerJob["web"] = 1
	c = pooled(c, "lan", "10.1.0.0/30", 2)
	g := addressed(1, "lan")
	g.Reserve.MaxPerNode = 1
	c.Nodes[2].PerJob["web"] = 0
	r := Place(c, []Group{g})
	if len(r.Stalled) != 1 {
		t.Fatalf("placed %v", r.Placements)
	}
	st := r.Stalled[0].Standing
	want := "no node can run it (3 nodes: 1 down, 1 has a task of web already, 1 finds too few addresses in pool lan (want 1, 2 of 2 used, by old/1, old/2)). " +
		"Nearest: n3. Clears when: an address of pool lan is freed."
	if got := Sentence(st.Facts(), Describe(c, g)); got != want || st.Code() != cluster.CodeAddressPoolExhausted {
		t.Errorf("%s: %s\nwant %s", st.Code(), got, want)
	}
	if got := Sentence(st.Facts(), Details{}); !strings.Contains(got, "1 finds too few addresses in pool lan)") {
		t.Errorf("without details: %s", got)
	}
	for _, n := range Explain(c, g) {
		last := n.Reasons[len(n.Reasons)-1]
		if last.Code != cluster.CodeAddressPoolExhausted || last.Text() != "finds too few addresses in pool lan (want 1, free 0 of 2)" {
			t.Errorf("%s: its last reason is %s: %s", n.Name, last.Code, last.Text())
		}
	}
	none := addressed(1, "nowhere")
	facts := Stand(c, none)
	if got := Sentence(facts.Facts(), Describe(c, none)); !strings.Contains(got, "2 find no pool nowhere") || !strings.Contains(got, "Clears when: pool nowhere is configured.") {
		t.Errorf("of a pool that is not there: %s", got)
	}
}

func TestAddressesAreKeptForASlot(t *testing.T) {
	old := &cluster.Task{ID: "web/1/3", Job: "web", Slot: "1", Reserve: cpu(100)}
	old.Placement.Addresses = []cluster.AddressGrant{{Name: "eth0", Pool: "lan", Address: "10.1.0.1"}}
	claim := Claim{Job: "web", Slot: "1", Node: 0, Reserve: addressed(1, "lan").Reserve, Old: old}
	stopping := pooled(oneNode(100), "lan", "10.1.0.0/31", 1)
	stopping.Claims = []Claim{claim}
	claim.Old = nil
	stopped := pooled(oneNode(0), "lan", "10.1.0.0/31", 1)
	stopped.Claims = []Claim{claim}
	other := addressed(1, "lan")
	other.Key, other.Job, other.Tasks[0].Job = "other", "other", "other"
	for name, c := range map[string]struct {
		c     Cluster
		group Group
		want  string
	}{
		"another, while the old task holds its own": {stopping, other, "eth0=10.1.0.1"},
		"another, once it stopped":                  {stopped, other, ""},
		"the slot itself":                           {stopped, addressed(1, "lan"), "eth0=10.1.0.1"},
		"the slot itself and one more":              {stopped, addressed(2, "lan"), "eth0=10.1.0.1"},
	} {
		if got := granted(Place(c.c, []Group{c.group})); got != c.want {
			t.Errorf("%s: granted %q, want %q", name, got, c.want)
		}
	}
}

func TestFitCountsTheAddressesThatAreFreed(t *testing.T) {
	c := pooled(oneNode(100), "lan", "10.1.0.0/32", 1)
	g := addressed(1, "lan")
	if _, ok := Fit(c, g, nil); ok {
		t.Error("it fits, though no address is left")
	}
	own := Use{Node: 0, Job: "web", Resources: cpu(100).Resources, Addresses: []cluster.AddressGrant{{Name: "eth0", Pool: "lan", Address: "10.1.0.0"}}}
	if _, ok := Fit(c, g, []Use{own}); !ok {
		t.Error("it does not fit with the address that its predecessor frees")
	}
}
