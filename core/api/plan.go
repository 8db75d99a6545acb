package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of what is tried.
const (
	maxTrying     = 2 // at once; others wait
	maxCommands   = 1000
	maxHorizon    = 30 * 24 * time.Hour
	maxPlanEvents = 20_000 // in one answer
)

// Plan tries commands on a copy of the state and says what would follow.
func (v *service) Plan(ctx context.Context, req *connect.Request[apiv1.PlanRequest]) (*connect.Response[apiv1.PlanResponse], error) {
	ops, err := v.planned(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	horizon, err := positive("horizon", req.Msg.GetHorizon())
	if err != nil {
		return nil, err
	}
	select {
	case v.trying <- struct{}{}:
		defer func() { <-v.trying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := do[*engine.Foresight](ctx, v.opts.Engine, engine.Foresee{})
	if err != nil {
		return nil, err
	}
	forecast, err := f.Try(ctx, engine.Trying{By: author(ctx), Ops: ops, Horizon: min(horizon, maxHorizon), Plugins: v.opts.Aside})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(planView(v.view(), forecast)), nil
}

// planned returns the operations of a request, or everything that is wrong with one of them.
func (v *service) planned(ctx context.Context, m *apiv1.PlanRequest) ([]engine.Op, error) {
	if n := len(m.GetCommands()); n == 0 || n > maxCommands {
		return nil, invalid("the request", cluster.Problem{
			Path: "commands", Summary: "Number out of range", Detail: fmt.Sprintf("There are %d commands; there must be between 1 and %d.", n, maxCommands),
		})
	}
	var out []engine.Op
	for _, c := range m.GetCommands() {
		op, err := v.plannedOne(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}

func (v *service) plannedOne(ctx context.Context, c *apiv1.PlanCommand) (engine.Op, error) {
	switch c := c.GetCommand().(type) {
	case *apiv1.PlanCommand_RunJob:
		spec, err := v.checked(ctx, c.RunJob)
		return engine.RunJob{Spec: spec, IfVersion: c.RunJob.GetIfVersion(), Reason: c.RunJob.GetReason()}, err
	case *apiv1.PlanCommand_StopJob:
		return stopOp(c.StopJob)
	case *apiv1.PlanCommand_StartJob:
		return engine.StartJob{Job: c.StartJob.GetJob(), IfVersion: c.StartJob.GetIfVersion()}, nil
	case *apiv1.PlanCommand_RestartJob:
		return engine.RestartJob{Job: c.RestartJob.GetJob(), IfVersion: c.RestartJob.GetIfVersion()}, nil
	case *apiv1.PlanCommand_ScaleJob:
		return scaleOp(c.ScaleJob)
	case *apiv1.PlanCommand_RollbackJob:
		return v.rollbackOp(c.RollbackJob)
	case *apiv1.PlanCommand_RebalanceJob:
		return engine.RebalanceJob{Job: c.RebalanceJob.GetJob(), IfVersion: c.RebalanceJob.GetIfVersion()}, nil
	case *apiv1.PlanCommand_RemoveJob:
		return engine.RemoveJob{Job: c.RemoveJob.GetJob(), IfVersion: c.RemoveJob.GetIfVersion()}, nil
	case *apiv1.PlanCommand_SetAvailability:
		return availabilityOp(c.SetAvailability)
	case *apiv1.PlanCommand_LabelNode:
		return engine.LabelNode{Node: c.LabelNode.GetNode(), Set: c.LabelNode.GetSet(), Remove: c.LabelNode.GetRemove()}, nil
	case *apiv1.PlanCommand_DecommissionNode:
		return engine.Decommission{Node: c.DecommissionNode.GetNode(), Force: c.DecommissionNode.GetForce()}, nil
	case *apiv1.PlanCommand_ControlUpdate:
		return controlOp(c.ControlUpdate)
	case *apiv1.PlanCommand_StopTask:
		return v.stopTaskOp(c.StopTask)
	}
	return nil, invalid("the request", cluster.Problem{Path: "commands", Summary: "Unknown command", Detail: "This server cannot try it; it may be older than its client."})
}

// planView returns a forecast as people look at it. Names that the forecast does not have come from the state.
func planView(s *engine.State, f *engine.Forecast) *apiv1.PlanResponse {
	out := &apiv1.PlanResponse{
		Revision: uint64(f.Revision), Took: durationpb.New(f.Took), Turns: int64(f.Turns), Settled: f.Settled, Assumptions: f.Assumptions,
		Counts: &apiv1.PlanCounts{
			Create: int64(f.Count(engine.SlotFilled)), Stop: int64(f.Count(engine.SlotEmptied)), Move: int64(f.Count(engine.SlotMoved)),
			Replace: int64(f.Count(engine.SlotReplaced)), Stall: int64(len(f.Stalled())),
		},
	}
	for i := range f.Slots {
		x := &f.Slots[i]
		out.Slots = append(out.Slots, &apiv1.PlanSlot{
			Job: x.Job, Slot: string(x.Slot), Change: string(x.Change), From: x.From, To: x.To, Task: string(x.Task), Waiting: x.Waiting,
		})
	}
	for i := range f.Stalls {
		x := &f.Stalls[i]
		p := &apiv1.PlanStall{Stall: stallView(s, &x.Stall), Begins: durationpb.New(x.At), Before: x.Before, Tasks: int64(x.Tasks), Held: x.Held}
		if x.Until >= 0 {
			p.Ends = durationpb.New(x.Until)
		}
		out.Stalls = append(out.Stalls, p)
	}
	for i := range f.Events {
		if i == maxPlanEvents {
			out.EventsLeftOut = uint64(len(f.Events) - i)
			break
		}
		x := &f.Events[i]
		out.Events = append(out.Events, &apiv1.PlanEvent{
			At: durationpb.New(x.At), Kind: string(x.Kind), Job: x.Job, Slot: string(x.Slot), Task: string(x.Task), Node: x.Node, Text: x.Text, By: x.By,
		})
	}
	return out
}
