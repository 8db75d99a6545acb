package sdktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Class is a class that the plugin keeps an answer for.
type Class struct {
	host *Host
	id   uint32
}

// AddClass registers a class and waits for its first answer.
func (h *Host) AddClass(req sdk.CompileRequest) *Class {
	h.t.Helper()
	c := h.RegisterClass(req)
	c.await()
	return c
}

// RegisterClass registers a class without waiting.
func (h *Host) RegisterClass(req sdk.CompileRequest) *Class {
	h.t.Helper()
	h.mu.Lock()
	h.lastID++
	c := &Class{host: h, id: uint32(h.lastID)}
	h.classes[c.id] = &classState{revision: 1}
	h.mu.Unlock()
	h.sendClasses(&pluginv1.Classes{Add: []*pluginv1.Class{wireClass(c.id, 1, req)}})
	return c
}

// Replace gives the class another content and waits for the answer to it.
func (c *Class) Replace(req sdk.CompileRequest) {
	h := c.host
	h.t.Helper()
	h.mu.Lock()
	revision := h.classes[c.id].revision + 1
	h.classes[c.id] = &classState{revision: revision}
	h.mu.Unlock()
	h.sendClasses(&pluginv1.Classes{Add: []*pluginv1.Class{wireClass(c.id, revision, req)}})
	c.await()
}

// Remove withdraws the class.
func (c *Class) Remove() {
	h := c.host
	h.t.Helper()
	h.mu.Lock()
	delete(h.classes, c.id)
	h.mu.Unlock()
	h.sendClasses(&pluginv1.Classes{Remove: []uint32{c.id}})
}

func (c *Class) await() {
	h := c.host
	h.t.Helper()
	h.await(fmt.Sprintf("an answer about class %d", c.id), func() bool { return h.classes[c.id].answered })
}

// Answer returns the latest answer. Settle or WaitApplied make sure that it is about the latest nodes.
func (c *Class) Answer() Answer {
	h := c.host
	h.t.Helper()
	h.mu.Lock()
	a, err := h.classes[c.id].answer(h.mirror.nodes)
	h.mu.Unlock()
	h.must(fmt.Sprintf("answer of class %d", c.id), err)
	return a
}

// Answered reports whether the class has an answer, a failure included.
func (c *Class) Answered() bool {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	return c.host.classes[c.id].answered
}

// Messages returns how many answers about the class have come, parts counted once and failures not.
func (c *Class) Messages() int {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	return c.host.classes[c.id].messages
}

// ID returns the number under which the class is known to the plugin.
func (c *Class) ID() uint32 { return c.id }

func (h *Host) sendClasses(m *pluginv1.Classes) {
	h.t.Helper()
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Classes{Classes: m}})
}

func wireClass(id uint32, revision uint64, req sdk.CompileRequest) *pluginv1.Class {
	return &pluginv1.Class{Id: id, Revision: revision, Request: &pluginv1.CompileRequest{
		JobType: req.JobType, Labels: req.Labels, SettingsJson: string(req.Settings),
	}}
}

// drainQuestion makes the question about a node.
func (h *Host) drainQuestion(req sdk.DrainRequest) *pluginv1.DrainQuestion {
	h.mu.Lock()
	q := &pluginv1.DrainQuestion{
		Revision: h.revision, Node: h.mirror.index[req.Node.ID], WaitedNs: int64(req.Waited), DeadlineNs: int64(req.Deadline),
	}
	h.mu.Unlock()
	for _, t := range req.Tasks {
		q.Tasks = append(q.Tasks, &pluginv1.DrainTask{
			Id: string(t.ID), Job: t.Job, JobType: t.JobType, Slot: string(t.Slot), Priority: int64(t.Priority), OnDrain: string(t.OnDrain),
			Desired: t.Desired.String(), Observed: t.Observed.String(), Healthy: t.Healthy, Labels: t.Labels, SettingsJson: string(t.Settings),
		})
	}
	return q
}

// Drain asks a drainer about a node.
func (h *Host) Drain(req sdk.DrainRequest) (*pluginv1.DrainAnswer, *pluginv1.Failure) {
	h.t.Helper()
	q := h.drainQuestion(req)
	return drainAnswer(h.ask(&pluginv1.Question{Ask: &pluginv1.Question_Drain{Drain: q}}))
}

