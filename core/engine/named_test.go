package engine

import (
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestNodeNamed(t *testing.T) {
	s := NewState("test")
	for _, n := range []*cluster.Node{
		{ID: "id1", Created: 1, Spec: cluster.NodeSpec{Name: "n1", Decommissioned: true}},
		{ID: "id2", Created: 3, Spec: cluster.NodeSpec{Name: "n1", Decommissioned: true}},
		{ID: "id3", Created: 2, Spec: cluster.NodeSpec{Name: "n1", Decommissioned: true}},
		{ID: "id4", Created: 4, Spec: cluster.NodeSpec{Name: "n2", Decommissioned: true}},
		{ID: "id5", Created: 5, Spec: cluster.NodeSpec{Name: "n2"}},
		{ID: "n3", Created: 6, Spec: cluster.NodeSpec{Name: "other", Decommissioned: true}},
		{ID: "id7", Created: 7, Spec: cluster.NodeSpec{Name: "n3", Decommissioned: true}},
	} {
		if err := s.Restore(n); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]cluster.NodeID{"n1": "id2", "n2": "id5", "id4": "id4", "n3": "n3"} {
		if got := s.NodeNamed(name); got == nil || got.ID != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	if got := s.NodeNamed("n9"); got != nil {
		t.Errorf("n9 is %v", got)
	}
}
