package dispatch

import (
	"errors"
	"fmt"

	"github.com/setpointd/setpoint/core/secret"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Secrets has the values that tasks need; *secret.Vault is one.
type Secrets interface {
	// Read returns a value. The error is secret.ErrNotFound, or says why it cannot be read.
	Read(name string, version uint64) (secret.Value, error)
}

// addSecrets adds to an assignment the values that its task needs for its start: only the node of the task hears them, and only until it was seen to run.
func (d *Dispatcher) addSecrets(a *agentv1.Assignment) {
	if !a.GetStart() || cluster.ObservedState(a.GetObserved()) >= cluster.Running {
		return
	}
	for _, s := range a.GetSpec().GetSecrets() {
		out := &agentv1.SecretValue{Name: s.GetName(), Version: s.GetVersion()}
		value, err := d.readSecret(s.GetName(), s.GetVersion())
		if err != nil {
			d.opts.Log.Error("secret of a task not read", "task", a.GetTask(), "secret", s.GetName(), "version", s.GetVersion(), "error", err)
			out.Err = fmt.Sprintf("secret %s version %d: the server cannot read it: %v; create it anew with `setpoint secret`, and run the job again", s.GetName(), s.GetVersion(), err)
		} else {
			out.Value = value.Reveal()
		}
		a.Secrets = append(a.Secrets, out)
	}
}

func (d *Dispatcher) readSecret(name string, version uint64) (secret.Value, error) {
	if d.opts.Secrets == nil {
		return secret.Value{}, errors.New("this server keeps no secrets")
	}
	return d.opts.Secrets.Read(name, version)
}
