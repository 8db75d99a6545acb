package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// waiting is a stall as it is shown: those of a group once for each task that waits.
type waiting struct {
	stall cluster.Stall
	group string         // key of the group that it comes from; "" if from none
	task  cluster.TaskID // that waits, with group
}

// allStalls returns every stall as it is shown.
func allStalls(s *engine.State) []waiting {
	var out []waiting
	groups := make(map[string]bool)
	for stall := range s.Stalls() {
		if stall.Subject.Kind == cluster.SubjectGroup {
			groups[stall.Subject.ID] = true
			continue
		}
		out = append(out, waiting{stall: *stall})
	}
	jobs := make(map[string]bool)
	for key := range groups {
		jobs[cluster.Subject{Kind: cluster.SubjectGroup, ID: key}.Job()] = true
	}
	for job := range jobs {
		for t := range s.UnsettledOf(job) {
			if t.Placed() || !t.Desired.State.Wanted() || !groups[engine.GroupKey(t)] {
				continue
			}
			out = append(out, groupStalls(s, t)...)
		}
	}
	for t := range s.Unsettled() {
		if stall := cluster.Overdue(t, s.Node(t.Placement.Node), s.Now); stall != nil {
			out = append(out, waiting{stall: *stall})
		}
	}
	return out
}

// groupStalls returns the stalls of a task that come from its group.
func groupStalls(s *engine.State, t *cluster.Task) []waiting {
	own := len(s.StallsOf(cluster.Subject{Kind: cluster.SubjectTask, ID: string(t.ID)}))
	var out []waiting
	for _, stall := range s.TaskStalls(t)[own:] {
		out = append(out, waiting{stall: stall, group: engine.GroupKey(t), task: t.ID})
	}
	return out
}

// key orders stalls by how long they have lasted.
func (w *waiting) key() string {
	return fmt.Sprintf("%020d|%s|%s|%s|%s", w.stall.Since.Engine, w.stall.Subject.Kind, w.stall.Subject.ID, w.stall.Source, w.stall.Code)
}

// ListStalls returns a page of everything that waits.
func (v *service) ListStalls(ctx context.Context, req *connect.Request[apiv1.ListStallsRequest]) (*connect.Response[apiv1.ListStallsResponse], error) {
	m := req.Msg
	p, err := newPage(m.GetPageSize(), m.GetPageToken())
	if err != nil {
		return nil, err
	}
	state := v.view()
	var rows []row[waiting]
	for _, w := range allStalls(state) {
		if m.GetCode() != "" && string(w.stall.Code) != m.GetCode() || m.GetJob() != "" && w.stall.Subject.Job() != m.GetJob() {
			continue
		}
		rows = append(rows, row[waiting]{w.key(), w})
	}
	found, next := cut(p, rows)
	out := &apiv1.ListStallsResponse{NextPageToken: next, Revision: uint64(state.Revision)}
	asked := make(map[string]*engine.WhyResult)
	for _, w := range found {
		view := stallView(state, &w.stall)
		if w.group != "" {
			if _, ok := asked[w.group]; !ok {
				if asked[w.group], err = v.why(ctx, w.task); err != nil {
					return nil, err
				}
			}
			explainWith([]*apiv1.Stall{view}, asked[w.group])
		}
		out.Stalls = append(out.Stalls, view)
	}
	return connect.NewResponse(out), nil
}

// why asks what keeps a task from each node. A task that is gone meanwhile gives nil.
func (v *service) why(ctx context.Context, task cluster.TaskID) (*engine.WhyResult, error) {
	r, err := do[engine.WhyResult](ctx, v.opts.Engine, engine.Why{Task: task})
	if isNotFound(err) {
		return nil, nil // there is nothing to say of it
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// explain adds amounts and names to the stalls of a task that waits to be placed.
func (v *service) explain(ctx context.Context, stalls []*apiv1.Stall, task cluster.TaskID) error {
	for _, s := range stalls {
		if s.GetSource() != cluster.SourcePlacement {
			continue
		}
		why, err := v.why(ctx, task)
		if err != nil {
			return err
		}
		explainWith(stalls, why)
		return nil
	}
	return nil
}

// explainWith adds what was found out about a task to those of its stalls that say what keeps it from every node.
func explainWith(stalls []*apiv1.Stall, why *engine.WhyResult) {
	if why == nil {
		return
	}
	for _, s := range stalls {
		if s.GetSource() != cluster.SourcePlacement {
			continue
		}
		if why.Sentence != "" {
			s.Message = why.Sentence
		}
		s.Nearest, s.Clears = why.Nearest, why.Clears
		nameNodes(s.GetFacts(), why.Nodes)
	}
}
