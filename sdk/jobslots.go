package sdk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// job is a job whose slots the plugin decides, and its answer. Owner: the session's loop.
type job struct {
	standing
	revision uint64
	msg      *pluginv1.Job   // as it was given
	ctx      context.Context //nolint:containedctx // of all computations about the job
	plugin   *Plugin
	deadline time.Duration
	ask      Job

	slots []*pluginv1.Slot // by key
	stall *pluginv1.Stall  // holds the job
	again time.Duration

	told  bool              // slots were sent
	known []*pluginv1.Slot  // as sent, by key
	held  bool              // the last message was a stall or a failure
	fresh map[uint32]uint64 // indexes that another node uses since that revision, not told yet
}

func newJob(ctx context.Context, p *Plugin, msg *pluginv1.Job, deadline time.Duration) *job {
	j := &job{revision: msg.Revision, msg: msg, plugin: p, deadline: deadline}
	j.name = "job " + msg.Name
	j.ask = Job{
		Name: msg.Name, Type: msg.Type, Count: int(msg.Count), Labels: msg.Labels, Settings: Settings(msg.SettingsJson),
	}
	if msg.CreatedUnixNs != 0 {
		j.ask.Created = time.Unix(0, msg.CreatedUnixNs).UTC()
	}
	j.ctx, j.stop = context.WithCancel(ctx)
	return j
}

func (j *job) state() *standing { return &j.standing }

func (j *job) prepare(v *view, _ changes) computation { return &slotting{job: j, view: v} }

// slotting is one asking of a job type about a job.
type slotting struct {
	job  *job
	view *view
	out  slotsAnswer
	err  error
}

func (s *slotting) compute() {
	s.err = guard(func() error { return s.job.compute(s.view, &s.out) })
}

func (s *slotting) take() (time.Duration, error) {
	if s.err != nil {
		return 0, s.err
	}
	j := s.job
	if s.out.stall == nil {
		j.slots = s.out.slots
	}
	j.stall, j.again = s.out.stall, s.out.again
	j.unsent = j.unsent || j.news()
	return j.again, nil
}

// slotsAnswer is the result of one asking of a job type.
type slotsAnswer struct {
	slots []*pluginv1.Slot
	stall *pluginv1.Stall
	again time.Duration
}

func (j *job) compute(v *view, out *slotsAnswer) error {
	ctx, cancel := context.WithTimeout(j.ctx, j.deadline)
	defer cancel()
	req := SlotsRequest{Job: j.ask, Nodes: v.byID()}
	if req.Job.Settings != "" {
		full, err := j.plugin.Job.complete(req.Job.Settings)
		if err != nil {
			out.stall = wireStall(j.plugin.Name, badSettings(err))
			return nil
		}
		req.Job.Settings = full
	}
	resp, err := j.plugin.JobTypes[j.ask.Type].Slots(ctx, req)
	if s, ok := asStall(err); ok && s != nil {
		out.stall = wireStall(j.plugin.Name, s)
		return nil
	} else if !ok && err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	out.again = resp.Again
	out.slots, err = wireSlots(j.plugin.Name, resp.Slots, v)
	return err
}

// wireSlots checks slots and sorts them by key.
func wireSlots(plugin string, slots []Slot, v *view) ([]*pluginv1.Slot, error) {
	out, block := make([]*pluginv1.Slot, len(slots)), make([]pluginv1.Slot, len(slots))
	indexes := make([]uint32, 0, len(slots)) // of slots with one node each, as most have
	for i := range slots {
		s := &slots[i]
		if s.Key == "" {
			return nil, fmt.Errorf("slot %d of the answer has no key", i)
		}
		w := &block[i]
		w.Key, w.Ends = string(s.Key), s.Ends
		first := len(indexes)
		for _, id := range s.Nodes {
			index, ok := v.index(id)
			if !ok {
				return nil, fmt.Errorf("slot %q names the node %q, which does not exist", s.Key, id)
			}
			indexes = append(indexes, index)
		}
		w.Nodes = indexes[first:len(indexes):len(indexes)]
		slices.Sort(w.Nodes)
		w.Nodes = slices.Compact(w.Nodes)
		if s.Held != nil {
			w.Stall = wireStall(plugin, s.Held)
		}
		out[i] = w
	}
	slices.SortFunc(out, func(a, b *pluginv1.Slot) int { return cmp.Compare(a.Key, b.Key) })
	for i := 1; i < len(out); i++ {
		if out[i].Key == out[i-1].Key {
			return nil, fmt.Errorf("slot %q is named twice", out[i].Key)
		}
	}
	return out, nil
}

