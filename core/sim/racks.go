package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// TypeRack is the job type that Racks brings: one task in every rack.
const TypeRack = "rack"

// CodeHeld is what Racks says of a rack in which a job starts nothing.
const CodeHeld cluster.Code = "racks.held"

// Racks is a plugin as a site may write one. It brings a job type of its own.
func Racks() sdk.Plugin {
	return sdk.Plugin{Name: "racks", Version: "1", JobTypes: map[string]sdk.JobType{TypeRack: racks{}}, Watches: []sdk.Watch{sdk.WatchLabels}}
}

type racks struct{}

// Slots names a slot for each rack, limited to the rack's nodes. A job with the label hold starts nothing in that rack.
func (racks) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	var out sdk.SlotsResponse
	nodes := inRacks(slices.Values(req.Nodes))
	for _, rack := range slices.Sorted(maps.Keys(nodes)) {
		s := sdk.Slot{Key: cluster.SlotKey(rack), Nodes: nodes[rack]}
		if req.Job.Labels["hold"] == rack {
			s.Held = &sdk.Stall{Code: CodeHeld, Message: "the job holds rack " + rack, Clears: "its label hold is taken away"}
		}
		out.Slots = append(out.Slots, s)
	}
	return out, nil
}

// inRacks returns the nodes of each rack.
func inRacks(nodes func(yield func(*cluster.Node) bool)) map[string][]cluster.NodeID {
	out := map[string][]cluster.NodeID{}
	for n := range nodes {
		if rack := n.Spec.Labels["rack"]; rack != "" && !n.Spec.Decommissioned {
			out[rack] = append(out[rack], n.ID)
		}
	}
	return out
}

// settledRacks returns racks in which a job that is to run in each has no slot, or one that is not up and says nothing about it.
func (w *World) settledRacks(st *engine.State, j *cluster.Job) []string {
	var out []string
	if j.Control.Spec.Type != TypeRack || j.Control.Stopped {
		return nil
	}
	all := inRacks(st.Nodes())
	for _, rack := range slices.Sorted(maps.Keys(all)) {
		nodes := slices.DeleteFunc(all[rack], func(id cluster.NodeID) bool { return w.refused(st, j.Name, st.Node(id)) })
		held := j.Control.Spec.Labels["hold"] == rack
		s := st.Slot(j.Name, cluster.SlotKey(rack))
		w.looked("rack slots")
		switch {
		case len(nodes) == 0 || held && s == nil:
		case s == nil:
			out = append(out, "job "+j.Name+" has no slot in rack "+rack)
		case !w.explained(st, s):
			out = append(out, "slot "+s.ID()+" is not up and nothing says why")
		}
	}
	for _, s := range st.Slots(j.Name) {
		if all[string(s.Key)] == nil {
			out = append(out, "slot "+s.ID()+" is of a rack that is no more")
		}
	}
	return out
}

// explained reports whether a slot is up or done, or something says why it is not.
func (w *World) explained(st *engine.State, s *cluster.Slot) bool {
	if s.Done || queues(st, s.Job) || len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0 {
		return true
	}
	return slices.ContainsFunc(st.SlotTasks(s.Job, s.Key), func(t *cluster.Task) bool {
		return t.Up(st.Node(t.Placement.Node)) || len(st.TaskStalls(t)) > 0
	})
}

// untrueHold returns what is wrong with the stall that holds a job's slot in a rack. There may be no record of a slot that never started anything.
func untrueHold(st *engine.State, j *cluster.Job, rack string) string {
	switch {
	case j.Control.Spec.Type != TypeRack || j.Control.Spec.Labels["hold"] != rack:
		return "the job does not hold it"
	case inRacks(st.Nodes())[rack] == nil:
		return "there is no such rack"
	}
	return ""
}
