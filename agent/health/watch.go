package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// eager is how often a task is probed that has not passed yet.
const eager = time.Second

// ErrFinal is in the error of a probe whose own count has come to its end: the check has failed for good.
var ErrFinal = errors.New("failed for good")

// Probe looks once, and returns why the task is not healthy, or nil if it is.
type Probe func(ctx context.Context) error

// Timing says when to probe and what failures mean.
type Timing struct {
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration
	Retries     int
	Started     time.Time // when the task began to run
	Patient     bool      // failures before the first pass never count
}

// TimingOf returns what a job says.
func TimingOf(s *cluster.HealthSpec) Timing {
	return Timing{Interval: s.Interval, Timeout: s.Timeout, StartPeriod: s.StartPeriod, Retries: s.Retries}
}

// Verdict is what is known of a task's health.
type Verdict struct {
	Healthy bool
	Failed  bool   // for good
	Message string // for people
}

// Watch probes until the context ends or the check has failed for good. It reports each verdict that differs from the one before.
func Watch(ctx context.Context, probe Probe, timing Timing, report func(Verdict)) {
	c := counter{timing: timing, counted: timing.Started}
	var last Verdict
	for {
		err := once(ctx, probe, timing.Timeout)
		if ctx.Err() != nil {
			return
		}
		v := c.next(time.Now(), err)
		if v != last {
			report(v)
			last = v
		}
		if v.Failed || !pause(ctx, c.wait()) {
			return
		}
	}
}

// once probes within the time allowed.
func once(ctx context.Context, probe Probe, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := probe(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", timeout)
	}
	return err
}

// counter judges one outcome after the other.
type counter struct {
	timing   Timing
	counted  time.Time // when a failure last counted, or the task's start
	failures int       // in a row that counted
	passed   bool
}

func (c *counter) next(now time.Time, err error) Verdict {
	if err == nil {
		c.failures, c.passed = 0, true
		return Verdict{Healthy: true, Message: "healthy"}
	}
	due := c.passed || now.Sub(c.counted) >= c.timing.Interval
	if c.timing.Patient && !c.passed {
		due = false
	}
	if due && now.Sub(c.timing.Started) >= c.timing.StartPeriod {
		c.failures++
		c.counted = now
	}
	switch {
	case c.failures >= c.timing.Retries, errors.Is(err, ErrFinal):
		return Verdict{Failed: true, Message: err.Error()}
	case c.failures == 0:
		return Verdict{Healthy: c.passed, Message: fmt.Sprintf("starting: %v", err)}
	}
	return Verdict{Healthy: c.passed, Message: fmt.Sprintf("health check failing (%d of %d): %v", c.failures, c.timing.Retries, err)}
}

// wait is the pause before the next probe.
func (c *counter) wait() time.Duration {
	if c.passed {
		return c.timing.Interval
	}
	return min(c.timing.Interval, eager)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
