package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
	"github.com/setpointd/setpoint/sdk/wire"
)

// logChunk is how much of a log is sent in one message, in bytes.
const logChunk = 32 << 10

// ListTasks returns a page of tasks.
func (v *service) ListTasks(ctx context.Context, req *connect.Request[apiv1.ListTasksRequest]) (*connect.Response[apiv1.ListTasksResponse], error) {
	m := req.Msg
	p, err := newPage(m.GetPageSize(), m.GetPageToken())
	if err != nil {
		return nil, err
	}
	state := v.view()
	var node cluster.NodeID
	if m.GetNode() != "" {
		n := state.NodeNamed(m.GetNode())
		if n == nil {
			return nil, notFound("node", m.GetNode(), listNodes)
		}
		node = n.ID
	}
	var rows []row[*cluster.Task]
	for t := range state.TasksAfter(m.GetJob(), node, cluster.TaskID(p.after)) { // in the order of their ids
		if len(rows) > p.size {
			break
		}
		if m.GetAll() || !t.Dead() {
			rows = append(rows, row[*cluster.Task]{string(t.ID), t})
		}
	}
	found, next := cut(p, rows)
	out := &apiv1.ListTasksResponse{NextPageToken: next, Revision: uint64(state.Revision)}
	asked := make(map[string]*engine.WhyResult)
	for _, t := range found {
		view := taskView(state, t)
		if err := v.explainGroup(ctx, view, t, asked); err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, view)
	}
	return connect.NewResponse(out), nil
}

// explainedGroups is how many groups one list of tasks explains with amounts; the stalls of further ones say what is stored of them. WhyTask explains any.
const explainedGroups = 100

// explainGroup explains what keeps a waiting task from every node, asking once for each group.
func (v *service) explainGroup(ctx context.Context, view *apiv1.Task, t *cluster.Task, asked map[string]*engine.WhyResult) error {
	if t.Placed() || len(view.GetStalls()) == 0 {
		return nil
	}
	key := engine.GroupKey(t)
	why, ok := asked[key]
	if !ok && len(asked) < explainedGroups {
		var err error
		if why, err = v.why(ctx, t.ID); err != nil {
			return err
		}
		asked[key] = why
	}
	explainWith(view.GetStalls(), why)
	return nil
}

// find returns the task of that id, or the newest of the slot JOB/SLOT.
func find(s *engine.State, name string) (*cluster.Task, error) {
	if t := s.Task(cluster.TaskID(name)); t != nil {
		return t, nil
	}
	if job, slot, ok := strings.Cut(name, "/"); ok {
		if t := newestTask(s, job, cluster.SlotKey(slot)); t != nil {
			return t, nil
		}
	}
	return nil, notFound("task", name, "task ls --all lists those that there are")
}

// GetTask returns one task.
func (v *service) GetTask(ctx context.Context, req *connect.Request[apiv1.GetTaskRequest]) (*connect.Response[apiv1.GetTaskResponse], error) {
	state := v.view()
	t, err := find(state, req.Msg.GetTask())
	if err != nil {
		return nil, err
	}
	out := taskView(state, t)
	out.Spec = specOf(state, t)
	if err := v.explain(ctx, out.GetStalls(), t.ID); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.GetTaskResponse{Task: out}), nil
}

// specOf returns what a task runs, or nil if its job no longer says so.
func specOf(s *engine.State, t *cluster.Task) *setpointv1.TaskSpec {
	j := s.Job(t.Job)
	if j == nil || j.CreatedRev > t.CreatedRev {
		return nil
	}
	version := j.VersionOf(t.JobVersion)
	if version == nil {
		return nil
	}
	return wire.TaskSpecToProto(&version.Spec.Task)
}

