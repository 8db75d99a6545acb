package pluginhost

import (
	"context"
	"sync"
	"time"

	"github.com/setpointd/setpoint/core/engine"
)

// applyPatience is how long a plugin may say nothing at all while it has been told of a revision and has not applied it.
func (s *session) applyPatience() time.Duration { return 2*s.timeout + time.Second }

// rest is how long nothing is to be done, if nothing happens.
func (s *session) rest() time.Duration {
	now := s.now()
	next := now.Add(pingPeriod)
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if !s.pinging {
		sooner(s.heard.Add(pingPeriod))
	}
	if len(s.unapplied) > 0 {
		sooner(s.hangsAt())
	}
	for _, c := range s.classes {
		sooner(c.due)
		sooner(c.again)
	}
	for _, j := range s.jobs {
		sooner(j.due)
		sooner(j.again)
	}
	for _, q := range s.questions {
		sooner(q.due)
	}
	return max(next.Sub(now), time.Millisecond)
}

// hangsAt is when the plugin is given up, unless it applies what it was told of: it may take longer as long as it answers something.
func (s *session) hangsAt() time.Time {
	told := s.unapplied[0].at
	from := told
	if s.heard.After(from) {
		from = s.heard
	}
	at, last := from.Add(s.applyPatience()), told.Add(4*s.applyPatience())
	if last.Before(at) {
		return last
	}
	return at
}

// tick does what is due.
func (s *session) tick(ctx context.Context, others *sync.WaitGroup) error {
	now := s.now()
	if len(s.unapplied) > 0 && !now.Before(s.hangsAt()) {
		return timedOut("it has not applied revision %d within %s", coreRevision(s.unapplied[0].revision), now.Sub(s.unapplied[0].at).Round(time.Millisecond))
	}
	if err := s.tickClasses(ctx, now); err != nil {
		return err
	}
	for _, name := range sortedKeys(s.jobs) {
		j := s.jobs[name]
		if !overdue(&j.book, now) {
			continue
		}
		s.heardOf(&j.book, Late)
		if err := s.tell(ctx, *s.jobFailure(j, lateAnswer(s.timeout))); err != nil {
			return err
		}
	}
	if err := s.tickQuestions(ctx, now); err != nil {
		return err
	}
	s.renew(now)
	if !s.pinging && now.Sub(s.heard) >= pingPeriod {
		s.pinging = true
		others.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, s.timeout)
			defer cancel()
			s.pong <- s.ping(ctx)
		})
	}
	return nil
}

func (s *session) tickClasses(ctx context.Context, now time.Time) error {
	out := engine.PluginVerdicts{Name: s.name, Session: s.number, Revision: s.current()}
	for _, id := range sortedKeys(s.classes) {
		if c := s.classes[id]; overdue(&c.book, now) {
			s.heardOf(&c.book, Late)
			out.Classes = append(out.Classes, engine.ClassVerdict{Class: id, ClassRevision: c.ask.Revision, Failure: lateAnswer(s.timeout)})
		}
	}
	if len(out.Classes) == 0 {
		return nil
	}
	s.log.Warn("plugin answers are late", "classes", len(out.Classes), "deadline", s.timeout)
	return s.tell(ctx, out)
}

// overdue reports whether an answer is late now, once.
func overdue(b *book, now time.Time) bool {
	if b.due.IsZero() || now.Before(b.due) {
		return false
	}
	b.due, b.failed = time.Time{}, true
	return true
}

func (s *session) tickQuestions(ctx context.Context, now time.Time) error {
	for _, id := range sortedKeys(s.questions) {
		q := s.questions[id]
		if now.Before(q.due) {
			continue
		}
		s.followed(q.asking.ended(Late))
		q.asking = nil
		s.cancel(id)
		if q.trial != nil {
			q.trial.fail(timedOut("no answer within %s", s.timeout))
			continue
		}
		if err := s.tell(ctx, engine.PluginDrain{Name: s.name, Session: s.number, Question: id, Failure: lateAnswer(s.timeout)}); err != nil {
			return err
		}
	}
	return nil
}

// ponged takes the answer to a ping.
func (s *session) ponged(err error) error {
	if err != nil {
		return callFailure("ping", err)
	}
	s.heard = s.now()
	return nil
}
