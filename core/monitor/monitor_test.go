package monitor_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/monitor"
	"github.com/setpointd/setpoint/sdk/cluster"
)

var limits = monitor.Limits{Silent: 2 * time.Second, Down: 3 * time.Second, Few: 3}

// now is late enough for everything to have happened long ago.
var now = cluster.Time{}.Add(time.Hour)

func ago(d time.Duration) cluster.Time { return now.Add(-d) }

// heard is a node in a state since a minute and more, last heard of some time ago.
func heard(id int, state cluster.NodeState, quiet time.Duration) monitor.Hearing {
	n := &cluster.Node{
		ID: cluster.NodeID(fmt.Sprintf("n%02d", id)), Spec: cluster.NodeSpec{Availability: cluster.Active},
		Status: cluster.NodeStatus{State: state, Since: ago(10 * time.Minute)},
	}
	return monitor.Hearing{Node: n, Last: ago(quiet), Reported: true}
}

// states returns the state to which each node is set, by id.
func states(r monitor.Result) map[cluster.NodeID]cluster.NodeState {
	out := map[cluster.NodeID]cluster.NodeState{}
	for _, c := range r.Changes {
		if set := c.(cluster.SetNodeStatus); set.Status.Since == now {
			out[set.Node] = set.Status.State
		}
	}
	return out
}

func TestOneNode(t *testing.T) {
	for _, c := range []struct {
		name  string
		state cluster.NodeState
		quiet time.Duration
		edit  func(*monitor.Hearing)
		want  cluster.NodeState // "": stays as it is
		wake  time.Duration
	}{
		{"speaks", cluster.NodeReady, 0, nil, "", 2 * time.Second},
		{"spoke a while ago", cluster.NodeReady, 1500 * time.Millisecond, nil, "", 500 * time.Millisecond},
		{"misses its heartbeats", cluster.NodeReady, 2 * time.Second, nil, cluster.NodeSilent, time.Second},
		{"is silent", cluster.NodeSilent, 2500 * time.Millisecond, nil, "", 500 * time.Millisecond},
		{"grace is over", cluster.NodeSilent, 3 * time.Second, nil, cluster.NodeDown, 0},
		{"was not looked at for long", cluster.NodeReady, time.Hour, nil, cluster.NodeDown, 0},
		{"stays down", cluster.NodeDown, time.Hour, nil, "", 0},
		{"speaks again within its grace", cluster.NodeSilent, 0, nil, cluster.NodeReady, 2 * time.Second},
		{"is back", cluster.NodeDown, 0, nil, cluster.NodeReady, 2 * time.Second},
		{"is back and has not reported everything", cluster.NodeDown, 0, func(h *monitor.Hearing) { h.Reported = false }, "", 0},
		{"began a new session and has not reported everything", cluster.NodeSilent, 0, func(h *monitor.Hearing) { h.Reported = false }, "", 2 * time.Second},
		{"the server just started", cluster.NodeReady, 0, func(h *monitor.Hearing) { h.Reported = false }, "", 2 * time.Second},
		{"an operator says that it is down", cluster.NodeSilent, 2 * time.Second, func(h *monitor.Hearing) { h.Confirmed = true }, cluster.NodeDown, 0},
		{"it speaks, whatever the operator said", cluster.NodeSilent, 0, func(h *monitor.Hearing) { h.Confirmed = true }, cluster.NodeReady, 2 * time.Second},
		{"one more grace", cluster.NodeSilent, time.Minute, func(h *monitor.Hearing) { h.Grace = ago(time.Second) }, "", 2 * time.Second},
		{"one more grace is over", cluster.NodeSilent, time.Minute, func(h *monitor.Hearing) { h.Grace = ago(3 * time.Second) }, cluster.NodeDown, 0},
		{"a grace is no word", cluster.NodeSilent, time.Minute, func(h *monitor.Hearing) { h.Grace = now }, "", 3 * time.Second},
		{"the server started a while ago", cluster.NodeSilent, 4 * time.Second, func(h *monitor.Hearing) { h.Grace = ago(4 * time.Second) }, cluster.NodeDown, 0},
		{"never comes back", cluster.NodeDown, 0, func(h *monitor.Hearing) { h.Node.Spec.Decommissioned = true }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := heard(1, c.state, c.quiet)
			if c.edit != nil {
				c.edit(&h)
			}
			r := monitor.Nodes(slices.Values([]monitor.Hearing{h}), limits, now)
			want := map[cluster.NodeID]cluster.NodeState{}
			if c.want != "" {
				want["n01"] = c.want
			}
			if diff := cmp.Diff(want, states(r)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if r.Stall != nil || len(r.Changes) > 1 {
				t.Errorf("more than that: %+v", r)
			}
			if r.Wake != c.wake && c.want != cluster.NodeDown {
				t.Errorf("wakes in %s, want %s", r.Wake, c.wake)
			}
		})
	}
}