// WhyTask returns every reason that keeps a task from each node.
func (v *service) WhyTask(ctx context.Context, req *connect.Request[apiv1.WhyTaskRequest]) (*connect.Response[apiv1.WhyTaskResponse], error) {
	p, paged, err := optionalPage("", req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	t, err := find(v.view(), req.Msg.GetTask())
	if err != nil {
		return nil, err
	}
	why, err := do[engine.WhyResult](ctx, v.opts.Engine, engine.Why{Task: t.ID})
	if err != nil {
		return nil, err
	}
	state := v.view()
	out := &apiv1.WhyTaskResponse{
		Task: taskView(state, t), Sentence: why.Sentence, Nearest: why.Nearest, Clears: why.Clears, Exceeds: why.Exceeds,
	}
	if newest := state.Task(t.ID); newest != nil {
		out.Task = taskView(state, newest)
	}
	explainWith(out.GetTask().GetStalls(), &why)
	for _, n := range why.Nodes {
		node := &apiv1.WhyNode{Node: n.Name, NodeId: string(n.Node)}
		for _, r := range n.Reasons {
			node.Reasons = append(node.Reasons, &apiv1.WhyReason{Source: r.Source, Code: string(r.Code), Detail: r.Detail})
		}
		out.Nodes = append(out.Nodes, node)
	}
	if paged {
		var rows []row[*apiv1.WhyNode]
		for _, n := range out.GetNodes() {
			rows = append(rows, row[*apiv1.WhyNode]{n.GetNodeId(), n})
		}
		out.Nodes, out.NextPageToken = cut(p, rows)
	}
	return connect.NewResponse(out), nil
}

// StopTask ends one task, so that its slot gets another.
func (v *service) StopTask(ctx context.Context, req *connect.Request[apiv1.StopTaskRequest]) (*connect.Response[apiv1.StopTaskResponse], error) {
	op, err := v.stopTaskOp(req.Msg)
	if err != nil {
		return nil, err
	}
	out, err := do[engine.TaskResult](ctx, v.opts.Engine, op)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.StopTaskResponse{Task: taskView(v.view(), out.Task), Changed: out.Changed}), nil
}

func (v *service) stopTaskOp(m *apiv1.StopTaskRequest) (engine.StopTask, error) {
	t, err := find(v.view(), m.GetTask())
	if err != nil {
		return engine.StopTask{}, err
	}
	op := engine.StopTask{Task: t.ID, Grace: -1}
	if g := m.GetGrace(); g != nil {
		if op.Grace = g.AsDuration(); op.Grace < 0 {
			return op, invalid("the request", cluster.Problem{Path: "grace", Summary: "Negative duration"})
		}
	}
	return op, nil
}

// TaskLogs sends what a task printed.
func (v *service) TaskLogs(ctx context.Context, req *connect.Request[apiv1.TaskLogsRequest], stream *connect.ServerStream[apiv1.TaskLogsResponse]) error {
	m := req.Msg
	switch m.GetStream() {
	case "", "stdout", "stderr":
	default:
		return invalid("the request", unknownWord("stream", m.GetStream(), "stdout", "stderr"))
	}
	state := v.view()
	t, err := find(state, m.GetTask())
	if err != nil {
		return err
	}
	if !t.Placed() {
		return &engine.OpError{Kind: engine.Refused, Message: fmt.Sprintf("task %s has no node yet", t.ID), Hint: fmt.Sprintf("task why %s says what it waits for", t.ID)}
	}
	ask := &agentv1.LogRequest{Task: string(t.ID), Stream: m.GetStream(), Follow: m.GetFollow(), Tail: m.GetTail()}
	if m.GetSince() != nil {
		ask.SinceUnixNs = m.GetSince().AsTime().UnixNano()
	}
	logs, err := v.opts.Logs.OpenLogs(ctx, t.Placement.Node, ask)
	if err != nil {
		return &engine.OpError{Kind: engine.Refused, Message: err.Error(), Hint: fmt.Sprintf("the logs are on node %s; see whether it is ready", nodeName(state, t.Placement.Node))}
	}
	defer logs.Close()
	// An empty message says that the stream stands: a task may print nothing for long.
	if err := stream.Send(&apiv1.TaskLogsResponse{}); err != nil {
		return err
	}
	return copyLogs(logs, stream)
}

func copyLogs(logs io.Reader, stream *connect.ServerStream[apiv1.TaskLogsResponse]) error {
	buf := make([]byte, logChunk)
	for {
		n, err := logs.Read(buf)
		if n > 0 {
			if err := stream.Send(&apiv1.TaskLogsResponse{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			return &engine.OpError{Kind: engine.Refused, Message: err.Error()}
		}
	}
}