// drainAnswer puts the parts of an answer together.
func drainAnswer(parts []*pluginv1.Answer) (*pluginv1.DrainAnswer, *pluginv1.Failure) {
	out := &pluginv1.DrainAnswer{}
	for _, p := range parts {
		if f := p.GetFailure(); f != nil {
			return nil, f
		}
		d := p.GetDrain()
		out.Revision, out.UntilNs = d.GetRevision(), d.GetUntilNs()
		out.Transitions = append(out.Transitions, d.GetTransitions()...)
		out.Kept = append(out.Kept, d.GetKept()...)
	}
	return out, nil
}

// Try asks a trial question: classes on the plugin's nodes, of which those given are replaced. Nothing of it is kept.
func (h *Host) Try(reqs []sdk.CompileRequest, nodes ...*cluster.Node) []Answer {
	h.t.Helper()
	q := &pluginv1.TrialQuestion{}
	for i, req := range reqs {
		q.Classes = append(q.Classes, wireClass(uint32(i), 1, req))
	}
	h.mu.Lock()
	all, table, revision := slices.Clone(h.mirror.nodes), newMirror(h.about.Watches), h.revision
	for _, n := range nodes {
		i, ok := h.mirror.index[n.ID]
		if !ok {
			i = uint32(len(all))
			all = append(all, nil)
		}
		all[i] = n
		q.Nodes = append(q.Nodes, table.encode(i, n))
	}
	h.mu.Unlock()
	q.Strings = table.fresh
	out, err := trialAnswers(h.ask(&pluginv1.Question{Ask: &pluginv1.Question_Trial{Trial: q}}), all, q.Classes, revision)
	h.must("trial", err)
	return out
}

func trialAnswers(parts []*pluginv1.Answer, nodes []*cluster.Node, classes []*pluginv1.Class, revision uint64) ([]Answer, error) {
	states := make(map[uint32]*classState, len(classes))
	for _, c := range classes {
		states[c.Id] = &classState{}
	}
	find := func(i uint32) (*cluster.Node, error) {
		if int(i) >= len(nodes) || nodes[i] == nil {
			return nil, fmt.Errorf("node %d is unknown", i)
		}
		return nodes[i], nil
	}
	for _, p := range parts {
		if f := p.GetFailure(); f != nil {
			return nil, errors.New(failureText(f))
		}
		for _, c := range p.GetTrial().GetClasses() {
			if states[c.Class] == nil {
				return nil, fmt.Errorf("class %d was not asked about", c.Class)
			}
			if err := states[c.Class].take(c, revision, find); err != nil {
				return nil, err
			}
		}
	}
	out := make([]Answer, len(classes))
	for i, c := range classes {
		var err error
		if out[i], err = states[c.Id].answer(nodes); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func compileRequest(req *pluginv1.CompileRequest) sdk.CompileRequest {
	return sdk.CompileRequest{JobType: req.GetJobType(), Labels: req.GetLabels(), Settings: sdk.Settings(req.GetSettingsJson())}
}

// ask sends a question and waits for all parts of its answer.
func (h *Host) ask(q *pluginv1.Question) []*pluginv1.Answer {
	h.t.Helper()
	h.mu.Lock()
	h.lastID++
	q.Id = h.lastID
	h.mu.Unlock()
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Question{Question: q}})
	var parts []*pluginv1.Answer
	h.await(fmt.Sprintf("an answer to question %d", q.Id), func() bool {
		parts = h.answers[q.Id]
		return len(parts) > 0 && !parts[len(parts)-1].More
	})
	return parts
}

// askAndCancel asks a question and withdraws it at once.
func (h *Host) askAndCancel(q *pluginv1.Question) {
	h.t.Helper()
	h.mu.Lock()
	h.lastID++
	q.Id = h.lastID
	h.mu.Unlock()
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Question{Question: q}})
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Cancel{Cancel: &pluginv1.Cancel{Question: q.Id}}})
}

// Stop asks the plugin to end within a grace.
func (h *Host) Stop(grace time.Duration) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.Patience)
	defer cancel()
	_, err := h.client.Stop(ctx, &pluginv1.StopRequest{GraceNs: int64(grace)})
	h.must("stop", err)
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
