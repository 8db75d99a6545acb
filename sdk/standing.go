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
	// prepare returns a computation that brings the answer to the view. It runs outside of the loop, reads of the subject only what does not change while
	// it is busy, and returns what the loop has to do with its result. That returns an error if the author's code failed, and after how long the answer
	// expires, zero for never.
	prepare(v *view, ch changes) func() func() (time.Duration, error)
}

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
	compute := sub.prepare(s.mirror.current, ch)
	at := s.mirror.current.revision
	s.calls = append(s.calls, work{
		run: func() {
			finish := compute()
			s.inbox.post(func() { s.ended(sub, at, finish) })
		},
		late: func() { s.inbox.post(func() { s.overdue(sub) }) },
	})
}

// ended takes the result of a computation.
func (s *session) ended(sub subject, at uint64, finish func() (time.Duration, error)) {
	st := sub.state()
	s.settle(sub)
	if st.dropped {
		return
	}
	st.busy = false
	again, err := finish()
	if err != nil {
		s.fail(sub, err)
		return
	}
	if st.late > 0 && at >= st.late {
		st.unsent, st.late = true, 0
	}
	st.at, st.failed, st.failures = at, nil, 0
	switch {
	case !st.todo.none():
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
	s.settle(sub)
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
		s.inbox.post(func() {
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
	s.settle(sub)
	s.outbox.unmark(sub)
}
