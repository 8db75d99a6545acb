package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
)

// answers is an engine for a session whose answers are looked at and not acted upon. Safe for use by several goroutines.
type answers struct {
	ask  *engine.Rehearsal
	done chan struct{} // closed once everything was answered

	mu      sync.Mutex // guards what follows
	applied bool
	classes map[uint32]engine.ClassVerdict
	slots   map[string]*engine.PluginSlots
	drains  map[uint64]engine.PluginDrain // by question
}

func newAnswers(ask *engine.Rehearsal) *answers {
	return &answers{
		ask: ask, done: make(chan struct{}), classes: map[uint32]engine.ClassVerdict{}, slots: map[string]*engine.PluginSlots{},
		drains: map[uint64]engine.PluginDrain{},
	}
}

// Send takes one answer.
func (a *answers) Send(_ context.Context, in engine.Input) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch in := in.(type) {
	case engine.PluginApplied:
		a.applied = a.applied || in.Revision >= a.ask.Update.Revision
	case engine.PluginVerdicts:
		for _, v := range in.Classes {
			if old, ok := a.classes[v.Class]; ok && old.Failure == nil {
				if v.Failure != nil {
					continue
				}
				v = join(old, v)
			}
			a.classes[v.Class] = v
		}
	case engine.PluginSlots:
		old := a.slots[in.Job]
		switch {
		case old == nil || old.Failure != nil || in.Stall != nil || in.Failure == nil && !in.Delta:
			a.slots[in.Job] = &in
		case in.Failure == nil:
			a.slots[in.Job] = joinSlots(old, &in)
		}
	case engine.PluginDrain:
		a.drains[in.Question] = in
	}
	if a.complete() {
		select {
		case <-a.done:
		default:
			close(a.done)
		}
	}
	return nil
}

// complete is called with the lock held.
func (a *answers) complete() bool {
	u := &a.ask.Update
	return a.applied && len(a.classes) >= len(u.AddClasses) && len(a.slots) >= len(u.AddJobs) && len(a.drains) >= len(u.Drains)
}

var errRehearsed = errors.New("everything was answered")

// rehearse has a process answer everything that it would be asked now, in a session of its own that nobody acts upon. The error is a *failure, or ctx's.
func (s *supervisor) rehearse(ctx context.Context, o *opened) (*answers, error) {
	if s.cfg.Rehearse == nil {
		return nil, unavailable("plugin %s: nobody can say what it would be asked", s.name)
	}
	about := o.instance.about
	ask, err := s.cfg.Rehearse(ctx, engine.Rehearse{Plugin: s.name, Filter: about.filter, Drainer: about.drainer, JobTypes: about.jobTypes})
	if err != nil {
		return nil, fmt.Errorf("ask what plugin %s would be asked: %w", s.name, err)
	}
	a := newAnswers(&ask)
	box := newOutbox()
	box.begin(1)
	update := ask.Update
	update.Session = 1
	box.merge(update)
	talk, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-a.done:
			cancel(errRehearsed)
		case <-talk.Done():
		}
	})
	err = newSession(s.conversation(o.instance, 1, a, box, &stats{})).run(talk, o.stream, o.hangUp)
	select {
	case <-a.done: // whatever ended the session afterwards
		return a, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, o.instance.why(err)
}

const shownFailures = 3 // in the text of one error

// worse returns why a process must not take over, given what it has answered: it fails where the plugin that serves now does not.
func (a *answers) worse() error {
	var bad []string
	add := func(what string, f *engine.FailureAnswer) { bad = append(bad, fmt.Sprintf("%s: %s", what, f.Message)) }
	for _, id := range sortedKeys(a.classes) {
		said := a.ask.Classes[id]
		if f := a.classes[id].Failure; f != nil && said.Answered && said.Failure == nil {
			add("the verdicts for "+jobsText(said.Jobs), f)
		}
	}
	for _, job := range sortedKeys(a.slots) {
		said := a.ask.Slots[job]
		if f := a.slots[job].Failure; f != nil && said.Answered && said.Failure == nil {
			add("the slots of job "+job, f)
		}
	}
	for _, q := range a.ask.Update.Drains {
		said := a.ask.Drains[q.Node]
		if f := a.drains[q.ID].Failure; f != nil && said.Answered && said.Failure == nil {
			add("what leaves node "+a.nodeName(q.Node), f)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	text := strings.Join(bad[:min(len(bad), shownFailures)], "; ")
	if more := len(bad) - shownFailures; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return unavailable("it cannot answer what the plugin that serves now answers: %s", text)
}

func jobsText(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0]
	}
	shown := jobs[:min(len(jobs), 3)]
	if more := len(jobs) - len(shown); more > 0 {
		return fmt.Sprintf("jobs %s and %d more", strings.Join(shown, ", "), more)
	}
	return "jobs " + strings.Join(shown, ", ")
}

// nodeName returns the name of the node with an index.
func (a *answers) nodeName(index uint32) string {
	nodes := a.ask.Update.Nodes
	i, ok := slices.BinarySearchFunc(nodes, index, func(n engine.IndexedNode, i uint32) int { return cmp.Compare(n.Index, i) })
	if !ok || nodes[i].Node == nil {
		return fmt.Sprintf("#%d", index)
	}
	return nodes[i].Node.Spec.Name
}

// nodeNames returns the names of nodes with indexes, in order; empty: none.
func (a *answers) nodeNames(indexes []uint32) []string {
	var out []string
	for _, i := range indexes {
		out = append(out, a.nodeName(i))
	}
	return out
}
