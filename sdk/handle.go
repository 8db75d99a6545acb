package sdk

import (
	"sync/atomic"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// handle is the Session that authors are given. Its methods may be called from any goroutine.
type handle struct {
	session *session
	pending atomic.Bool // Changed was called and the loop has not heard of it
	waiting atomic.Int32
}

// Changed makes every answer be computed anew. Calls that come together count as one.
func (h *handle) Changed() {
	if h.pending.CompareAndSwap(false, true) {
		h.session.inbox.call(func() {
			h.pending.Store(false)
			h.session.askAgain()
		})
	}
}

// Problem shows something to the operator.
func (h *handle) Problem(code, message string) {
	if h.waiting.Add(1) > maxProblems {
		h.waiting.Add(-1)
		return
	}
	p := &pluginv1.Problem{Code: cut(code), Message: cut(message)}
	h.session.inbox.call(func() {
		h.waiting.Add(-1)
		h.session.outbox.problem(p)
	})
}

// startRunners runs what authors want to run beside a session.
func (s *session) startRunners() {
	for _, r := range partsOf[SessionRunner](s.plugin) {
		h := &handle{session: s}
		s.runners.Go(func() {
			err := guard(func() error { return r.RunSession(s.ctx, h) })
			if err != nil && s.ctx.Err() == nil {
				s.log.Error("session runner failed", "error", err, "stack", stackOf(err))
				h.Problem("session_runner", err.Error())
			}
		})
	}
}

var _ Session = (*handle)(nil)