// renamed notes that indexes belong to other nodes from a revision on, so that slots that name them are told again.
func (j *job) renamed(ch changes, revision uint64) {
	for _, n := range ch.nodes {
		if n.fresh {
			if j.fresh == nil {
				j.fresh = make(map[uint32]uint64)
			}
			j.fresh[n.index] = revision
		}
	}
}

// messages returns what is to be said about the job's slots, in parts that fit, and notes that it has been said.
func (j *job) messages(limit int) []*pluginv1.Slots {
	j.unsent = false
	head := &pluginv1.Slots{Revision: j.at, Job: j.ask.Name, JobRevision: j.revision, Failure: j.failed}
	if j.failed != nil {
		head.Delta, j.held = true, true
		return []*pluginv1.Slots{head}
	}
	head.Stall, head.UntilNs = j.stall, int64(j.again)
	if j.held = j.stall != nil; j.held {
		head.Delta = true
		return []*pluginv1.Slots{head}
	}
	upsert, remove := j.slots, []string(nil)
	if j.told {
		head.Delta = true
		upsert, remove = j.changes()
	}
	j.told, j.known = true, j.slots
	maps.DeleteFunc(j.fresh, func(_ uint32, since uint64) bool { return since <= j.at })
	return slotParts(head, upsert, remove, limit)
}

// news reports whether an answer differs from what was told.
func (j *job) news() bool {
	if !j.told || j.held || j.stall != nil {
		return true
	}
	upsert, remove := j.changes()
	return len(upsert) > 0 || len(remove) > 0
}

// changes returns what to add or replace and what to remove to make the slots of those that are known; both are sorted by key.
func (j *job) changes() (upsert []*pluginv1.Slot, remove []string) {
	i := 0
	for _, slot := range j.slots {
		for i < len(j.known) && j.known[i].Key < slot.Key {
			remove = append(remove, j.known[i].Key)
			i++
		}
		if i < len(j.known) && j.known[i].Key == slot.Key {
			if !j.same(j.known[i], slot) {
				upsert = append(upsert, slot)
			}
			i++
			continue
		}
		upsert = append(upsert, slot)
	}
	for ; i < len(j.known); i++ {
		remove = append(remove, j.known[i].Key)
	}
	return upsert, remove
}

func (j *job) same(a, b *pluginv1.Slot) bool {
	if a.Ends != b.Ends || !slices.Equal(a.Nodes, b.Nodes) || (a.Stall != nil || b.Stall != nil) && !proto.Equal(a.Stall, b.Stall) {
		return false
	}
	return len(j.fresh) == 0 || !slices.ContainsFunc(b.Nodes, func(n uint32) bool { return j.fresh[n] > 0 })
}

// slotParts divides an answer into messages that fit.
func slotParts(head *pluginv1.Slots, upsert []*pluginv1.Slot, remove []string, limit int) []*pluginv1.Slots {
	out := []*pluginv1.Slots{head}
	room := limit - perMessage
	next := func(size int) {
		if room -= size; room < 0 && (len(head.Upsert) > 0 || len(head.Remove) > 0) {
			head.More = true
			head = &pluginv1.Slots{Revision: head.Revision, Job: head.Job, JobRevision: head.JobRevision, Delta: true}
			out, room = append(out, head), limit-perMessage-size
		}
	}
	for _, key := range remove {
		next(len(key) + perEntry)
		head.Remove = append(head.Remove, key)
	}
	for _, slot := range upsert {
		next(proto.Size(slot) + perEntry)
		head.Upsert = append(head.Upsert, slot)
	}
	return out
}
