package api

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// again returns the answer to a call whose command was carried out before: what came of it then, with its job, task or nodes as they are now. What is gone by
// now has its name alone.
func (t terms) again(spec connect.Spec, r *cluster.Request) (connect.AnyResponse, error) {
	state := t.view()
	method, ok := spec.Schema.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("answer %s again: it has no descriptor", spec.Procedure)
	}
	var first cluster.Outcome
	if len(r.Outcomes) > 0 {
		first = r.Outcomes[0]
	}
	switch name := method.Output().Name(); name {
	case "JobResponse":
		out := &apiv1.JobResponse{Job: &apiv1.Job{Name: first.ID, Version: first.Version}, Changed: first.Changed, Version: first.Version}
		if j := state.Job(first.ID); j != nil {
			out.Job = jobView(state, j, slotStallsOf(state, j.Name), state.Rest(), false)
		}
		return connect.NewResponse(out), nil
	case "RemoveJobResponse":
		return connect.NewResponse(&apiv1.RemoveJobResponse{}), nil
	case "StopTaskResponse":
		out := &apiv1.StopTaskResponse{Task: &apiv1.Task{Id: first.ID}, Changed: first.Changed}
		if x := state.Task(cluster.TaskID(first.ID)); x != nil {
			out.Task = taskView(state, x)
		}
		return connect.NewResponse(out), nil
	case "NodeResponse":
		return connect.NewResponse(nodeAgain(state, first)), nil
	case "SetAvailabilityResponse":
		out := &apiv1.SetAvailabilityResponse{}
		for _, o := range r.Outcomes {
			out.Nodes = append(out.Nodes, nodeAgain(state, o))
		}
		return connect.NewResponse(out), nil
	case "RemoveNodeResponse":
		return connect.NewResponse(&apiv1.RemoveNodeResponse{}), nil
	case "ConfirmDownResponse":
		return connect.NewResponse(&apiv1.ConfirmDownResponse{}), nil
	case "ConfirmPluginResponse":
		return connect.NewResponse(&apiv1.ConfirmPluginResponse{}), nil
	default:
		return nil, fmt.Errorf("answer %s again: nobody knows how to make a %s", spec.Procedure, name)
	}
}

func nodeAgain(s *engine.State, o cluster.Outcome) *apiv1.NodeResponse {
	out := &apiv1.NodeResponse{Node: &apiv1.Node{Id: o.ID}, Changed: o.Changed}
	if n := s.Node(cluster.NodeID(o.ID)); n != nil {
		out.Node = nodeView(s, n, nil)
	}
	return out
}
