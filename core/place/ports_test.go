package place

import (
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Nodes on one machine seldom get the same ports, and each has all of them to give.
func TestNodesBeginAtPortsOfTheirOwn(t *testing.T) {
	const nodes = 10
	begins := map[uint16]string{}
	for i := range nodes {
		n := &cluster.Node{ID: cluster.NodeID(fmt.Sprintf("n%d", i))}
		first := firstPort(n)
		given := map[uint16]bool{}
		for at := range portCount {
			p := portAt(first, at)
			if p < FirstPort || p > LastPort || given[p] {
				t.Fatalf("port %d of node %s is out of range or given twice", p, n.ID)
			}
			given[p] = true
		}
		for at := range 20 {
			if other := begins[portAt(first, at)]; other != "" {
				t.Errorf("port %d is among the first of %s and of %s", portAt(first, at), other, n.ID)
			}
			begins[portAt(first, at)] = string(n.ID)
		}
	}
}
