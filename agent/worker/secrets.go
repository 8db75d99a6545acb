package worker

import (
	"errors"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// hearSecrets takes values that the server sent. It sends them only while the task may start. It is called with the lock held.
func (t *task) hearSecrets(values secrets.Values) {
	if values.Len() > 0 && !t.status.State.Terminal() {
		t.values = values
	}
}

func (t *task) forgetValues() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.values = secrets.Values{}
}

// placeSecrets puts the task's secrets where it will find them. If it reports false, the task does not start, and has been told why.
func (t *task) placeSecrets(told *state.Assignment) (driver.Secrets, bool) {
	if len(told.Spec.Secrets) == 0 {
		return driver.Secrets{}, true
	}
	dir := t.set.opts.Secrets
	if dir == nil {
		t.refusal = "it needs secrets, and this node cannot keep any: " + t.set.opts.NoSecrets
		return driver.Secrets{}, false
	}
	t.mu.Lock()
	values := t.values
	t.mu.Unlock()
	placed, err := dir.Place(t.id, told.Spec.Secrets, values)
	var missing *secrets.MissingError
	switch {
	case errors.As(err, &missing):
		t.refusal = missing.Reason
	case err != nil:
		t.startErr = err
	}
	return placed, err == nil
}

// removeSecrets removes the task's secrets. Those that cannot be removed now are when the agent starts again.
func (t *task) removeSecrets() {
	t.forgetValues()
	if t.set.opts.Secrets == nil {
		return
	}
	if err := t.set.opts.Secrets.Remove(t.id); err != nil {
		t.log.Error("secrets of a task that ended are left", "error", err)
	}
}

// sweepSecrets removes the secrets of tasks that have ended, or that nobody knows any more.
func (s *Set) sweepSecrets(tasks []*task) {
	if s.opts.Secrets == nil {
		return
	}
	var keep []cluster.TaskID
	for _, t := range tasks {
		if !t.ended() {
			keep = append(keep, t.id)
		}
	}
	if err := s.opts.Secrets.Sweep(keep); err != nil {
		s.opts.Log.Error("secrets of tasks that ended are left", "error", err)
	}
}

// withSecretsDir tells a program that checks the task where its secrets are.
func (t *task) withSecretsDir(told *state.Assignment, env map[string]string) map[string]string {
	if len(told.Spec.Secrets) > 0 && t.set.opts.Secrets != nil {
		env[driver.SecretsDirEnv] = t.set.opts.Secrets.Path(t.id)
	}
	return env
}
