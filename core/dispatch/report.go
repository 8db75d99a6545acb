package dispatch

import (
	"context"
	"strings"
	"unicode"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxText is how much of a report's message and error is kept, in bytes: they are for people, and stored with the task.
const maxText = 2048

// report passes a report on; it is acknowledged once it is durable. While the engine's queue is full nothing more is read of this agent.
func (s *session) report(ctx context.Context, r *agentv1.Report) error {
	if r.GetNumber() != s.reports+1 {
		return protocolError("report %d follows report %d", r.GetNumber(), s.reports)
	}
	if r.GetFull() == s.complete {
		return protocolError("report %d: the full report begins a session, and comes once", r.GetNumber())
	}
	tasks, err := statuses(r.GetTasks())
	if err != nil {
		return err
	}
	s.reports = r.GetNumber()
	last := r.GetFull() && !r.GetMore()
	s.complete = s.complete || last
	number := r.GetNumber()
	s.forgetUnknown(tasks)
	return s.d.opts.Engine.Send(ctx, engine.AgentReports{
		Node: s.node, Session: s.number, Full: r.GetFull(), Last: last,
		Tasks: tasks, Strays: taskIDs(r.GetStrays()),
		Received: func() { s.out.acknowledge(number) },
	})
}

// forgetUnknown has the agent forget what it reports and nobody has a record of. Ids are never used twice, and an agent hears of a task
// after its commit only; so a record that is not there is gone for good.
func (s *session) forgetUnknown(tasks []engine.TaskReport) {
	state := s.d.opts.Engine.View()
	for _, t := range tasks {
		if state.Task(t.Task) == nil {
			s.out.remove(t.Task)
		}
	}
}

func statuses(in []*agentv1.TaskStatus) ([]engine.TaskReport, error) {
	out := make([]engine.TaskReport, 0, len(in))
	for _, t := range in {
		state := cluster.ObservedState(t.GetState())
		if t.GetState() == uint32(cluster.ObservedNone) || t.GetState() > uint32(cluster.Stopped) {
			return nil, protocolError("task %q: observed state %d does not exist", t.GetTask(), t.GetState())
		}
		id := cluster.TaskID(t.GetTask())
		if _, _, _, err := id.Parts(); err != nil {
			return nil, protocolError("%v", err)
		}
		out = append(out, engine.TaskReport{
			Task: id, State: state, Message: clip(t.GetMessage()), Err: clip(t.GetErr()),
			ExitCode: int(t.GetExitCode()), Healthy: t.GetHealthy(),
		})
	}
	return out, nil
}

func taskIDs(in []string) []cluster.TaskID {
	out := make([]cluster.TaskID, len(in))
	for i, id := range in {
		out[i] = cluster.TaskID(id)
	}
	return out
}

// clip returns an agent's text as it may be stored and shown: valid UTF-8 of at most maxText bytes, cut at a whole character, without control characters, which could do things to a terminal:
// what a health check or a task's driver prints is among it.
func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
