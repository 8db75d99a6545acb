package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// slowLog is a committer whose commits end when the test says so, with the error that it says.
type slowLog struct {
	end   chan error
	mu    sync.Mutex // guards what follows
	begun []cluster.Revision
}

func (l *slowLog) Commit(ctx context.Context, rev cluster.Revision, _ cluster.Time, _, _ []any) error {
	l.mu.Lock()
	l.begun = append(l.begun, rev)
	l.mu.Unlock()
	if err := <-l.end; err != nil {
		return err
	}
	return ctx.Err()
}

// steps counts the steps that an engine takes, by its record.
type steps struct{ n int }

func (s *steps) Write(b []byte) (int, error) {
	s.n += bytes.Count(b, []byte(`{"step":`))
	return len(b), nil
}

// overlap is an engine that runs in a bubble, with all that it tells.
type overlap struct {
	t     *testing.T
	e     *Engine
	log   *slowLog
	steps *steps
	stop  context.CancelFunc
	ended chan error
	done  bool // Run has ended

	mu      sync.Mutex // guards what follows
	turns   []Turn
	timings []Timing
	answers []string
}

func newOverlap(t *testing.T, cfg Config) *overlap {
	t.Helper()
	o := &overlap{t: t, e: New(cfg, NewState("test"), cluster.Time{}), log: &slowLog{end: make(chan error)}, steps: &steps{}, ended: make(chan error, 1)}
	o.e.Record(NewRecorder(o.steps, 1<<30), "test")
	ctx, cancel := context.WithCancel(t.Context())
	o.stop = cancel
	t.Cleanup(func() {
		cancel()
		if !o.done {
			close(o.log.end)
			<-o.ended
		}
	})
	committed := func(turn Turn) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.e.View() != turn.State {
			t.Errorf("revision %d is told while readers see %d", turn.State.Revision, o.e.View().Revision)
		}
		o.turns = append(o.turns, turn)
	}
	timed := func(x Timing) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.timings = append(o.timings, x)
	}
	go func() {
		o.ended <- o.e.Run(ctx, since(time.Now()), o.log, Ports{Committed: []func(Turn){committed}, Timed: timed})
	}()
	synctest.Wait()
	return o
}

// ask has an operation carried out; its name is among the answers once it is.
func (o *overlap) ask(name string, op Op) {
	o.t.Helper()
	go func() {
		_, err := o.e.Do(o.t.Context(), "test", op)
		if err != nil {
			name += ": " + err.Error()
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.answers = append(o.answers, name)
	}()
	synctest.Wait()
}

// job asks for a job of so many slots.
func (o *overlap) job(name string, count int) {
	o.t.Helper()
	o.ask(name, run(name, func(s *cluster.JobSpec) { s.Count = count }).(command).op)
}

// end ends the commit that is under way.
func (o *overlap) end(err error) {
	o.t.Helper()
	o.log.end <- err
	synctest.Wait()
}

// want checks how many steps were taken, which commit is the last that was begun, which revision readers see, and what was answered. Those that are answered at the
// same moment note it in any order.
func (o *overlap) want(steps int, begun, seen cluster.Revision, answers ...string) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	answered := slices.Sorted(slices.Values(o.answers))
	slices.Sort(answers)
	last := cluster.Revision(0)
	if n := len(o.log.begun); n > 0 {
		last = o.log.begun[n-1]
	}
	if o.steps.n != steps || last != begun || o.e.View().Revision != seen || len(o.turns) != int(seen) || !slices.Equal(answered, answers) {
		o.t.Errorf("%d steps, commit of %d, readers see %d of %d turns, answered %q; want %d, %d, %d, %q",
			o.steps.n, last, o.e.View().Revision, len(o.turns), o.answers, steps, begun, seen, answers)
	}
}

// TestOneTurnIsDecidedAhead has more to decide than goes into a turn.
func TestOneTurnIsDecidedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{MaxChanges: 1})
		o.want(1, 0, 0) // it looks at what is there
		o.job("a", 1)
		o.job("b", 1)
		o.want(3, 1, 0) // the job is being committed, its slot is decided, and b waits
		if n := o.e.Waiting(); n != 1 {
			t.Errorf("%d inputs wait, want 1", n)
		}
		o.end(nil)
		o.want(3, 2, 1, "a") // nothing was left to decide: b waits for the commit
		o.end(nil)
		o.want(5, 3, 2, "a")
		o.end(nil)
		o.want(5, 4, 3, "a", "b")
		o.end(nil)
		o.want(5, 4, 4, "a", "b")
		for i, turn := range o.turns {
			if turn.State.Revision != cluster.Revision(i+1) || i > 0 && turn.Before != o.turns[i-1].State {
				t.Errorf("turn %d makes revision %d of %d", i+1, turn.State.Revision, turn.Before.Revision)
			}
		}
		if e := o.e.View(); e.Slot("a", "1") == nil || e.Slot("b", "1") == nil {
			t.Error("a slot is missing in the end")
		}
	})
}

