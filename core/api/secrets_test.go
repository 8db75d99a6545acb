package api_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/secret"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// serveSecrets serves with a vault, and notes what is logged.
func serveSecrets(t *testing.T) (*server, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	vault, err := secret.Open(filepath.Join(dir, "secrets"), filepath.Join(dir, "secrets.key"), "c1")
	if err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	return serve(t, func(o *api.Options) {
		o.Secrets, o.Log = vault, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Trace})
	}), log
}

func putSecret(t *testing.T, c *client.Client, name, value string, create bool) *apiv1.SecretResponse {
	t.Helper()
	res, err := c.PutSecret(t.Context(), connect.NewRequest(&apiv1.PutSecretRequest{Secret: name, Value: []byte(value), Create: create}))
	if err != nil {
		t.Fatal(err)
	}
	return res.Msg
}

func TestSecretsAreNeverShown(t *testing.T) {
	s, log := serveSecrets(t)
	c := s.as(pki.RoleOperator)
	if got := putSecret(t, c, "db", "hunter2", true); !got.GetChanged() || got.GetSecret().GetVersions()[0].GetSizeBytes() != 7 || got.GetSecret().GetVersions()[0].GetBy() != "someone" {
		t.Errorf("created: %v", got)
	}
	if got := putSecret(t, c, "db", "hunter2", false); got.GetChanged() {
		t.Errorf("the same value is a change: %v", got)
	}
	putSecret(t, c, "db", "hunter3", false)
	for name, code := range map[string]connect.Code{"db": connect.CodeAborted, "Db": connect.CodeInvalidArgument} {
		_, err := c.PutSecret(t.Context(), connect.NewRequest(&apiv1.PutSecretRequest{Secret: name, Value: []byte("hunter4"), Create: true}))
		if connect.CodeOf(err) != code || strings.Contains(err.Error(), "hunter") {
			t.Errorf("create %s: %v", name, err)
		}
	}
	if _, err := c.PutSecret(t.Context(), connect.NewRequest(&apiv1.PutSecretRequest{Secret: "other", Value: []byte("hunter5")})); !client.IsNotFound(err) {
		t.Errorf("rotate what is not there: %v", err)
	}
	large := bytes.Repeat([]byte("hunter6"), secret.MaxValue)
	if _, err := c.PutSecret(t.Context(), connect.NewRequest(&apiv1.PutSecretRequest{Secret: "large", Value: large, Create: true})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("too large: %v", err)
	}
	reader := s.as(pki.RoleReader)
	list, err := reader.ListSecrets(t.Context(), connect.NewRequest(&apiv1.ListSecretsRequest{}))
	if err != nil || len(list.Msg.GetSecrets()) != 1 || len(list.Msg.GetSecrets()[0].GetVersions()) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	one, err := reader.GetSecret(t.Context(), connect.NewRequest(&apiv1.GetSecretRequest{Secret: "db"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.as(pki.RoleAdmin).RekeySecrets(t.Context(), connect.NewRequest(&apiv1.RekeySecretsRequest{})); err != nil {
		t.Error(err)
	}
	for _, text := range []string{log.String(), list.Msg.String(), one.Msg.String()} {
		if strings.Contains(text, "hunter") || text == "" {
			t.Errorf("a value is shown: %s", text)
		}
	}
	for _, role := range []pki.Role{pki.RoleReader, pki.RoleNode} {
		if _, err := s.as(role).PutSecret(t.Context(), connect.NewRequest(&apiv1.PutSecretRequest{Secret: "db"})); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a %s wrote a secret: %v", role, err)
		}
	}
}

func secretSpec(names ...*setpointv1.Secret) *setpointv1.JobSpec {
	spec := webSpec()
	spec.Task.Secrets = names
	return spec
}

func TestJobsArePinnedToVersionsOfSecrets(t *testing.T) {
	s, _ := serveSecrets(t)
	c := s.as(pki.RoleOperator)
	putSecret(t, c, "db", "one", true)
	putSecret(t, c, "db", "two", false)
	var got []cluster.Secret
	s.engine.answer(func(op engine.Op) (any, error) {
		got = op.(engine.RunJob).Spec.Task.Secrets
		return engine.JobResult{Job: job("web", 1), Changed: true}, nil
	})
	for asked, want := range map[uint64]uint64{0: 2, 1: 1} {
		spec := secretSpec(&setpointv1.Secret{Name: "db", Version: asked})
		if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec})); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0] != (cluster.Secret{Name: "db", Version: want, Target: "db", Mode: 0o400}) {
			t.Errorf("version %d: the engine was given %+v", asked, got)
		}
	}
	_, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: secretSpec(
		&setpointv1.Secret{Name: "bd"}, &setpointv1.Secret{Name: "db", Version: 9, Target: "x"},
	)}))
	problems := client.Detail(err).GetProblems()
	if len(problems) != 2 || problems[0].GetPath() != `task.secret["bd"]` || problems[1].GetPath() != `task.secret["db"].version` {
		t.Fatalf("problems: %v", problems)
	}
	if want := "Did you mean \"db\"? `setpoint secret create bd FILE` makes it."; problems[0].GetDetail() != want {
		t.Errorf("it is explained by %q", problems[0].GetDetail())
	}
}

