package pluginhost

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpointd/setpoint/core/engine"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Trial asks a filter what it would say of classes, on its mirror's nodes with some of them replaced by what they might be; nothing of it is kept. The answers
// come in the order of the classes, and each stands for all nodes: no answer holds Flips. It fails with ErrUnknownPlugin, with ErrAway, or with what the
// plugin says.
func (h *Host) Trial(ctx context.Context, plugin string, classes []engine.Class, nodes []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	s := h.supervisor(plugin)
	if s == nil {
		return nil, fmt.Errorf("trial with plugin %s: %w", plugin, ErrUnknownPlugin)
	}
	t := &trial{classes: classes, nodes: nodes, reply: make(chan trialReply, 1)}
	if !s.outbox.ask(t) {
		return nil, fmt.Errorf("trial with plugin %s: %w", plugin, ErrAway)
	}
	select {
	case r := <-t.reply:
		if r.err != nil {
			return nil, fmt.Errorf("trial with plugin %s: %w", plugin, r.err)
		}
		return r.verdicts, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("trial with plugin %s: %w", plugin, ctx.Err())
	}
}

// trialTable is a mirror with other nodes besides.
type trialTable struct {
	nodeTable
	more map[uint32]bool
}

func (t trialTable) size() int {
	n := t.nodeTable.size()
	for i := range t.more {
		n = max(n, int(i)+1)
	}
	return n
}

func (t trialTable) present(i uint32, at uint64) (yes, sure bool) {
	if t.more[i] {
		return true, true
	}
	return t.nodeTable.present(i, at)
}

// trial checks one part of an answer to a trial, and keeps it for finish.
func (c *checker) trial(t *trial, a *pluginv1.TrialAnswer, at uint64) error {
	more := map[uint32]bool{}
	for _, n := range t.nodes {
		more[n.Index] = n.Node != nil
	}
	check := &checker{names: c.names, table: trialTable{nodeTable: c.table, more: more}}
	if t.answers == nil {
		t.answers = map[uint32]*trialAnswer{}
	}
	for _, v := range a.GetClasses() {
		if !t.asks(v.Class) {
			return lief("it answers about class %d, which it was not asked about", v.Class)
		}
		x := t.answers[v.Class]
		if x == nil {
			x = &trialAnswer{}
			t.answers[v.Class] = x
		}
		if x.whole {
			return lief("it answers twice about class %d", v.Class)
		}
		part, on, err := check.verdict(v, at, x.on)
		if err != nil {
			return err
		}
		x.verdict, x.on, x.whole = join(x.verdict, part), on, !v.More
		if x.whole {
			if err := check.complete(x.verdict, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// trialAnswer is what was said of one class so far.
type trialAnswer struct {
	verdict engine.ClassVerdict
	on      base
	whole   bool
}

func (t *trial) asks(class uint32) bool {
	for _, c := range t.classes {
		if c.ID == class {
			return true
		}
	}
	return false
}

// finish tells who asked.
func (t *trial) finish(plugin string, failed *pluginv1.Failure, check *checker, err error) {
	if failed != nil && err == nil {
		err = errors.New(check.failure(failed).Message)
	}
	if err != nil {
		t.fail(err)
		return
	}
	var out []engine.ClassVerdict
	for _, c := range t.classes {
		x := t.answers[c.ID]
		if x == nil || !x.whole {
			t.fail(invalid("plugin %s leaves class %d of the trial without an answer", plugin, c.ID))
			return
		}
		out = append(out, x.verdict)
	}
	t.done(trialReply{verdicts: out})
}
