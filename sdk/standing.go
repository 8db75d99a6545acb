package sdk

import (
	"errors"
	"time"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Back-off after failures of author's code.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// errDropped ends a computation whose question was withdrawn.
var errDropped = errors.New("no longer asked")

// subject is what has an answer that is kept up to date with the mirror: a class or a job. Owner: the session's loop.
type subject interface {
	state() *standing
	// prepare returns a computation that brings the answer to the view.
	prepare(v *view, ch changes) computation
}

// computation asks the author. It reads of its subject only what does not change while the subject is busy.
type computation interface {
	// compute runs outside of the loop.
	compute()
	// take is called in the loop afterwards and makes the result the subject's answer. It returns an error if the author's code failed, and otherwise after
	// how long the answer expires, zero for never.
	take() (time.Duration, error)
}

// catchUp is a computation on its way through the pool and back to the loop.
type catchUp struct {
	computation
	session *session
	sub     subject
	at      uint64 // revision of the view
}

func (c *catchUp) run() {
	c.compute()
	c.session.inbox.post(c)
}

func (c *catchUp) late() { c.session.inbox.call(func() { c.session.overdue(c.sub) }) }

func (c *catchUp) happen() { c.session.ended(c) }

// standing is what classes and jobs have in common.
type standing struct {
	name     string
	stop     func() // ends the context of what is under way
	busy     bool   // a computation waits or is under way
	dropped  bool   // withdrawn or replaced: results are ignored
	at       uint64 // mirror revision for which the answer holds; 0: none yet
	todo     changes
	failed   *pluginv1.Failure // why there is no answer at the current revision
	failures int               // in a row
	awaited  bool              // the report of the revision at hand waits for it
	timer    *time.Timer       // retry or expiry
	late     uint64            // newest revision at which it was named as late: an answer at it or later must be sent even if it is the same; 0: none
	unsent   bool              // something is to be sent
}

// begin brings a subject up to date with the current view, now or after what is under way.
func (s *session) begin(sub subject, ch changes) {
	st := sub.state()
	if st.busy || s.mirror.current == nil {
		st.todo = st.todo.join(ch)
		return
	}
	if st.failures > 0 && !ch.compile {
		st.todo = st.todo.join(ch) // the retry catches up with it
		return
	}
	ch = st.todo.join(ch)
	if st.at == 0 || st.failed != nil {
		ch = changes{compile: true, all: true}
	}
	st.todo, st.busy = changes{}, true
	s.stopTimer(st)
	v := s.mirror.current
	s.calls = append(s.calls, &catchUp{computation: sub.prepare(v, ch), session: s, sub: sub, at: v.revision})
}

// ended takes the result of a computation.
func (s *session) ended(c *catchUp) {
	sub, st := c.sub, c.sub.state()
	s.settle(st)
	if st.dropped {
		return
	}
	st.busy = false
	again, err := c.take()
	switch {
	case err != nil && s.ctx.Err() != nil:
		return // the session's end cut it short, which is nobody's failure
	case err != nil:
		s.fail(sub, err)
		return
	}
	if st.late > 0 && c.at >= st.late {
		st.unsent, st.late = true, 0
	}
	st.at, st.failed, st.failures = c.at, nil, 0
	switch {
	case !st.todo.none() || c.at < s.mirror.current.revision: // a revision in which nothing changed leaves nothing to do but to stand at it
		s.begin(sub, changes{})
	case again > 0:
		s.after(sub, again)
	}
	s.outbox.mark(sub)
}

// fail records that author's code failed and tries again later.
func (s *session) fail(sub subject, err error) {
	st := sub.state()
	st.failed, st.unsent = failureOf(err), true
	wait := min(firstRetry<<min(st.failures, 10), lastRetry)
	st.failures++
	s.log.Error("answer failed", "subject", st.name, "kind", st.failed.Kind, "error", err, "retry_in", wait, "stack", stackOf(err))
	s.after(sub, wait)
	s.outbox.mark(sub)
}

// overdue tells that an answer takes longer than the deadline. What is under way goes on, and its answer is taken when it comes.
func (s *session) overdue(sub subject) {
	st := sub.state()
	s.settle(st)
	if st.dropped || !st.busy {
		return
	}
	s.log.Warn("answer is late", "subject", st.name, "deadline", s.limits.deadline)
	st.failed = &pluginv1.Failure{Kind: failureTimeout, Message: "no answer within " + s.limits.deadline.String()}
	st.unsent = true
	s.outbox.mark(sub)
}

// after asks a subject again after some time.
func (s *session) after(sub subject, d time.Duration) {
	st := sub.state()
	s.stopTimer(st)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.inbox.call(func() {
			if !st.dropped && st.timer == timer {
				s.begin(sub, changes{compile: true, all: true})
			}
		})
	})
	st.timer = timer
}

func (s *session) stopTimer(st *standing) {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil
	}
}

// drop withdraws a subject.
func (s *session) drop(sub subject) {
	st := sub.state()
	st.dropped = true
	st.stop()
	s.stopTimer(st)
	s.settle(st)
	s.outbox.unmark(sub)
}
