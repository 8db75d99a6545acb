package global_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func slot(id string, ends bool) sdktest.Slot {
	return sdktest.Slot{Key: cluster.SlotKey(id), Nodes: []cluster.NodeID{cluster.NodeID(id)}, Ends: ends}
}

func TestOneSlotForEachNode(t *testing.T) {
	h := sdktest.New(t, global.New())
	gone := sdktest.Node("c")
	gone.Spec.Decommissioned = true
	h.SetNodes(sdktest.Node("b"), sdktest.Node("a"), gone)
	if diff := cmp.Diff([]sdktest.Slot{slot("a", false), slot("b", false)}, h.AddJob(sdktest.Job("log", "global")).Slots); diff != "" {
		t.Errorf("global (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sdktest.Slot{slot("a", true), slot("b", true)}, h.AddJob(sdktest.Job("scan", "global-batch")).Slots); diff != "" {
		t.Errorf("global-batch (-want +got):\n%s", diff)
	}
}

func TestSlotsFollowNodes(t *testing.T) {
	h := sdktest.New(t, global.New())
	h.SetNodes(sdktest.Node("a"), sdktest.Node("b"))
	h.AddJob(sdktest.Job("log", "global"))
	h.Apply(sdktest.Change{Remove: []cluster.NodeID{"a"}, Put: []*cluster.Node{sdktest.Node("c")}})
	h.WaitApplied()
	if diff := cmp.Diff([]sdktest.Slot{slot("b", false), slot("c", false)}, h.Slots("log").Slots); diff != "" {
		t.Errorf("after b left and c joined (-want +got):\n%s", diff)
	}
	paused := sdktest.Node("b", "zone=x")
	paused.Spec.Availability, paused.Status.State = cluster.Pause, cluster.NodeDown
	if h.Apply(sdktest.Change{Put: []*cluster.Node{paused}}) {
		t.Error("labels, availability or state are told, want them unwatched")
	}
	paused.Spec.Decommissioned = true
	h.UpdateNode(paused)
	if diff := cmp.Diff([]sdktest.Slot{slot("c", false)}, h.Slots("log").Slots); diff != "" {
		t.Errorf("after b was decommissioned (-want +got):\n%s", diff)
	}
}
