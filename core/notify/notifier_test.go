package notify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestAStallIsToldOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, d, r := bubbleClock{time.Now()}, newDisk(t), newReceiver(t)
		s := serve(t, d, clock, r, hook("oncall", 5*time.Minute))
		s.do(t, stalls("web"))
		s.do(t, stalls("db"))
		pass(4 * time.Minute)
		if got := r.take(); len(got) > 0 {
			t.Fatalf("told too early: %s", got[0].body)
		}
		pass(2 * time.Minute)
		got := r.alerts(t)
		if len(got) != 1 || got[0].Status != Stalled || got[0].Code != "no_nodes" || got[0].Count != 2 || strings.Join(got[0].Jobs, " ") != "db web" {
			t.Fatalf("told: %+v", got)
		}
		if !strings.HasPrefix(got[0].Message, "no node can run it") || got[0].Clears == "" {
			t.Errorf("it does not say why: %+v", got[0])
		}
		id := got[0].ID

		// Neither time nor another server tells it again.
		pass(time.Hour)
		s.stop()
		s = serve(t, d, clock, r, hook("oncall", 5*time.Minute))
		defer func() { s.stop() }()
		s.do(t, stalls("third"))
		pass(time.Hour)
		if got := r.alerts(t); len(got) > 0 {
			t.Fatalf("told again: %+v", got)
		}
		if st := s.notifier.Statuses()[0]; st.Open != 1 || st.State != Idle {
			t.Errorf("status: %+v", st)
		}

		// One job less is not the end; the last is.
		s.do(t, engine.RemoveJob{Job: "web"})
		s.do(t, engine.RemoveJob{Job: "third"})
		pass(3 * time.Minute)
		if got := r.alerts(t); len(got) > 0 {
			t.Fatalf("told: %+v", got)
		}
		s.do(t, engine.RemoveJob{Job: "db"})
		pass(50 * time.Second)
		if got := r.alerts(t); len(got) > 0 {
			t.Fatalf("told before it is over: %+v", got)
		}
		pass(time.Minute)
		got = r.alerts(t)
		if len(got) != 1 || got[0].Status != Cleared || got[0].ID != id || got[0].Ended == nil {
			t.Fatalf("told of the end: %+v", got)
		}
		pass(time.Hour)
		if got := r.take(); len(got) > 0 || len(s.engine.View().Notices()) > 0 {
			t.Errorf("left: %v, %v", got, s.engine.View().Notices())
		}
	})
}

func TestAStallThatEndsInTimeIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := serve(t, newDisk(t), bubbleClock{time.Now()}, r, hook("oncall", 5*time.Minute))
		defer s.stop()
		for i := range 5 {
			name := fmt.Sprint("job", i)
			s.do(t, stalls(name))
			pass(4 * time.Minute)
			s.do(t, engine.RemoveJob{Job: name})
			pass(time.Minute)
		}
		if got := r.take(); len(got) > 0 {
			t.Errorf("told: %s", got[0].body)
		}
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, well := newReceiver(t), newReceiver(t)
		r.answer(http.StatusServiceUnavailable)
		other := hook("other", time.Minute)
		s := serve(t, newDisk(t), bubbleClock{time.Now()}, r, hook("oncall", time.Minute), other)
		defer s.stop()
		s.notifier.workers[1].to.(*webhook).caller.dial = well.dial
		s.do(t, stalls("web"))
		pass(2*time.Hour + time.Minute)
		tries := len(r.take())
		if tries < 20 || tries > 60 {
			t.Errorf("%d tries in two hours", tries)
		}
		st := s.notifier.Statuses()[0]
		if st.State != Failing || st.Failure != "answered 503 Service Unavailable: not now" || st.Failed != uint64(tries) || st.Waiting != 1 || st.Next.Before(time.Now()) {
			t.Errorf("status: %+v", st)
		}
		if st.Target != "http://hook.example" {
			t.Errorf("the target shows %q", st.Target)
		}

		// Everybody sees it, and the other sink tells of it.
		found := s.engine.View().StallsOf(cluster.SinkSubject("oncall"))
		if len(found) != 1 || found[0].Message != "webhook oncall cannot tell anybody: answered 503 Service Unavailable: not now" {
			t.Errorf("the stall: %+v", found)
		}
		told := well.alerts(t)
		if len(told) != 2 || told[0].Code != "no_nodes" || told[1].Code != "notification_failed" || told[1].Detail != "oncall" {
			t.Errorf("the other sink told %+v", told)
		}

		// What ended meanwhile is never told, what has not is.
		s.do(t, stalls("db"))
		s.do(t, engine.RemoveJob{Job: "web"})
		r.answer(0)
		pass(6 * time.Minute)
		got := r.alerts(t)
		if len(got) != 1 || got[0].Jobs[0] != "db" {
			t.Errorf("told: %+v", got)
		}
		pass(time.Minute)
		if st := s.notifier.Statuses()[0]; st.State != Working || st.Failure != "" || len(s.engine.View().StallsOf(cluster.SinkSubject("oncall"))) > 0 {
			t.Errorf("it still counts as failing: %+v", st)
		}
		if told := well.alerts(t); len(told) != 1 || told[0].Status != Cleared || told[0].Code != "notification_failed" {
			t.Errorf("the other sink told %+v, want the end of the failure", told)
		}
	})
}

