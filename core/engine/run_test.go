package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// memory is a committer that fails when it is told to.
type memory struct {
	mu    sync.Mutex // guards what follows
	fail  error
	turns []cluster.Revision
}

func (m *memory) Commit(_ context.Context, rev cluster.Revision, _ cluster.Time, _, _ []any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.turns = append(m.turns, rev)
	return nil
}

func (m *memory) failWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// since is a clock that begins with the test.
type since time.Time

func (s since) Now() cluster.Time {
	return cluster.Time{Engine: time.Since(time.Time(s)), Wall: time.Now().UnixNano()}
}

func TestRunStopsAtAFailedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, log := New(Config{}, NewState("test"), cluster.Time{}), &memory{}
		ended := make(chan error, 1)
		go func() { ended <- e.Run(t.Context(), since(time.Now()), log, Ports{}) }()
		if _, err := e.Do(t.Context(), "test", JoinNode{ID: "n1", Name: "n1", Description: about}); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("the disk is gone")
		log.failWith(broken)
		before := e.View()
		if _, err := e.Do(t.Context(), "test", LabelNode{Node: "n1", Set: map[string]string{"a": "b"}}); !errors.Is(err, ErrStopped) {
			t.Errorf("an operation whose turn was not committed returns %v, want %v", err, ErrStopped)
		}
		if err := <-ended; !errors.Is(err, broken) {
			t.Errorf("run returns %v, want %v", err, broken)
		}
		if e.View() != before {
			t.Error("readers see what was not committed")
		}
		if _, err := e.Do(t.Context(), "test", Inspect{}); !errors.Is(err, ErrStopped) {
			t.Errorf("an engine that stopped returns %v", err)
		}
		if err := e.Send(t.Context(), AgentsHeard{}); !errors.Is(err, ErrStopped) {
			t.Errorf("an engine that stopped takes inputs: %v", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{}, NewState("test"), cluster.Time{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx, since(time.Now()), &memory{}, Ports{}) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run returns %v", err)
		}
		if _, err := e.Do(t.Context(), "test", Inspect{}); !errors.Is(err, ErrStopped) {
			t.Errorf("do returns %v, want %v", err, ErrStopped)
		}
	})
}

func TestRefusalsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, log := New(Config{}, NewState("test"), cluster.Time{}), &memory{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = e.Run(ctx, since(time.Now()), log, Ports{}) }()
		var refusal *OpError
		if _, err := e.Do(t.Context(), "test", ScaleJob{Job: "web", Count: 3}); !errors.As(err, &refusal) || refusal.Kind != NotFound {
			t.Errorf("scaling a job that is not there returns %v", err)
		}
		if len(log.turns) != 0 {
			t.Errorf("revisions %v were committed", log.turns)
		}
	})
}

func TestInputsAreTakenTogetherAndTimeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, log := New(Config{Heartbeat: time.Second}, NewState("test"), cluster.Time{}), &memory{}
		const jobs = 200
		var replies sync.WaitGroup
		for i := range jobs { // before it runs, so that all wait
			replies.Go(func() {
				if _, err := e.Do(t.Context(), "test", run(fmt.Sprintf("j%d", i), nil).(command).op); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		committed := func(turn Turn) {
			if e.View() != turn.State {
				t.Error("a turn is told before readers see it")
			}
			seen++
		}
		go func() { _ = e.Run(ctx, since(time.Now()), log, Ports{Committed: []func(Turn){committed}}) }()
		replies.Wait()
		if _, n, _, _ := e.View().Counts(); n != jobs || len(log.turns) > 3 || seen != len(log.turns) {
			t.Errorf("%d jobs in %d turns, %d of them told", n, len(log.turns), seen)
		}
		if _, err := e.Do(t.Context(), "test", JoinNode{ID: "n1", Name: "n1", Description: about}); err != nil {
			t.Fatal(err)
		}
		_ = e.Send(t.Context(), AgentUp{Node: "n1", Session: 1, Description: about})
		_ = e.Send(t.Context(), AgentReports{Node: "n1", Session: 1, Full: true, Last: true})
		state := func() cluster.NodeState { return e.View().Node("n1").Status.State }
		synctest.Wait()
		if state() != cluster.NodeReady {
			t.Fatalf("the node is %s", state())
		}
		time.Sleep(2 * time.Second) // nobody speaks: only the timer wakes the engine
		synctest.Wait()
		if state() != cluster.NodeSilent {
			t.Errorf("after two periods the node is %s", state())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if state() != cluster.NodeDown {
			t.Errorf("after three periods the node is %s", state())
		}
	})
}
