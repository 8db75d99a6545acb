package global

import (
	"context"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Name is the plugin's name.
const Name = "global"

// New returns the plugin. It watches nothing: which nodes exist is all that it has to know.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name: Name, Version: "1.0.0",
		JobTypes: map[string]sdk.JobType{cluster.TypeGlobal: each{ends: false}, cluster.TypeGlobalBatch: each{ends: true}},
	}
}

// each gives a job one slot for each node.
type each struct {
	ends bool // the tasks end by themselves
}

// Slots names a slot after each node.
func (e each) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	out := sdk.SlotsResponse{Slots: make([]sdk.Slot, 0, len(req.Nodes))}
	ids := make([]cluster.NodeID, len(req.Nodes))
	for i, n := range req.Nodes {
		if n.Spec.Decommissioned {
			continue
		}
		ids[i] = n.ID
		out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey(n.ID), Nodes: ids[i : i+1 : i+1], Ends: e.ends})
	}
	return out, nil
}
