package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// leased is an engine with two nodes and the pool lan of two addresses.
func leased(t *testing.T) *Engine {
	t.Helper()
	e := New(Config{Heartbeat: time.Hour, Pools: []Pool{{Name: "lan", CIDR: "10.1.0.0/30"}}}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2")
	return e
}

// lease is a job of that many tasks, each with an address of the pool.
func lease(name string, count int, edit func(*cluster.JobSpec)) Input {
	return run(name, func(s *cluster.JobSpec) {
		s.Count, s.Task.Resources = count, cluster.Resources{MilliCPU: 100}
		s.Task.Addresses = []cluster.Address{{Name: "eth0", Pool: "lan"}}
		if edit != nil {
			edit(s)
		}
	})
}

// addresses returns what is given to tasks that may run, by slot.
func addresses(e *Engine, job string) string {
	var out []string
	for x := range e.View().TasksOf(job) {
		if x.Placed() && !x.Dead() {
			for _, g := range x.Placement.Addresses {
				out = append(out, string(x.Slot)+"="+g.Address)
			}
		}
	}
	return strings.Join(out, " ")
}

func TestAnExhaustedPoolIsAStall(t *testing.T) {
	e := leased(t)
	step(e, 2, lease("web", 4, nil))
	at := obey(t, e, time.Second)
	if got := addresses(e, "web"); got != "1=10.1.0.1 2=10.1.0.2" {
		t.Fatalf("given %s", got)
	}
	stalls := e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: "web@1"})
	if len(stalls) != 1 {
		t.Fatalf("stalls %+v", stalls)
	}
	st := stalls[0]
	want := []cluster.Exclusion{{Source: cluster.SourceCore, Code: cluster.CodeAddressPoolExhausted, Detail: "lan", Count: 2}}
	if st.Code != cluster.CodeAddressPoolExhausted || st.Facts.Nodes != 2 || len(st.Facts.Excluded) != 1 || st.Facts.Excluded[0] != want[0] {
		t.Fatalf("stall %+v", st)
	}
	before := e.View().Revision
	for i := range 20 { // recording it makes no more turns, and neither does the passing of time or what has nothing to do with it
		if out := step(e, at+time.Duration(i)*time.Minute, heard("n1", "n2")); out.More || len(out.Turn.Changes) > 0 {
			t.Fatalf("it goes on: %+v", out.Turn.Changes)
		}
	}
	step(e, at+time.Hour, label("n1"))
	if e.View().Revision != before+1 {
		t.Errorf("%d turns came of a label, want 1", e.View().Revision-before)
	}
	out := step(e, at+time.Hour, command{op: Why{Task: e.View().SlotTasks("web", "3")[0].ID}})
	v, err := out.Replies[0].Result()
	why, ok := v.(WhyResult)
	if err != nil || !ok || !strings.Contains(why.Sentence, "2 find too few addresses in pool lan (want 1, 2 of 2 used, by web/1, web/2)") ||
		why.Clears != "an address of pool lan is freed" {
		t.Errorf("%v: %+v", err, why)
	}
}

func TestAnAddressIsFreeOnceItsTaskIsDead(t *testing.T) {
	e := leased(t)
	step(e, 2, lease("a", 2, nil))
	at := obey(t, e, time.Second)
	step(e, at, lease("b", 1, nil))
	step(e, at, command{op: ScaleJob{Job: "a", Count: 1}})
	if got := addresses(e, "b"); got != "" {
		t.Fatalf("b was given %s before the stop was seen", got)
	}
	obey(t, e, at)
	if a, b := addresses(e, "a"), addresses(e, "b"); a != "1=10.1.0.1" || b != "1=10.1.0.2" {
		t.Errorf("a has %s and b %s", a, b)
	}
	if n := len(e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: "b@1"})); n != 0 {
		t.Errorf("%d stalls are left", n)
	}
}

func TestAddressesOutliveTheServer(t *testing.T) {
	e := leased(t)
	step(e, 2, lease("a", 2, nil))
	at := obey(t, e, time.Second)
	var records []any
	s := e.View()
	for n := range s.Nodes() {
		records = append(records, n)
	}
	for j := range s.Jobs() {
		records = append(records, j)
		for _, v := range s.Slots(j.Name) {
			records = append(records, v)
		}
	}
	for x := range s.Tasks() {
		records = append(records, x)
	}
	e = New(e.cfg, Assemble("test", s.Revision, s.Now, records...), cluster.Time{}.Add(at))
	step(e, at+1, lease("b", 1, nil))
	if b := addresses(e, "b"); b != "" {
		t.Errorf("b was given %s, which a has", b)
	}
}

func TestAnUpdateWithAnExhaustedPool(t *testing.T) {
	for _, order := range []cluster.Order{cluster.StopFirst, cluster.StartFirst} {
		e := leased(t)
		job := func(version string) Input {
			return lease("web", 2, func(s *cluster.JobSpec) {
				s.Update.Order, s.Update.Monitor, s.Task.Env = order, 0, map[string]string{"V": version}
			})
		}
		step(e, 2, job("1"))
		at := obey(t, e, time.Second)
		step(e, at, job("2"))
		for range 4 {
			at = obey(t, e, at+10*time.Second)
		}
		for x := range e.View().TasksOf("web") {
			if !x.Dead() && x.JobVersion != 2 {
				t.Errorf("%s: task %s still has version %d; update %+v", order, x.ID, x.JobVersion, e.View().Job("web").Update)
			}
		}
		if got := addresses(e, "web"); got != "1=10.1.0.1 2=10.1.0.2" {
			t.Errorf("%s: given %s", order, got)
		}
	}
}
