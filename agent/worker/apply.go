package worker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Orders are what the server says about tasks at one moment.
type Orders struct {
	Revision    cluster.Revision
	Full        bool // what is not named here is to be stopped
	Assignments []state.Assignment
	Remove      []cluster.TaskID // no record of these is left: they are to be stopped and forgotten

	Secrets map[cluster.TaskID]secrets.Values // of tasks that may start. They are kept in memory only
}

// StaleError refuses a full set that is older than what was applied before: an old copy of the cluster's state may know nothing of what runs.
type StaleError struct {
	Have, Got cluster.Revision
}

// Error says what happened, and what a person can do.
func (e *StaleError) Error() string {
	return fmt.Sprintf("the server's state is at revision %d, and this agent has seen %d: it is an older copy, and nothing is stopped for it; "+
		"bring the server's newest state back, or accept the copy with `setpoint state restore` on the server", e.Got, e.Have)
}

// Apply makes orders durable and has them carried out. An error means that nothing of them is in force; a *StaleError that they are refused.
func (s *Set) Apply(o Orders) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	have, halted := s.revision, s.halted != nil
	s.mu.Unlock()
	if o.Full && o.Revision < have {
		return &StaleError{Have: have, Got: o.Revision}
	}
	if halted {
		return nil // they come again in the next session's full set
	}
	p := s.plan(o)
	if err := s.opts.Store.Commit(p.batch); err != nil {
		return fmt.Errorf("apply assignments of revision %d: %w", o.Revision, err)
	}
	s.enforce(o.Revision, p, o.Secrets)
	return nil
}

// plan is what orders change.
type plan struct {
	batch     state.Batch
	fresh     []*task
	told      map[*task]state.Assignment
	forgotten []*task
}

// plan finds out what orders change, and changes nothing.
func (s *Set) plan(o Orders) plan {
	p := plan{batch: state.Batch{Revision: o.Revision}, told: make(map[*task]state.Assignment)}
	named := make(map[cluster.TaskID]struct{}, len(o.Assignments))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range slices.Backward(o.Assignments) { // of what is said twice, the last counts
		if _, ok := named[a.Task]; ok {
			continue
		}
		named[a.Task] = struct{}{}
		if t := s.tasks[a.Task]; t != nil {
			p.renew(t, a)
		} else {
			s.accept(&p, o.Full, a)
		}
	}
	for _, id := range o.Remove {
		p.forget(s.tasks[id])
	}
	if !o.Full {
		return p
	}
	for id, t := range s.tasks {
		// What has ended stays, with its output, until the server says that its record is gone.
		if _, ok := named[id]; !ok && !t.ended() {
			p.forget(t)
		}
	}
	return p
}

// renew takes over what is new about a known task: what is desired moves forward only, and what it runs never changes.
func (p *plan) renew(t *task, a state.Assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forgotten {
		return
	}
	before := t.told
	if a.Spec == nil {
		a.Spec = before.Spec
	}
	if before.Spec != nil {
		a.Spec, a.Ports, a.Addresses = before.Spec, before.Ports, before.Addresses
	}
	if a.Desired.Before(before.Desired) {
		a.Desired, a.Grace = before.Desired, before.Grace
	}
	p.told[t] = a
	if a.Desired != before.Desired || a.Grace != before.Grace || a.Start != before.Start || before.Spec == nil && a.Spec != nil {
		p.batch.Assignments = append(p.batch.Assignments, a)
	}
}

// accept takes a task that is not known here. One that was observed before is never started again: from a full set it is left out, since the
// full report, which does not name it either, ends it; otherwise it is answered that it is not known.
func (s *Set) accept(p *plan, full bool, a state.Assignment) {
	status := state.Status{Task: a.Task, State: cluster.Accepted, At: time.Now()}
	_, stray := s.found[a.Task]
	switch {
	case a.Observed != cluster.ObservedNone && full:
		return
	case stray:
		status.State, status.Err = cluster.Failed, "it was found here without a record, and stopped"
	case !a.Desired.Wanted():
		status.State, status.Message = cluster.Stopped, "told to stop before it was started"
	case a.Observed != cluster.ObservedNone:
		status.State, status.Err = cluster.Failed, "not known here"
	}
	p.fresh = append(p.fresh, newTask(s, a, status))
	p.batch.Assignments = append(p.batch.Assignments, a)
	p.batch.Statuses = append(p.batch.Statuses, status)
}

func (p *plan) forget(t *task) {
	if t == nil {
		return
	}
	if _, forgotten := t.seen(); !forgotten {
		p.forgotten = append(p.forgotten, t)
		p.batch.Forgotten = append(p.batch.Forgotten, t.id)
	}
}

// enforce carries out what was made durable.
func (s *Set) enforce(revision cluster.Revision, p plan, values map[cluster.TaskID]secrets.Values) {
	for t, a := range p.told {
		t.tell(func() {
			t.told, t.confirmed = a, true
			t.hearSecrets(values[t.id])
		})
	}
	for _, t := range p.forgotten {
		t.tell(func() { t.forgotten = true })
	}
	s.mu.Lock()
	s.revision = max(s.revision, revision)
	for _, t := range p.fresh {
		t.confirmed, t.runtime = true, absent
		t.hearSecrets(values[t.id])
		s.tasks[t.id] = t
		s.begin(t)
	}
	if len(p.forgotten) > 0 {
		s.straysChanged()
	}
	s.mu.Unlock()
	for _, t := range p.fresh {
		s.changed(t.id)
	}
}

// Halt stops everything, each task within its own grace and none with more than limit (negative: no limit), takes no more orders, and waits
// until nothing runs. What was not started yet stays as it is. The error is the context's, if that ends first.
func (s *Set) Halt(ctx context.Context, limit time.Duration) error {
	feed := s.Follow()
	defer feed.Close()
	s.applying.Lock()
	s.mu.Lock()
	s.halted = &limit
	for _, t := range s.tasks {
		t.tell(func() { t.halt = &limit })
	}
	s.mu.Unlock()
	s.applying.Unlock()
	for s.busy() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop all tasks: %w", context.Cause(ctx))
		case <-feed.Wake():
			feed.Take(math.MaxInt) // only that something changed counts
		}
	}
	return nil
}

// busy reports whether anything runs, or may.
func (s *Set) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.live() {
			return true
		}
	}
	return len(s.strays) > 0
}
