package worker

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// newSecretBench keeps secrets in memory that only this test has.
func newSecretBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	path, err := secrets.DefaultPath(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	b.secrets = path
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return b
}

func needy(task cluster.TaskID, settings map[string]string) state.Assignment {
	a := wanted(task, settings)
	a.Spec.Secrets = []cluster.Secret{{Name: "db", Version: 1, Target: "password", Mode: 0o400}}
	return a
}

// withSecret sends a value with the orders.
func withSecret(o Orders, value, err string) Orders {
	o.Secrets = make(map[cluster.TaskID]secrets.Values)
	for _, a := range o.Assignments {
		var v secrets.Values
		v.Add("db", []byte(value), err)
		o.Secrets[a.Task] = v
	}
	return o
}

// secretOf returns what the task finds, by what its driver was told; "" if it is gone.
func (b *bench) secretOf(task cluster.TaskID) string {
	b.t.Helper()
	for _, e := range b.events() {
		if e.TaskID != string(task) || e.Spec == nil || e.Spec.Secrets.Dir == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(e.Spec.Secrets.Dir, "password"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
		return string(text)
	}
	b.t.Fatalf("the driver was not told of secrets of %s", task)
	return ""
}

// notOnDisk fails if anything that the agent and its driver wrote has the value.
func (b *bench) notOnDisk(value string) {
	b.t.Helper()
	for _, dir := range []string{b.dir, b.sim} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(value)) {
				b.t.Errorf("%s has the value", path)
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestSecretsOutliveTheAgentAndNotTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSecretBench(t)
		b.open()
		a := needy(web, map[string]string{"run_for": "10s"})
		b.apply(withSecret(orders(1, a), "hunter2", ""))
		b.want(web, cluster.Running)
		if got := b.secretOf(web); got != "hunter2" {
			t.Errorf("the task finds %q", got)
		}
		b.notOnDisk("hunter2")

		// Without a server a new agent finds it running, with its file.
		b.close()
		b.open()
		defer b.close()
		b.want(web, cluster.Running)
		if got := b.secretOf(web); got != "hunter2" {
			t.Errorf("after the agent's restart the task finds %q", got)
		}
		time.Sleep(11 * time.Second)
		b.want(web, cluster.Complete)
		if got := b.secretOf(web); got != "" {
			t.Errorf("after its end %q is left", got)
		}
		if _, err := os.Stat(b.secrets); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory is left: %v", err)
		}
		b.notOnDisk("hunter2")
	})
}

func TestAnAgentThatDiedBeforeTheStartAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSecretBench(t)
		b.open()
		a := needy(web, nil)
		a.Start = false
		b.apply(orders(1, a))
		b.close()
		b.open()
		defer b.close()
		b.want(web, cluster.Accepted)
		a.Start, a.Observed = true, cluster.Accepted
		b.apply(withSecret(full(2, a), "hunter2", ""))
		b.want(web, cluster.Running)
		if got := b.secretOf(web); got != "hunter2" {
			t.Errorf("the task finds %q", got)
		}
		stop := unwanted(a, 0, cluster.Running)
		b.apply(orders(3, stop))
		b.want(web, cluster.Stopped)
		if got := b.secretOf(web); got != "" {
			t.Errorf("after its stop %q is left", got)
		}
	})
}

func TestWithoutItsSecretsATaskIsRejected(t *testing.T) {
	for name, c := range map[string]struct {
		nowhere bool
		orders  func(a state.Assignment) Orders
		want    string
	}{
		"no memory": {true, func(a state.Assignment) Orders { return withSecret(orders(1, a), "hunter2", "") }, "this node cannot keep any: no memory"},
		"not on the server": {false, func(a state.Assignment) Orders {
			return withSecret(orders(1, a), "", "secret db version 1: it is gone")
		}, "secret db version 1: it is gone"},
		"not sent": {false, func(a state.Assignment) Orders { return orders(1, a) }, "the server did not send the secret db"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSecretBench(t)
				if c.nowhere {
					b.secrets = ""
				}
				b.open()
				defer b.close()
				b.apply(c.orders(needy(web, nil)))
				if got := b.want(web, cluster.Rejected); !strings.Contains(got.Err, c.want) {
					t.Errorf("rejected for %q, want %q", got.Err, c.want)
				}
				if len(b.events()) != 0 {
					t.Errorf("the driver was asked: %v", b.events())
				}
				b.notOnDisk("hunter2")
			})
		})
	}
}
