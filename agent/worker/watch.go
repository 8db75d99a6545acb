package worker

import (
	"context"
	"errors"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/health"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// reported is how a driver that reports health by itself is asked, where the job says nothing else: a task may take as long as it likes to
// become healthy.
func reported() health.Timing {
	return health.Timing{Interval: time.Second, Timeout: 5 * time.Second, Retries: cluster.DefaultHealthRetries, Patient: true}
}

// watch checks the health of what runs. A task without a check is healthy because it runs.
func (t *task) watch(ctx context.Context) {
	t.mu.Lock()
	told := t.told
	t.mu.Unlock()
	probe, timing, err := t.probe(ctx, &told)
	if err != nil {
		t.sick = err.Error()
		return
	}
	if probe == nil {
		t.passed = true
		return
	}
	watching, cancel := context.WithCancel(ctx)
	t.unwatch = cancel
	timing.Started = t.since
	t.ops.Go(func() {
		health.Watch(watching, probe, timing, func(v health.Verdict) {
			t.post(watching, func() { t.judged(v) })
		})
	})
}

// probe returns how the task's health is found out, or nil if running is healthy. What a driver reports by itself goes before the job's check; one that does
// not tell yet is asked on.
func (t *task) probe(ctx context.Context, told *state.Assignment) (health.Probe, health.Timing, error) {
	timing := reported()
	if told.Spec != nil && told.Spec.Health != nil {
		timing = health.TimingOf(told.Spec.Health)
	}
	if r := driver.OptionalOf(t.driver()).Health; r != nil {
		h, err := r.Health(ctx, t.handle)
		switch {
		case errors.Is(err, driver.ErrNotFound):
			return nil, timing, nil // its end will tell
		case err != nil || h.Checked:
			return reportedBy(r, t.handle), timing, nil
		}
	}
	if told.Spec == nil || told.Spec.Health == nil {
		return nil, timing, nil
	}
	probe, err := health.New(health.Target{
		Spec: told.Spec.Health, Env: t.withSecretsDir(told, environment(told, t.set.opts.Node)), Dir: told.Spec.Dir, User: told.Spec.User,
	})
	return probe, timing, err
}

// reportedBy returns a probe that asks the task's driver.
func reportedBy(r driver.HealthReporter, h driver.Handle) health.Probe {
	return func(ctx context.Context) error {
		now, err := r.Health(ctx, h)
		switch {
		case err != nil:
			return err
		case now.Checked && now.Failed:
			return final(now.Message)
		case now.Checked && !now.Healthy:
			return errors.New(now.Message)
		}
		return nil
	}
}

// final is what a driver says of a check that by its own count has failed for good.
type final string

// Error is the driver's message.
func (f final) Error() string { return string(f) }

// Is makes it a health.ErrFinal.
func (f final) Is(target error) bool { return target == health.ErrFinal }

// judged takes what a health check found. A check that failed for good ends the task.
func (t *task) judged(v health.Verdict) {
	t.passed = v.Healthy
	if v.Failed {
		t.sick = v.Message
		t.log.Warn("health check failed, stopping the task", "reason", v.Message)
	}
	t.mu.Lock()
	runs := t.status.State == cluster.Running
	t.mu.Unlock()
	if !runs {
		return
	}
	t.observe(func(s *state.Status) { s.Healthy, s.Message = v.Healthy, t.whileRunning(v.Message) })
}
