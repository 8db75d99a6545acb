package dispatch

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/secret"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fakeSecrets has one secret in one version.
type fakeSecrets struct{}

func (fakeSecrets) Read(name string, version uint64) (secret.Value, error) {
	if name == "db" && version == 2 {
		return secret.NewValue([]byte("hunter2")), nil
	}
	return secret.Value{}, secret.ErrNotFound
}

func TestOnlyANodeThatStartsTheTaskHearsItsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := with(webJob(), func(j *cluster.Job) {
			j.Control.Versions[0].Spec.Task.Secrets = []cluster.Secret{{Name: "db", Version: 2, Target: "db", Mode: 0o400}, {Name: "gone", Version: 1, Target: "gone", Mode: 0o400}}
		})
		running := with(placedTask("web/2/3", "n1"), func(t *cluster.Task) { t.Observed.State = cluster.Running })
		stopping := with(placedTask("web/3/3", "n1"), func(t *cluster.Task) { t.Desired = cluster.Desired{State: cluster.DesiredShutdown, Grace: -1} })
		paused := with(readyNode("n2"), func(n *cluster.Node) { n.Spec.Availability = cluster.Pause })
		e := newFakeEngine(readyNode("n1"), paused, readyNode("n3"), job, placedTask("web/1/3", "n1"), running, stopping, placedTask("web/4/3", "n2"))
		d := newDispatcher(t, e)
		var log bytes.Buffer
		d.opts.Secrets, d.opts.Log = fakeSecrets{}, hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Trace})

		for node, want := range map[cluster.NodeID]string{"n1": "web/1/3", "n2": "", "n3": ""} {
			a := dial(t, d, node, hello())
			heard := ""
			for _, u := range a.welcome().GetUpsert() {
				if len(u.GetSecrets()) == 0 {
					continue
				}
				heard += u.GetTask()
				if s := u.GetSecrets(); len(s) != 2 || string(s[0].GetValue()) != "hunter2" || s[0].GetErr() != "" || len(s[1].GetValue()) != 0 || !strings.Contains(s[1].GetErr(), "no such secret") {
					t.Errorf("%s was told %d secrets", node, len(s))
				}
			}
			if heard != want {
				t.Errorf("%s heard the secrets of %q, want %q", node, heard, want)
			}
			_ = a.hangUp()
		}
		if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "secret of a task not read") {
			t.Errorf("the log has the value, or does not say what is missing: %s", text)
		}
	})
}
