package pluginhost

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRestartsDelays(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRestarts(RestartPolicy{Min: 100 * time.Millisecond, Max: time.Second, Healthy: time.Minute, Window: time.Hour, Limit: 7}, now)
	if state, since := r.State(); state != StateStopped || !since.Equal(now) {
		t.Fatalf("begins %s since %s", state, since)
	}
	wants := []struct {
		delay time.Duration
		state State
	}{
		{100 * time.Millisecond, StateBackoff},
		{200 * time.Millisecond, StateBackoff},
		{400 * time.Millisecond, StateBackoff},
		{800 * time.Millisecond, StateBackoff},
		{time.Second, StateBackoff},
		{time.Second, StateBackoff},
		{time.Second, StateCrashLoop},
		{time.Second, StateCrashLoop},
	}
	for i, want := range wants {
		r.Starting(now)
		next := r.Failed(now, 0)
		state, _ := r.State()
		if next.Sub(now) != want.delay || state != want.state || !r.Next().Equal(next) {
			t.Fatalf("failure %d: again in %s, %s; want %s, %s", i+1, next.Sub(now), state, want.delay, want.state)
		}
		now = next
	}
	if r.Failures() != len(wants) {
		t.Errorf("%d failures, want %d", r.Failures(), len(wants))
	}
}

func TestRestartsHealthForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRestarts(RestartPolicy{}, now)
	policy := DefaultRestartPolicy()
	for range policy.Limit {
		r.Starting(now)
		now = r.Failed(now, 0)
	}
	r.Starting(now)
	if state, _ := r.State(); state != StateCrashLoop {
		t.Fatalf("an attempt in a crash loop shows %s", state)
	}
	if !r.Next().IsZero() {
		t.Errorf("next start %s while one is under way", r.Next())
	}
	r.Serving(now)
	if state, _ := r.State(); state != StateRunning {
		t.Fatalf("state %s after serving", state)
	}

	soon := now.Add(policy.Healthy - time.Second)
	if next := r.Failed(soon, 0); next.Sub(soon) != policy.Max {
		t.Errorf("failure just before it counts as healthy: again in %s, want %s", next.Sub(soon), policy.Max)
	}
	r.Serving(soon)
	later := soon.Add(policy.Healthy)
	next := r.Failed(later, 0)
	if state, _ := r.State(); !next.Equal(later) || state != StateBackoff {
		t.Errorf("failure after a minute of health: %s, again in %s; want backoff, at once", state, next.Sub(later))
	}
	r.Starting(later)
	if next := r.Failed(later, 0); next.Sub(later) != policy.Min {
		t.Errorf("and when that start fails: again in %s, want %s", next.Sub(later), policy.Min)
	}
}

func TestRestartsWindow(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewRestarts(RestartPolicy{Min: time.Second, Max: time.Second, Healthy: time.Hour, Window: time.Minute, Limit: 2}, now)
	r.Failed(now, 0)
	r.Failed(now.Add(time.Minute), 0)
	if state, _ := r.State(); state != StateBackoff {
		t.Errorf("two failures a window apart: %s", state)
	}
	r.Failed(now.Add(2*time.Minute-time.Nanosecond), 0)
	if state, _ := r.State(); state != StateCrashLoop {
		t.Errorf("two failures within the window: %s", state)
	}
	r.Stopped(now)
	if state, _ := r.State(); state != StateStopped || !r.Next().IsZero() {
		t.Errorf("stopped: %s, next %s", state, r.Next())
	}
	if next := r.Failed(now, 1); next.Sub(now) != 750*time.Millisecond {
		t.Errorf("with full jitter again in %s, want 750ms", next.Sub(now))
	}
}

// However starts and failures follow each other, after a failure there is a next start, within the limits.
func TestRestartsNeverGivesUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := RestartPolicy{
			Min:     time.Duration(rapid.IntRange(1, 1000).Draw(t, "min")),
			Max:     time.Duration(rapid.IntRange(1000, 1<<40).Draw(t, "max")),
			Healthy: time.Second,
			Window:  time.Minute,
			Limit:   rapid.IntRange(1, 8).Draw(t, "limit"),
		}
		now := time.Unix(0, 0)
		r := NewRestarts(policy, now)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1<<36).Draw(t, "wait")))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				r.Starting(now)
			case 1:
				r.Serving(now)
			default:
				was, since := r.State()
				least := policy.Min * 3 / 4
				if was == StateRunning && now.Sub(since) >= policy.Healthy {
					least = 0
				}
				next := r.Failed(now, rapid.Float64Range(0, 1).Draw(t, "jitter"))
				delay := next.Sub(now)
				state, _ := r.State()
				if delay < least || delay > policy.Max || (state != StateBackoff && state != StateCrashLoop) {
					t.Fatalf("%s, again in %s, policy %+v", state, delay, policy)
				}
			}
		}
	})
}