// usingSecrets is a job of three versions with the secret in as many versions, of which the first is history, a task still runs the second, and the third is the newest.
func usingSecrets() (*cluster.Job, *cluster.Task) {
	j := job("web", 1)
	j.Control.Versions = nil
	for n := range uint64(3) {
		spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Command: []string{"x"}, Secrets: []cluster.Secret{{Name: "db", Version: n + 1}}}}
		j.Control.Versions = append(j.Control.Versions, cluster.JobVersion{Version: n + 1, SpecVersion: n + 1, Spec: spec.WithDefaults()})
	}
	j.Control.Version, j.Control.SpecVersion, j.Control.Spec = 3, 3, j.Control.Versions[2].Spec
	t := &cluster.Task{ID: cluster.NewTaskID("web", "1", 1), Job: "web", Slot: "1", JobVersion: 2, SpecVersion: 2, Desired: cluster.Desired{State: cluster.DesiredRunning}}
	return j, t
}

func TestSecretsInUseStay(t *testing.T) {
	s, _ := serveSecrets(t)
	c := s.as(pki.RoleOperator)
	for i, value := range []string{"one", "two", "three"} {
		putSecret(t, c, "db", value, i == 0)
	}
	j, task := usingSecrets()
	s.engine.set(5, j, task)
	remove := func(version uint64) error {
		_, err := c.RemoveSecret(t.Context(), connect.NewRequest(&apiv1.RemoveSecretRequest{Secret: "db", Version: version}))
		return err
	}
	for _, version := range []uint64{0, 2, 3} {
		if err := remove(version); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "used by web") {
			t.Errorf("remove version %d: %v", version, err)
		}
	}
	if err := remove(1); err != nil {
		t.Fatal(err)
	}
	one, err := c.GetSecret(t.Context(), connect.NewRequest(&apiv1.GetSecretRequest{Secret: "db"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range one.Msg.GetSecret().GetVersions() {
		if len(x.GetJobs()) != 1 || x.GetJobs()[0] != "web" {
			t.Errorf("version %d is used by %v", x.GetVersion(), x.GetJobs())
		}
	}
	_, err = c.RollbackJob(t.Context(), connect.NewRequest(&apiv1.RollbackJobRequest{Job: "web", To: 1}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), `version 1 of job web names secrets that are gone: task.secret["db"].version`) {
		t.Errorf("rollback to a version whose secret is gone: %v", err)
	}
	s.engine.answer(func(engine.Op) (any, error) { return engine.JobResult{Job: j, Changed: true}, nil })
	if _, err := c.RollbackJob(t.Context(), connect.NewRequest(&apiv1.RollbackJobRequest{Job: "web"})); err != nil {
		t.Errorf("rollback to the version before: %v", err)
	}
	s.engine.set(6)
	if err := remove(0); err != nil {
		t.Errorf("remove once no job is there: %v", err)
	}
	if err := remove(0); !client.IsNotFound(err) {
		t.Errorf("remove again: %v", err)
	}
}
