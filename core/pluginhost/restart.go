package pluginhost

import (
	"slices"
	"time"
)

// State is where a plugin stands between starts and failures.
type State string

// The states, as commands show them.
const (
	StateStarting  State = "starting"   // a process is being started, or has not served yet
	StateRunning   State = "running"    // it serves
	StateBackoff   State = "backoff"    // it failed, and will be started again at Restarts.Next
	StateCrashLoop State = "crash_loop" // it fails again and again; it is still started again at Restarts.Next
	StateStopped   State = "stopped"    // it is not wanted
)

// RestartPolicy says how fast a plugin that fails is started again. The zero value stands for DefaultRestartPolicy.
type RestartPolicy struct {
	Min     time.Duration // delay after the first failure; it doubles with each further one
	Max     time.Duration // no delay is longer
	Healthy time.Duration // serving for this long forgets earlier failures, and the next start does not wait
	Window  time.Duration // failures are counted within it
	Limit   int           // so many failures within Window are a crash loop
}

// DefaultRestartPolicy starts again after 25 ms, doubling up to 30 s, forgets after a minute of health, and calls five failures
// within ten minutes a crash loop. What was healthy for that long is started again at once.
func DefaultRestartPolicy() RestartPolicy {
	return RestartPolicy{Min: 25 * time.Millisecond, Max: 30 * time.Second, Healthy: time.Minute, Window: 10 * time.Minute, Limit: 5}
}

// Restarts decides when a plugin is started again. It has no clock and no random source: both come in as values. It never gives
// up: in a crash loop the delay is the longest, and Next says when.
type Restarts struct {
	policy   RestartPolicy
	state    State
	since    time.Time
	next     time.Time
	step     int         // doublings so far
	failures []time.Time // within the window, the last Limit at most
	total    int
}

// NewRestarts begins in state stopped.
func NewRestarts(p RestartPolicy, now time.Time) *Restarts {
	if p == (RestartPolicy{}) {
		p = DefaultRestartPolicy()
	}
	return &Restarts{policy: p, state: StateStopped, since: now}
}

// State returns the state and since when it holds.
func (r *Restarts) State() (state State, since time.Time) { return r.state, r.since }

// Next is when to start again; the zero time unless the state is backoff or crash_loop with a start ahead.
func (r *Restarts) Next() time.Time { return r.next }

// Failures counts all failures so far.
func (r *Restarts) Failures() int { return r.total }

// Starting notes that a process is being started. In a crash loop the state remains, so that it does not flicker with each
// attempt.
func (r *Restarts) Starting(now time.Time) {
	r.next = time.Time{}
	if r.state != StateCrashLoop {
		r.move(StateStarting, now)
	}
}

// Serving notes that the plugin serves.
func (r *Restarts) Serving(now time.Time) { r.move(StateRunning, now) }

// Failed notes that a start failed, or that a plugin which served has ended or must be replaced, and returns when to start
// again. jitter, from 0 up to 1, shortens the delay by up to a quarter, so that plugins that failed together do not return
// together.
func (r *Restarts) Failed(now time.Time, jitter float64) time.Time {
	healthy := r.state == StateRunning && now.Sub(r.since) >= r.policy.Healthy
	if healthy {
		r.forget()
	}
	r.total++
	r.failures = slices.DeleteFunc(r.failures, func(t time.Time) bool { return now.Sub(t) >= r.policy.Window })
	r.failures = append(r.failures, now)
	delay := r.policy.Max
	if len(r.failures) >= r.policy.Limit {
		r.failures = slices.Delete(r.failures, 0, len(r.failures)-r.policy.Limit)
		r.move(StateCrashLoop, now)
	} else {
		if delay = r.delay(); healthy {
			delay = 0
		} else {
			r.step++
		}
		r.move(StateBackoff, now)
	}
	delay -= time.Duration(min(max(jitter, 0), 1) * float64(delay) / 4)
	r.next = now.Add(delay)
	return r.next
}

// Stopped notes that the plugin is not wanted any more, and forgets its failures: whoever starts it again has changed something.
func (r *Restarts) Stopped(now time.Time) {
	r.forget()
	r.next = time.Time{}
	r.move(StateStopped, now)
}

func (r *Restarts) delay() time.Duration {
	delay := r.policy.Min
	for range r.step {
		if delay >= r.policy.Max/2 {
			return r.policy.Max
		}
		delay *= 2
	}
	return min(delay, r.policy.Max)
}

func (r *Restarts) forget() { r.step, r.failures = 0, nil }

func (r *Restarts) move(to State, now time.Time) {
	if r.state != to {
		r.state, r.since = to, now
	}
}
