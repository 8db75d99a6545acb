package engine

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Whatever happens to nodes, tasks are placed by the order that the ledger keeps as by one that is made anew.
func TestLedgerKeepsTheOrderOfNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l ledger
		taken := map[uint32][]*cluster.Task{}
		node := func(i uint32) *cluster.Node {
			n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("id%d", i)), Status: cluster.NodeStatus{State: cluster.NodeReady}}
			n.Spec = cluster.NodeSpec{Name: fmt.Sprintf("n%d", rapid.IntRange(0, 99).Draw(t, "name")), Availability: rapid.SampledFrom([]cluster.Availability{cluster.Active, cluster.Active, cluster.Drain}).Draw(t, "availability")}
			n.Description.Capacity = cluster.Resources{MilliCPU: int64(rapid.IntRange(1, 4).Draw(t, "cpu")) * 1000, Memory: 1 << 30}
			return n
		}
		for i := range uint32(80) {
			l.describe(i, node(i))
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := uint32(rapid.IntRange(0, 85).Draw(t, "node"))
			known := int(i) < len(l.nodes) && l.nodes[i] != nil
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0 || !known:
				l.describe(i, node(i))
			case what == 1:
				delete(taken, i)
				l.drop(i)
			case what == 2:
				l.nodes[i].Blocked = rapid.SampledFrom([]string{"", "disk"}).Draw(t, "blocked")
				l.reopen(i)
			case what < 5 && len(taken[i]) > 0:
				l.free(i, taken[i][0])
				taken[i] = taken[i][1:]
			default:
				x := &cluster.Task{ID: cluster.TaskID(fmt.Sprintf("j%d/%d/1", i%7, step)), Job: fmt.Sprintf("j%d", i%7)}
				x.Reserve.Resources.MilliCPU = 500
				l.take(i, x)
				taken[i] = append(taken[i], x)
			}
			if rapid.IntRange(0, 2).Draw(t, "look") > 0 {
				continue
			}
			kept := l.cluster()
			l.rank(&kept)
			anew := kept
			anew.Ranking = &place.Ranking{}
			anew.Ranking.Refresh(&anew)
			var groups []place.Group
			for g := range 6 {
				job := fmt.Sprintf("j%d", g)
				one := &cluster.Task{ID: cluster.TaskID(job + "/x/2"), Job: job, Slot: "x"}
				groups = append(groups, place.Group{Key: job, Job: job, Reserve: cluster.Reserve{Resources: cluster.Resources{MilliCPU: 700}}, Tasks: []*cluster.Task{one}})
			}
			if got, want := place.Place(kept, groups), place.Place(anew, groups); !reflect.DeepEqual(got.Placements, want.Placements) {
				t.Fatalf("after %d steps places %v, by an order made anew %v", step+1, got.Placements, want.Placements)
			}
		}
	})
}