// A failure of which there is nothing left to tell is no failure any more.
func TestAFailureEndsWithWhatWasToBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, d, r := bubbleClock{time.Now()}, newDisk(t), newReceiver(t)
		r.answer(http.StatusServiceUnavailable)
		s := serve(t, d, clock, r, hook("oncall", time.Minute))
		s.do(t, stalls("web"))
		pass(10 * time.Minute)
		s.stop()
		s = serve(t, d, clock, r, hook("oncall", time.Minute)) // which finds the stall of the one before
		defer func() { s.stop() }()
		if n := len(s.engine.View().StallsOf(cluster.SinkSubject("oncall"))); n != 1 {
			t.Fatalf("%d stalls", n)
		}
		s.do(t, engine.RemoveJob{Job: "web"})
		pass(2 * time.Minute)
		if n := len(s.engine.View().StallsOf(cluster.SinkSubject("oncall"))); n != 0 {
			t.Errorf("it still fails: %+v", s.notifier.Statuses())
		}
	})
}

func TestWhoAsksToBeLeftAloneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		r.answer(http.StatusTooManyRequests)
		r.header.Set("Retry-After", "120")
		s := serve(t, newDisk(t), bubbleClock{time.Now()}, r, hook("oncall", time.Second))
		defer s.stop()
		s.do(t, stalls("web"))
		pass(2 * time.Minute)
		if n := len(r.take()); n != 1 {
			t.Errorf("%d tries within two minutes", n)
		}
	})
}

func TestTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := serve(t, newDisk(t), bubbleClock{time.Now()}, r, hook("a", time.Minute), hook("b", time.Minute))
		defer s.stop()
		if got, err := s.notifier.Try(t.Context(), nil); err != nil || len(got) != 2 || got[0].Err != nil || got[1].Err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		told := r.alerts(t)
		if len(told) != 2 || told[0].Status != Trial || told[0].Summary != "a trial from srv: nothing is wrong" {
			t.Errorf("told: %+v", told)
		}
		r.answer(http.StatusFound)
		if got, err := s.notifier.Try(t.Context(), []string{"b"}); err != nil || len(got) != 1 || got[0].Sink != "b" || got[0].Err == nil || len(r.take()) != 1 {
			t.Errorf("a redirection: %+v, %v", got, err)
		}
		var unknown *UnknownSinkError
		if _, err := s.notifier.Try(t.Context(), []string{"c"}); !errors.As(err, &unknown) || len(unknown.Known) != 2 {
			t.Errorf("got %v", err)
		}
	})
}
