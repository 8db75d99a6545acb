package place

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestTheCommonOrderMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if rapid.IntRange(0, 3).Draw(t, "kept room") > 0 {
			w.Cluster.Claims = nil
		}
		if got, want := place(w.Cluster, w.Groups, 0), place(w.Cluster, w.Groups, math.MaxInt); !reflect.DeepEqual(got, want) {
			t.Fatalf("places %+v, with an order for each group %+v", got, want)
		}
	})
}

// Nodes that are alike, and others that are nearly full, with groups of a task or two: what the common order is for.
func TestTheCommonOrderOfManyNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cluster
		for i := range rapid.IntRange(1, 200).Draw(t, "nodes") {
			n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", i)), Spec: cluster.NodeSpec{Name: fmt.Sprintf("n%d", i), Availability: cluster.Active}, Status: cluster.NodeStatus{State: cluster.NodeReady}}
			n.Description.Capacity = cluster.Resources{MilliCPU: 4000, Memory: 4 * gib}
			used := int64(rapid.IntRange(0, 4).Draw(t, "used"))
			c.Nodes = append(c.Nodes, &Node{Node: n, Free: cluster.Resources{MilliCPU: 4000 - 1000*used, Memory: 4 * gib}, Tasks: int(used), PerJob: map[string]int{fmt.Sprintf("j%d", i%3): int(used)}})
		}
		var groups []Group
		for k := range rapid.IntRange(1, 30).Draw(t, "groups") {
			g := Group{Key: fmt.Sprintf("g%02d", k), Job: fmt.Sprintf("j%d", k%9), Reserve: cluster.Reserve{Resources: cluster.Resources{MilliCPU: 1000}}}
			for i := range rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 80)).Draw(t, "tasks") {
				id := cluster.NewTaskID(g.Job, cluster.SlotKey(fmt.Sprint(100*k+i)), 1)
				g.Tasks = append(g.Tasks, &cluster.Task{ID: id, Job: g.Job, Slot: cluster.SlotKey(fmt.Sprint(100*k + i)), CreatedRev: 1, Reserve: g.Reserve})
			}
			groups = append(groups, g)
		}
		if got, want := place(c, groups, 0), place(c, groups, math.MaxInt); !reflect.DeepEqual(got, want) {
			t.Fatalf("places %+v, with an order for each group %+v", got.Placements, want.Placements)
		}
	})
}
