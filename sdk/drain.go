package sdk

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// drainRequest makes the author's request of a question.
func (s *session) drainRequest(node *cluster.Node, msg *pluginv1.DrainQuestion) (DrainRequest, error) {
	req := DrainRequest{Node: node, Waited: time.Duration(msg.WaitedNs), Deadline: time.Duration(msg.DeadlineNs)}
	for _, t := range msg.Tasks {
		desired, err := desiredState(t.Desired)
		if err != nil {
			return DrainRequest{}, fmt.Errorf("task %s: %w", t.Id, err)
		}
		observed, err := observedState(t.Observed)
		if err != nil {
			return DrainRequest{}, fmt.Errorf("task %s: %w", t.Id, err)
		}
		task := DrainTask{
			ID: cluster.TaskID(t.Id), Job: t.Job, JobType: t.JobType, Slot: cluster.SlotKey(t.Slot), Priority: int(t.Priority),
			OnDrain: cluster.OnDrain(t.OnDrain), Desired: desired, Observed: observed, Healthy: t.Healthy, Labels: t.Labels,
			Settings: Settings(t.SettingsJson),
		}
		if task.Settings != "" {
			if full, err := s.plugin.Job.complete(task.Settings); err == nil {
				task.Settings = full
			}
		}
		req.Tasks = append(req.Tasks, task)
	}
	return req, nil
}

func desiredState(word string) (cluster.DesiredState, error) {
	for d := cluster.DesiredNone; d <= cluster.DesiredRemove; d++ {
		if d.String() == word {
			return d, nil
		}
	}
	return 0, fmt.Errorf("desired state %q is unknown", word)
}

func observedState(word string) (cluster.ObservedState, error) {
	for o := cluster.ObservedNone; o <= cluster.Stopped; o++ {
		if o.String() == word {
			return o, nil
		}
	}
	return 0, fmt.Errorf("observed state %q is unknown", word)
}

// drainAnswers checks what the author said and divides it into messages that fit.
func drainAnswers(plugin string, msg *pluginv1.DrainQuestion, resp DrainResponse, limit int) ([]*pluginv1.Answer, error) {
	known := make(map[string]bool, len(msg.Tasks))
	for _, t := range msg.Tasks {
		known[t.Id] = true
	}
	var out []*pluginv1.Answer
	var part *pluginv1.DrainAnswer
	room := 0
	take := func(m proto.Message) *pluginv1.DrainAnswer {
		size := proto.Size(m) + perEntry
		if room -= size; part == nil || room < 0 {
			part, room = &pluginv1.DrainAnswer{Revision: msg.Revision, UntilNs: int64(max(resp.Again, 0))}, limit-perMessage-size
			out = append(out, &pluginv1.Answer{Answer: &pluginv1.Answer_Drain{Drain: part}})
		}
		return part
	}
	for _, t := range resp.Transitions {
		w, err := wireTransition(t)
		if err != nil {
			return nil, err
		}
		if !known[w.Task] {
			return nil, fmt.Errorf("transition of task %q: it is not on the node", w.Task)
		}
		p := take(w)
		p.Transitions = append(p.Transitions, w)
	}
	for _, k := range resp.Keep {
		if !known[string(k.Task)] || k.Why == nil {
			return nil, fmt.Errorf("kept task %q: it is not on the node, or no reason is given", k.Task)
		}
		w := &pluginv1.Kept{Task: string(k.Task), Stall: wireStall(plugin, k.Why)}
		p := take(w)
		p.Kept = append(p.Kept, w)
	}
	if part == nil {
		take(&pluginv1.Transition{})
	}
	return out, nil
}

func wireTransition(t Transition) (*pluginv1.Transition, error) {
	to := t.To
	switch to {
	case cluster.DesiredNone:
		to = cluster.DesiredShutdown
	case cluster.DesiredShutdown, cluster.DesiredRemove:
	default:
		return nil, errors.New("transition to " + to.String() + ": a task can go to shutdown or remove only")
	}
	grace := int64(t.Grace)
	switch {
	case t.Grace == 0:
		grace = -1
	case t.Grace < 0:
		grace = 0
	}
	return &pluginv1.Transition{Task: string(t.Task), To: to.String(), Forced: t.Forced, Reason: cut(t.Reason), GraceNs: grace}, nil
}
