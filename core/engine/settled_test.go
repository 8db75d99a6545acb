package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// A glance finds the slots about which something may be to be decided, whatever happens, and what is decided after it is what a look at every slot comes to.
func TestGlanceLeavesOutWhatIsSettled(t *testing.T) {
	l := newLarge(t, 20, 4, func(s *cluster.JobSpec) { s.HistoryLimit = 3 })
	check := func(what string, awake ...cluster.SlotKey) {
		t.Helper()
		delete(l.books, "big")
		settled, others, ok := l.view().Settled(l.work.Job("big"))
		slices.Sort(others)
		awake = slices.Compact(slices.Sorted(slices.Values(awake)))
		if !ok || !slices.Equal(others, awake) || len(settled)+len(others) != 20 {
			t.Errorf("%s: %d slots are settled and %v are not, %t; want %v", what, len(settled), others, ok, awake)
		}
		now := cluster.Time{Engine: l.at}
		got := reconcile.Job(l.view(), "big", now, l.rev)
		if keys, all := got.Looked(); all || len(keys) != len(awake) {
			t.Errorf("%s: looked at %v, all %t; want %v", what, keys, all, awake)
		}
		l.doubt("big", &got, now)
	}
	on := func(node cluster.NodeID) (keys []cluster.SlotKey) {
		for x := range l.work.TasksOn(node) {
			if !x.Dead() {
				keys = append(keys, x.Slot)
			}
		}
		return keys
	}
	check("all run")
	failed := l.running(true)
	l.settle(l.saysOf(failed.ID, cluster.Failed))
	check("one failed", failed.Slot)
	for x := range l.View().Unsettled() {
		l.settle(l.saysOf(x.ID, cluster.Running))
	}
	check("it has two tasks, of which one runs", failed.Slot)
	l.settle(command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Pause}})
	check("a node is paused", append(on("n1"), failed.Slot)...)
	l.settle(command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Active}})
	check("it is not any more", failed.Slot)
	l.settle(PluginUp{Name: "other", Session: 1, Filter: true})
	check("a filter has come up", failed.Slot)
	l.at += time.Hour
	l.settle(command{op: ScaleJob{Job: "big", Count: 19}})
	if _, others, _ := l.view().Settled(l.work.Job("big")); len(others) != 2 {
		t.Errorf("of a job that was scaled down, %v are not settled", others)
	}
	l.settle(command{op: RemoveJob{Job: "big"}})
	l.settle(command{op: RunJob{Spec: l.job}})
	if _, _, ok := l.view().Settled(l.work.Job("big")); ok {
		t.Error("tasks of the removed job are taken for the new one's")
	}
}
