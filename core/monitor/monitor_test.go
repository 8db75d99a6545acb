package monitor_test

import (
	"fmt"
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
		set := c.(cluster.SetNodeStatus)
		if set.Status.Since != now {
			panic("a status that began at another time")
		}
		out[set.Node] = set.Status.State
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
		{"never comes back", cluster.NodeDown, 0, func(h *monitor.Hearing) { h.Node.Spec.Decommissioned = true }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := heard(1, c.state, c.quiet)
			if c.edit != nil {
				c.edit(&h)
			}
			r := monitor.Nodes(slices.Values([]monitor.Hearing{h}), nil, limits, now)
			want := map[cluster.NodeID]cluster.NodeState{}
			if c.want != "" {
				want["n01"] = c.want
			}
			if diff := cmp.Diff(want, states(r)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if r.Stall != nil || r.Silence != nil || len(r.Changes) > 1 {
				t.Errorf("more than that: %+v", r)
			}
			if r.Wake != c.wake && c.want != cluster.NodeDown {
				t.Errorf("wakes in %s, want %s", r.Wake, c.wake)
			}
		})
	}
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
			r := monitor.Nodes(slices.Values(all), nil, limits, now)
			if (r.Silence != nil) != c.mass || (r.Stall != nil) != c.mass {
				t.Fatalf("mass silence %+v, stall %+v, want %v", r.Silence, r.Stall, c.mass)
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
	began := &monitor.Silence{Since: ago(time.Minute), Nodes: []cluster.NodeID{"n01", "n02", "n03", "n04"}}
	hearings := func(silent ...int) []monitor.Hearing {
		var out []monitor.Hearing
		for i := range 6 {
			h := heard(i+1, cluster.NodeReady, 0)
			if slices.Contains(silent, i+1) {
				h = heard(i+1, cluster.NodeSilent, time.Minute)
			}
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
		{"2 are confirmed to be down", []int{1, 2, 3, 4}, func(all []monitor.Hearing) { all[0].Confirmed, all[1].Confirmed = true, true },
			false, []cluster.NodeID{"n03", "n04"}, []cluster.NodeID{"n01", "n02"}},
		{"1 is confirmed to be down", []int{1, 2, 3, 4}, func(all []monitor.Hearing) { all[0].Confirmed = true }, true, nil, []cluster.NodeID{"n01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := hearings(c.silent...)
			if c.edit != nil {
				c.edit(all)
			}
			r := monitor.Nodes(slices.Values(all), began, limits, now)
			if (r.Silence != nil) != c.goesOn || (r.Stall != nil) != c.goesOn {
				t.Fatalf("goes on: %+v with %+v, want %v", r.Silence, r.Stall, c.goesOn)
			}
			if c.goesOn && r.Silence != began {
				t.Errorf("the set became %+v", r.Silence)
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
		if diff := cmp.Diff(want, states(monitor.Nodes(slices.Values(all), nil, limits, now))); diff != "" {
			t.Errorf("%s after the grace was given (-want +got):\n%s", grace, diff)
		}
	}
}
