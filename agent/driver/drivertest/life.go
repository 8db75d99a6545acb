package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

func exitCode(s *suite) {
	for _, want := range []int{0, 1, 42, 255} {
		before := time.Now()
		h := s.start("job/1/"+string(rune('a'+want%26)), Behaviour{Exit: code(want)})
		exit := s.wait(h)
		if exit.Code != want || exit.Signal != "" || exit.OOM || exit.Err != "" {
			s.Errorf("exit is %+v, want code %d", exit, want)
		}
		if exit.Started.Before(before.Add(-time.Second)) || exit.Finished.Before(exit.Started) || exit.Finished.After(time.Now()) {
			s.Errorf("ran from %v to %v, started after %v", exit.Started, exit.Finished, before)
		}
	}
}

func exitIsKept(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(7)})
	first := s.wait(h)
	for range 2 {
		if again := s.wait(h); !sameExit(again, first) {
			s.Errorf("second wait tells %+v, first told %+v", again, first)
		}
		s.reopen()
	}
}

func sameExit(a, b driver.Exit) bool {
	sameTimes := a.Started.Equal(b.Started) && a.Finished.Equal(b.Finished)
	a.Started, a.Finished, b.Started, b.Finished = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return a == b && sameTimes
}

func waitEndsWithContext(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.d.Wait(ctx, h); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("wait returned %v, want the context's error", err)
	}
	s.state(h, driver.StateRunning)
}

func stopWithinGrace(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	s.stop(h, driver.StopRequest{Signal: "TERM", Grace: Deadline})
	exit := s.wait(h)
	if exit.Code != 143 || exit.Signal != "TERM" || exit.Err != "" {
		s.Errorf("exit is %+v, want TERM and 143", exit)
	}
	s.state(h, driver.StateExited)
}

func stopKillsAtGrace(s *suite) {
	h := s.start("job/1/1", Behaviour{Deaf: true})
	const grace = 300 * time.Millisecond
	asked := time.Now()
	s.stop(h, driver.StopRequest{Grace: grace})
	s.state(h, driver.StateRunning)
	exit := s.wait(h)
	if exit.Code != 137 || exit.Signal != "KILL" {
		s.Errorf("exit is %+v, want KILL and 137", exit)
	}
	if took := exit.Finished.Sub(asked); took < grace {
		s.Errorf("was killed after %v, had %v", took, grace)
	}
}

func stopWithoutGrace(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	s.stop(h, driver.StopRequest{})
	if exit := s.wait(h); exit.Code != 137 || exit.Signal != "KILL" {
		s.Errorf("exit is %+v, want KILL and 137", exit)
	}
}

func stopIsShortened(s *suite) {
	h := s.start("job/1/1", Behaviour{Deaf: true})
	s.stop(h, driver.StopRequest{Grace: time.Hour})
	s.state(h, driver.StateRunning)
	s.stop(h, driver.StopRequest{Grace: 20 * time.Millisecond})
	if exit := s.wait(h); exit.Signal != "KILL" {
		s.Errorf("exit is %+v, want KILL", exit)
	}
}

func stopIsNeverExtended(s *suite) {
	h := s.start("job/1/1", Behaviour{Deaf: true})
	s.stop(h, driver.StopRequest{Grace: 200 * time.Millisecond})
	s.stop(h, driver.StopRequest{Grace: time.Hour})
	if exit := s.wait(h); exit.Signal != "KILL" {
		s.Errorf("exit is %+v, want KILL", exit)
	}
}

func stopAfterEnd(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(3)})
	first := s.wait(h)
	s.stop(h, driver.StopRequest{Grace: time.Second})
	s.stop(h, driver.StopRequest{})
	if exit := s.wait(h); !sameExit(exit, first) {
		s.Errorf("exit became %+v, was %+v", exit, first)
	}
}

func startIsIdempotent(s *suite) {
	first := s.start("job/1/1", Behaviour{})
	started := s.state(first, driver.StateRunning).Started
	again := s.start("job/1/1", Behaviour{})
	if string(again.Data) != string(first.Data) {
		s.Errorf("second start returned handle %s, first %s", again.Data, first.Data)
	}
	if now := s.state(again, driver.StateRunning).Started; !now.Equal(started) {
		s.Errorf("runs since %v, did since %v", now, started)
	}
}

func startByMany(s *suite) {
	spec := s.spec("job/1/1", Behaviour{Stdout: []string{"once"}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.d.Start(s.ctx, spec); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	h := driver.Handle{Driver: s.d.Name(), TaskID: "job/1/1"}
	s.stop(h, driver.StopRequest{})
	s.wait(h)
	if got := s.read(h, driver.LogsRequest{}); len(got) > 1 {
		s.Errorf("the task ran more than once: %q", got)
	}
}

func startNeverTwice(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(5)})
	first := s.wait(h)
	s.reopen()
	again := s.start("job/1/1", Behaviour{Exit: code(6)})
	if exit := s.wait(again); !sameExit(exit, first) {
		s.Errorf("exit became %+v, was %+v", exit, first)
	}
}

func rejected(s *suite) {
	for range 2 {
		_, err := s.d.Start(s.ctx, s.spec("job/1/1", Behaviour{Rejected: true}))
		var why *driver.RejectedError
		if !errors.As(err, &why) {
			s.Fatalf("start returned %v, want a *RejectedError", err)
		}
		if why.TaskID != "job/1/1" || why.Code == "" || why.Reason == "" {
			s.Errorf("refusal is %+v", why)
		}
	}
	all, err := s.d.List(s.ctx)
	if err != nil || len(all) != 0 {
		s.Errorf("a refused task left %+v, %v", all, err)
	}
	// What was refused did not start, so a spec that can run does.
	h := s.start("job/1/1", Behaviour{Exit: code(0)})
	if exit := s.wait(h); exit.Code != 0 {
		s.Errorf("exit is %+v", exit)
	}
}
