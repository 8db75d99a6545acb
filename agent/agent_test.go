package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func config(t *testing.T, s *server, simDir string) Config {
	t.Helper()
	return Config{
		DataDir: t.TempDir(), Server: s.address, Token: s.token.Text(), Name: "worker", Labels: map[string]string{"disk": "ssd"},
		Drivers: []driver.Driver{simDriver(t, simDir)}, Version: "1.2.3", Capacity: cluster.Resources{MilliCPU: 4000, Units: map[string]int64{"gpu": 2}},
	}
}

func TestJoinOnceAndRun(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	a := launch(t, cfg)
	c := s.session()
	if got := c.hello.GetClusterId(); got != clusterID {
		t.Errorf("hello is for cluster %q", got)
	}
	d := c.hello.GetDescription()
	if d.GetVersion() != "1.2.3" || d.GetCapacity().GetMilliCpu() != 4000 || d.GetCapacity().GetUnits()["gpu"] != 2 || d.GetCapacity().GetMemoryBytes() <= 0 ||
		d.GetOs() != "linux" || d.GetAttributes()["driver.sim"] != "true" || d.GetAttributes()["kernel"] == "" || len(d.GetDrivers()) != 1 {
		t.Errorf("description is %v", d)
	}
	if got := c.fullReport(); len(got) != 0 {
		t.Errorf("full report of an empty agent: %v", got)
	}
	c.full(7, wanted("web/1/5", nil))
	got := c.state("web/1/5", cluster.Running)
	if !got.GetHealthy() {
		t.Error("running without a check is not healthy")
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(cfg.DataDir, CertificateFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("certificate: %v, %v", info, err)
	}

	cfg.Token = ""
	launch(t, cfg)
	c = s.session()
	if got := c.hello.GetSeenRevision(); got != 7 {
		t.Errorf("hello says revision %d, want 7", got)
	}
	if got := c.fullReport()["web/1/5"]; cluster.ObservedState(got.GetState()) != cluster.Running {
		t.Errorf("after its restart the agent reports %v", got)
	}
	c.full(8, unwanted("web/1/5", 0, cluster.Running))
	c.state("web/1/5", cluster.Stopped)
	c.remove(9, "web/1/5")
	if n := started(t, sims)["web/1/5"]; n != 1 {
		t.Errorf("started %d times", n)
	}
	if len(s.joins) != 1 {
		t.Errorf("joined %d times", len(s.joins))
	}
	if j := s.joins[0]; j.GetLabels()["disk"] != "ssd" || j.GetName() != "worker" || j.GetDescription().GetOs() != "linux" {
		t.Errorf("asked to join as %v", j)
	}
}

func TestJoinRefused(t *testing.T) {
	s := newServer(t)
	cfg := config(t, s, t.TempDir())
	cfg.Token = pki.NewToken(s.authority.Fingerprint()).Text()
	a := launch(t, cfg)
	if err := a.result(); err == nil {
		t.Fatal("joined with a wrong token")
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, CertificateFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a certificate was left: %v", err)
	}
}

func TestLeave(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	a := launch(t, config(t, s, sims))
	c := s.session()
	c.full(1, wanted("web/1/1", map[string]string{"stop_delay": "50ms"}))
	c.state("web/1/1", cluster.Running)
	c.send(&agentv1.FromServer{Message: &agentv1.FromServer_Leave{Leave: &agentv1.Leave{Reason: "node worker was decommissioned"}}})
	var left *LeftError
	if err := a.result(); !errors.As(err, &left) || left.Reason != "node worker was decommissioned" {
		t.Fatalf("Run returned %v", err)
	}
	live, err := simDriver(t, sims).List(t.Context())
	if err != nil || len(live) != 1 || live[0].Status.State != driver.StateExited {
		t.Errorf("left running: %v, %v", live, err)
	}
	select {
	case <-s.sessions:
		t.Error("it speaks again")
	case <-time.After(200 * time.Millisecond):
	}
}
