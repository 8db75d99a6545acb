package pluginhost

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const maxSlotKey = 256 // bytes

// slots checks one message about a job.
func (c *checker) slots(m *pluginv1.Slots, based bool) (*engine.PluginSlots, error) {
	out := &engine.PluginSlots{
		Name: c.names.configured, Revision: coreRevision(max(m.Revision, 1)), Job: m.Job, JobRevision: cluster.Revision(m.JobRevision), Delta: m.Delta,
	}
	if m.Failure != nil {
		out.Failure = c.failure(m.Failure)
		return out, nil
	}
	if m.Stall != nil {
		out.Stall, out.Delta = c.stall(m.Stall), true
		return out, nil // earlier slots stay as they are, held
	}
	if m.Delta && !based {
		return nil, lief("it changes slots that it has not named")
	}
	seen := make(map[cluster.SlotKey]bool, len(m.Upsert))
	for _, s := range m.Upsert {
		slot, err := c.slot(s, m.Revision)
		if err != nil {
			return nil, err
		}
		if seen[slot.Key] {
			return nil, lief("slot %q is named twice", slot.Key)
		}
		seen[slot.Key] = true
		out.Upsert = append(out.Upsert, slot)
	}
	for _, key := range m.Remove {
		if err := checkSlotKey(key); err != nil {
			return nil, err
		}
		if seen[cluster.SlotKey(key)] {
			return nil, lief("slot %q is both named and removed", key)
		}
		out.Remove = append(out.Remove, cluster.SlotKey(key))
	}
	return out, nil
}

func (c *checker) slot(s *pluginv1.Slot, at uint64) (engine.SlotAnswer, error) {
	if err := checkSlotKey(s.GetKey()); err != nil {
		return engine.SlotAnswer{}, err
	}
	out := engine.SlotAnswer{Key: cluster.SlotKey(s.Key), Ends: s.Ends}
	for _, i := range s.Nodes {
		if !c.known(i, at) {
			return out, lief("slot %q names node %d, which does not exist", s.Key, i)
		}
	}
	out.Nodes = slices.Compact(slices.Sorted(slices.Values(s.Nodes)))
	if s.Stall != nil {
		out.Stall = c.stall(s.Stall)
	}
	return out, nil
}

func checkSlotKey(key string) error {
	switch {
	case key == "":
		return lief("a slot has no key")
	case len(key) > maxSlotKey:
		return lief("a slot's key has %d bytes; the limit is %d", len(key), maxSlotKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r == '\n' || r == ' ' || unprintable(r) }):
		return lief("slot key %q has a character that cannot be shown", key)
	}
	return nil
}

// joinSlots adds a part of an answer about a job to those before it.
func joinSlots(a, part *engine.PluginSlots) *engine.PluginSlots {
	if a == nil {
		return part
	}
	if part.Failure != nil || part.Stall != nil {
		return part
	}
	upsert := make(map[cluster.SlotKey]engine.SlotAnswer, len(a.Upsert)+len(part.Upsert))
	remove := make(map[cluster.SlotKey]struct{}, len(a.Remove)+len(part.Remove))
	for _, p := range []*engine.PluginSlots{a, part} {
		for _, key := range p.Remove {
			delete(upsert, key)
			remove[key] = struct{}{}
		}
		for _, s := range p.Upsert {
			delete(remove, s.Key)
			upsert[s.Key] = s
		}
	}
	out := *a
	out.Upsert, out.Remove = nil, sortedKeys(remove)
	for _, key := range slices.Sorted(maps.Keys(upsert)) {
		out.Upsert = append(out.Upsert, upsert[key])
	}
	return &out
}

// drain checks one part of an answer to a drain question.
func (c *checker) drain(q *question, a *pluginv1.DrainAnswer, into *engine.PluginDrain) error {
	if a.GetRevision() != wireRevision(q.drain.Revision) {
		return lief("it answers for revision %d, and was asked for %d", a.GetRevision(), wireRevision(q.drain.Revision))
	}
	for _, t := range a.Transitions {
		tr, err := c.transition(q, t)
		if err != nil {
			return err
		}
		k := slices.IndexFunc(into.Transitions, func(x cluster.Transition) bool { return x.Task == tr.Task })
		if k >= 0 {
			into.Transitions[k] = cluster.Join(into.Transitions[k], tr)
			continue
		}
		into.Transitions = append(into.Transitions, tr)
	}
	for _, k := range a.Kept {
		if q.tasks[k.GetTask()] == nil {
			return lief("it keeps task %q, which it was not asked about", clean(k.GetTask()))
		}
		into.Kept = append(into.Kept, engine.KeptAnswer{Task: cluster.TaskID(k.Task), Stall: *c.stall(k.Stall)})
	}
	if a.UntilNs > 0 {
		into.Until = max(time.Duration(a.UntilNs), shortestUntil)
	}
	return nil
}

const shortestUntil = 100 * time.Millisecond // a plugin that wants to be asked more often has to wait

func (c *checker) transition(q *question, t *pluginv1.Transition) (cluster.Transition, error) {
	task := q.tasks[t.GetTask()]
	if task == nil {
		return cluster.Transition{}, lief("it moves task %q, which it was not asked about", clean(t.GetTask()))
	}
	out := cluster.Transition{
		Task: task.ID, Strength: cluster.Voluntary, Reason: clean(t.Reason), By: c.names.configured, Cause: cluster.CauseDrain,
		Grace: max(time.Duration(t.GraceNs), -1),
	}
	if t.Forced {
		out.Strength = cluster.Forced
	}
	switch t.To {
	case cluster.DesiredShutdown.String():
		out.To = cluster.DesiredShutdown
	case cluster.DesiredRemove.String():
		out.To = cluster.DesiredRemove
	default:
		return out, lief("it wants task %s at %q; a task can only be moved to shutdown or remove", task.ID, clean(t.To))
	}
	if task.Desired.State == out.To {
		return out, nil // it stands there already, which another may have asked for meanwhile
	}
	if !task.Desired.State.Before(out.To) {
		return out, lief("it wants task %s at %s, which is behind %s", task.ID, out.To, task.Desired.State)
	}
	return out, nil
}