// TestWhoComesMeanwhileSharesACommit has little to decide while a small turn is committed.
func TestWhoComesMeanwhileSharesACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{})
		o.job("a", 1)
		o.job("b", 1)
		o.job("c", 1)
		o.want(2, 1, 0)
		if n := o.e.Waiting(); n != 2 {
			t.Errorf("%d inputs wait, want 2", n)
		}
		o.end(nil)
		o.want(3, 2, 1, "a")
		if n := o.e.Waiting(); n != 0 {
			t.Errorf("%d inputs wait, want none", n)
		}
		o.end(nil)
		o.want(3, 2, 2, "a", "b", "c")
	})
}

// TestAFullBatchIsDecidedBesideACommit has more inputs than one turn takes.
func TestAFullBatchIsDecidedBesideACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{})
		o.job("a", 1)
		for range batchLimit {
			o.want(2, 1, 0)
			if err := o.e.Send(t.Context(), AgentsHeard{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		o.want(3, 1, 0)
		o.end(nil)
		o.want(3, 1, 1, "a")
	})
}

// TestNothingIsToldEarly asks for what changes nothing, and reports, while a large turn is committed: they are decided at once, and answered when what they build
// upon is durable.
func TestNothingIsToldEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{})
		o.ask("join", JoinNode{ID: "n1", Name: "n1", Description: about})
		o.end(nil)
		o.want(2, 1, 1, "join")
		o.job("large", largeTurn)
		o.want(3, 2, 1, "join")
		received := false
		if err := o.e.Send(t.Context(), AgentUp{Node: "n1", Session: 1, Description: about}); err != nil {
			t.Fatal(err)
		}
		if err := o.e.Send(t.Context(), AgentReports{Node: "n1", Session: 1, Received: func() { received = true }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		steps := o.steps.n
		o.ask("inspect", Inspect{})
		if o.want(steps, 2, 1, "join"); steps < 4 || received {
			t.Errorf("%d steps, received %t", steps, received)
		}
		o.end(nil)
		if o.want(5, 2, 2, "join", "large", "inspect"); !received {
			t.Error("the report is not acknowledged")
		}
	})
}

func TestAfterAFailedCommitTheTurnAheadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{MaxChanges: 1})
		o.job("a", 1)
		o.end(nil)
		o.job("b", 1) // waits
		o.end(nil)
		o.want(5, 3, 2, "a") // b is being committed, and what follows from it decided
		before, broken := o.e.View(), errors.New("the disk is gone")
		o.end(broken)
		if err := <-o.ended; !errors.Is(err, broken) {
			t.Errorf("run returns %v, want %v", err, broken)
		}
		o.done = true
		synctest.Wait()
		if o.want(5, 3, 2, "a", "b: "+ErrStopped.Error()); o.e.View() != before {
			t.Error("readers see what was not committed")
		}
	})
}

func TestWhatIsDecidedIsCommittedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{MaxChanges: 1})
		o.job("a", 1)
		o.job("b", 1)
		o.want(3, 1, 0)
		o.stop()
		synctest.Wait()
		o.end(nil)
		o.want(3, 2, 1, "a")
		o.end(nil)
		if err := <-o.ended; err != nil {
			t.Errorf("run returns %v", err)
		}
		o.done = true
		synctest.Wait()
		o.want(3, 2, 2, "a", "b: "+ErrStopped.Error())
	})
}

// TestTimesOfTurnsThatOverlap has commits of a second. One who asks alone waits for one; the time of a commit does not count the one before.
func TestTimesOfTurnsThatOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, Config{MaxChanges: 1})
		go func() {
			for range 4 {
				time.Sleep(time.Second)
				o.log.end <- nil
			}
		}()
		o.timings = nil
		began := time.Now()
		if _, err := o.e.Do(t.Context(), "test", run("a", nil).(command).op); err != nil || time.Since(began) != time.Second {
			t.Errorf("answered after %s: %v", time.Since(began), err)
		}
		o.job("b", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []Timing{{Inputs: 1, Changes: 1, Commit: time.Second}, {Changes: 3, Commit: time.Second}, {Inputs: 1, Changes: 1, Commit: time.Second}, {Changes: 3, Commit: time.Second}}
		if !slices.Equal(o.timings[:min(4, len(o.timings))], want) {
			t.Errorf("timings %+v", o.timings)
		}
	})
}