// massed returns the set of the mass silence that is under way after r.
func massed(all []monitor.Hearing, r monitor.Result) []cluster.NodeID {
	is := map[cluster.NodeID]bool{}
	for _, h := range all {
		is[h.Node.ID] = h.Node.Status.Massed
	}
	for _, c := range r.Changes {
		set := c.(cluster.SetNodeStatus)
		is[set.Node] = set.Status.Massed
	}
	maps.DeleteFunc(is, func(_ cluster.NodeID, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(is))
}

// several returns silent nodes, then ready ones; the silent ones are so for long enough to be down.
func several(silent, ready int) []monitor.Hearing {
	var out []monitor.Hearing
	for i := range silent {
		out = append(out, heard(i+1, cluster.NodeSilent, time.Minute))
	}
	for i := range ready {
		out = append(out, heard(silent+i+1, cluster.NodeReady, 0))
	}
	return out
}

func TestMassSilenceBegins(t *testing.T) {
	for _, c := range []struct {
		name          string
		silent, ready int
		edit          func([]monitor.Hearing) []monitor.Hearing
		mass          bool
	}{
		{"1 of 1", 1, 0, nil, false},
		{"2 of 2", 2, 0, nil, false},
		{"3 of 3", 3, 0, nil, true},
		{"3 of 4", 3, 1, nil, true},
		{"3 of 5", 3, 2, nil, true},
		{"3 of 6: half", 3, 3, nil, false},
		{"4 of 10", 4, 6, nil, false},
		{"6 of 10", 6, 4, nil, true},
		{"10 of 10", 10, 0, nil, true},
		{"3 of 4, with 3 that have been down for long", 3, 1, func(all []monitor.Hearing) []monitor.Hearing {
			for i := range 3 {
				all = append(all, heard(50+i, cluster.NodeDown, time.Hour))
			}
			return all
		}, true},
		{"3 silent, 1 ready, 4 that went down just now", 3, 1, func(all []monitor.Hearing) []monitor.Hearing {
			for i := range 4 {
				h := heard(50+i, cluster.NodeDown, 30*time.Second)
				h.Node.Status.Since = ago(20 * time.Second)
				all = append(all, h)
			}
			return all
		}, false},
		{"3 that joined and never spoke", 3, 2, func(all []monitor.Hearing) []monitor.Hearing {
			for i := range 3 {
				all[i].Node.Joined = all[i].Node.Status.Since
			}
			return all
		}, false},
		{"3 of 4, one of them decommissioned", 3, 1, func(all []monitor.Hearing) []monitor.Hearing {
			all[0].Node.Spec.Decommissioned = true
			return all
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := several(c.silent, c.ready)
			if c.edit != nil {
				all = c.edit(all)
			}
			r := monitor.Nodes(slices.Values(all), limits, now)
			var want []cluster.NodeID
			for _, h := range all {
				if c.mass && h.Node.Status.State == cluster.NodeSilent {
					want = append(want, h.Node.ID)
				}
			}
			if got := massed(all, r); (r.Stall != nil) != c.mass || !slices.Equal(got, want) {
				t.Fatalf("stall %+v with the set %v, want it %v with %v", r.Stall, got, c.mass, want)
			}
			down := 0
			for _, st := range states(r) {
				if st == cluster.NodeDown {
					down++
				}
			}
			if c.mass && down > 0 {
				t.Errorf("%d are down; nothing is to be replaced", down)
			}
			if c.mass && r.Stall.Code != cluster.CodeMassSilence {
				t.Errorf("stall %+v", r.Stall)
			}
		})
	}
}

func TestMassSilenceEnds(t *testing.T) {
	began := []cluster.NodeID{"n01", "n02", "n03", "n04"}
	hearings := func(silent ...int) []monitor.Hearing {
		var out []monitor.Hearing
		for i := range 6 {
			h := heard(i+1, cluster.NodeReady, 0)
			if slices.Contains(silent, i+1) {
				h = heard(i+1, cluster.NodeSilent, time.Minute)
			}
			h.Node.Status.Massed = slices.Contains(began, h.Node.ID)
			out = append(out, h)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		silent []int
		edit   func([]monitor.Hearing)
		goesOn bool
		again  []cluster.NodeID // with one more grace
		down   []cluster.NodeID
	}{
		{"3 of 4 are still silent", []int{1, 2, 3}, nil, true, nil, nil},
		{"3 of the set and another", []int{1, 2, 3, 6}, nil, true, nil, nil},
		{"half are back", []int{1, 2}, nil, false, []cluster.NodeID{"n01", "n02"}, nil},
		{"half are back, and another fell silent since", []int{1, 2, 6}, nil, false, []cluster.NodeID{"n01", "n02", "n06"}, nil},
		{"all are back", nil, nil, false, nil, nil},
		{
			"2 are confirmed to be down",
			[]int{1, 2, 3, 4},
			func(all []monitor.Hearing) { all[0].Confirmed, all[1].Confirmed = true, true },
			false,
			[]cluster.NodeID{"n03", "n04"},
			[]cluster.NodeID{"n01", "n02"},
		},
		{"the server just started, and none of them was heard of", []int{1, 2, 3}, func(all []monitor.Hearing) {
			for i := range all {
				all[i].Last, all[i].Reported = now, false
			}
		}, true, nil, nil},
		{"1 is confirmed to be down", []int{1, 2, 3, 4}, func(all []monitor.Hearing) { all[0].Confirmed = true }, true, nil, []cluster.NodeID{"n01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := hearings(c.silent...)
			if c.edit != nil {
				c.edit(all)
			}
			r := monitor.Nodes(slices.Values(all), limits, now)
			var want []cluster.NodeID
			if c.goesOn {
				want = began
			}
			if got := massed(all, r); (r.Stall != nil) != c.goesOn || !slices.Equal(got, want) {
				t.Fatalf("goes on: %+v with the set %v, want %v with %v", r.Stall, got, c.goesOn, want)
			}
			if !slices.Equal(r.Regrace, c.again) {
				t.Errorf("one more grace for %v, want %v", r.Regrace, c.again)
			}
			var down []cluster.NodeID
			for id, st := range states(r) {
				if st == cluster.NodeDown {
					down = append(down, id)
				}
			}
			slices.Sort(down)
			if !slices.Equal(down, c.down) {
				t.Errorf("down %v, want %v", down, c.down)
			}
		})
	}
}

func TestOneMoreGraceAndThenDown(t *testing.T) {
	for grace, want := range map[time.Duration]map[cluster.NodeID]cluster.NodeState{
		limits.Down - 1: {},
		limits.Down:     {"n01": cluster.NodeDown, "n02": cluster.NodeDown},
	} {
		all := several(2, 4)
		for i := range all[:2] {
			all[i].Grace = ago(grace)
		}
		if diff := cmp.Diff(want, states(monitor.Nodes(slices.Values(all), limits, now))); diff != "" {
			t.Errorf("%s after the grace was given (-want +got):\n%s", grace, diff)
		}
	}
}

// When all come back at once, the grace is as long as that takes, and what was heard before does not make it shorter.
func TestTimeToComeBack(t *testing.T) {
	slow := limits
	slow.Return = 10 * time.Second
	for _, c := range []struct {
		quiet, grace time.Duration // since when
		down         bool
	}{
		{time.Minute, 10*time.Second - 1, false},
		{time.Minute, 10 * time.Second, true},
		{slow.Down - 1, time.Minute, false},
		{slow.Down, time.Minute, true},
	} {
		all := several(0, 4)
		all[0].Node.Status.State, all[0].Last, all[0].Grace = cluster.NodeSilent, ago(c.quiet), ago(c.grace)
		r := monitor.Nodes(slices.Values(all), slow, now)
		if down := states(r)[all[0].Node.ID] == cluster.NodeDown; down != c.down {
			t.Errorf("heard %s ago, and given a grace %s ago: down is %t", c.quiet, c.grace, down)
		}
	}
}

// replaced returns from when the tasks of each node that went down may be replaced, counted from now.
func replaced(r monitor.Result) map[cluster.NodeID]time.Duration {
	out := map[cluster.NodeID]time.Duration{}
	for _, c := range r.Changes {
		if set := c.(cluster.SetNodeStatus); set.Status.State == cluster.NodeDown {
			out[set.Node] = set.Status.Replace.Sub(now)
		}
	}
	return out
}

// A node that is confirmed to be down waits for those that went down before it, wherever they stand.
func TestConfirmedNodeWaitsForItsTurn(t *testing.T) {
	slow := limits
	slow.ReplaceEvery = 5 * time.Second
	for _, earlier := range []int{0, 3} {
		all := several(0, 4)
		all[earlier].Node.Status.State, all[earlier].Node.Status.Replace = cluster.NodeDown, now.Add(-time.Second)
		all[earlier].Last = now.Add(-time.Hour)
		all[1].Last, all[1].Confirmed = now.Add(-time.Hour), true
		want := map[cluster.NodeID]time.Duration{all[1].Node.ID: 4 * time.Second}
		if diff := cmp.Diff(want, replaced(monitor.Nodes(slices.Values(all), slow, now))); diff != "" {
			t.Errorf("node %d went down before: replaced from (-want +got):\n%s", earlier, diff)
		}
	}
}

func TestNodesAreReplacedOneAfterAnother(t *testing.T) {
	slow := limits
	slow.ReplaceEvery = 5 * time.Second
	earlier := func(replace time.Duration, state cluster.NodeState) func(*monitor.Hearing) {
		return func(h *monitor.Hearing) { h.Node.Status.State, h.Node.Status.Replace = state, now.Add(replace) }
	}
	for _, c := range []struct {
		name  string
		limit monitor.Limits
		edit  func(*monitor.Hearing) // of a fourth node
		want  map[cluster.NodeID]time.Duration
	}{
		{"without a limit", limits, nil, map[cluster.NodeID]time.Duration{"n01": 0, "n02": 0, "n03": 0}},
		{"three at once", slow, nil, map[cluster.NodeID]time.Duration{"n01": 0, "n02": 5 * time.Second, "n03": 10 * time.Second}},
		{"one was, long ago", slow, earlier(-time.Minute, cluster.NodeDown), map[cluster.NodeID]time.Duration{"n01": 0, "n02": 5 * time.Second, "n03": 10 * time.Second}},
		{"one was just now", slow, earlier(-time.Second, cluster.NodeDown), map[cluster.NodeID]time.Duration{"n01": 4 * time.Second, "n02": 9 * time.Second, "n03": 14 * time.Second}},
		{"one was just now, and is back", slow, earlier(-time.Second, cluster.NodeReady), map[cluster.NodeID]time.Duration{"n01": 4 * time.Second, "n02": 9 * time.Second, "n03": 14 * time.Second}},
		{"one waits for its turn", slow, earlier(3*time.Second, cluster.NodeDown), map[cluster.NodeID]time.Duration{"n01": 8 * time.Second, "n02": 13 * time.Second, "n03": 18 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := several(3, 4)
			if c.edit != nil {
				c.edit(&all[6])
				all[6].Last = all[6].Node.Status.Since
				if all[6].Node.Status.State == cluster.NodeReady {
					all[6].Last = now
				}
			}
			if diff := cmp.Diff(c.want, replaced(monitor.Nodes(slices.Values(all), c.limit, now))); diff != "" {
				t.Errorf("replaced from (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoIsBackBeforeItsTurnGivesItUp(t *testing.T) {
	h := heard(1, cluster.NodeDown, 0)
	h.Node.Status.Replace = now.Add(time.Minute)
	r := monitor.Nodes(slices.Values([]monitor.Hearing{h}), limits, now)
	if len(r.Changes) != 1 || !r.Changes[0].(cluster.SetNodeStatus).Status.Replace.IsZero() {
		t.Errorf("changes %+v, want it ready and no turn", r.Changes)
	}
}

// BenchmarkAllSilent concludes that every node has fallen silent at once, which is a change of each of them twice.
func BenchmarkAllSilent(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var hearings []monitor.Hearing
			for i := range n {
				hearings = append(hearings, heard(i, cluster.NodeReady, 2*time.Second))
			}
			for b.Loop() {
				if r := monitor.Nodes(slices.Values(hearings), limits, now); len(r.Changes) != n {
					b.Fatalf("%d changes, want %d", len(r.Changes), n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}
