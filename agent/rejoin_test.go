package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// expireBetween runs an agent with one task, web/1/5, and ends it; the certificate that it leaves in its data directory has expired.
func expireBetween(t *testing.T, s *server, cfg Config) {
	t.Helper()
	a := launch(t, cfg)
	c := s.session()
	c.full(7, wanted("web/1/5", nil))
	c.state("web/1/5", cluster.Running)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.DataDir, CertificateFile)
	pair, err := pki.LoadPair(path)
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.authority.Issue(time.Now().Add(-2*pki.Validity), pair.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Save(path); err != nil {
		t.Fatal(err)
	}
}

// An agent whose certificate expired while it was off comes back as the same node, with a join token: what it runs goes on, and nothing is started again.
func TestRejoinAsTheSameNode(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	expireBetween(t, s, cfg)
	launch(t, cfg)
	c := s.session()
	if got := c.fullReport()["web/1/5"]; cluster.ObservedState(got.GetState()) != cluster.Running {
		t.Errorf("when it is back the agent reports %v", got)
	}
	if n := started(t, sims)["web/1/5"]; n != 1 {
		t.Errorf("started %d times", n)
	}
	if len(s.joins) != 1 || len(s.rejoins) != 1 || s.rejoins[0].GetNode() != nodeID || s.rejoins[0].GetSeenRevision() != 7 {
		t.Errorf("joined %d times, and again as %v", len(s.joins), s.rejoins)
	}
	pair, err := pki.LoadPair(filepath.Join(cfg.DataDir, CertificateFile))
	if err != nil || pair.InForce(time.Now()) != nil || pair.Identity().NodeID != nodeID || pair.Identity().Name != "renamed" {
		t.Errorf("the certificate is %v, %v", pair, err)
	}
}

// The token and the old certificate are shown to nobody but a server of the token's cluster; meanwhile the agent runs what it ran.
func TestRejoinWithAnothersToken(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	expireBetween(t, s, cfg)
	foreign, err := pki.NewAuthority(clusterID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Token = pki.NewToken(foreign.Fingerprint()).Text()
	said := &lines{}
	cfg.Log = hclog.New(&hclog.LoggerOptions{Output: said, Level: hclog.Info})
	launch(t, cfg)
	said.await(t, "does not belong to the cluster of the join token")
	if len(s.rejoins) != 0 {
		t.Error("the token was shown to a server that it does not name")
	}
}

// Without a token the agent goes on with what it runs, and says what to do.
func TestExpiredWithoutAToken(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	expireBetween(t, s, cfg)
	said := &lines{}
	cfg.Token, cfg.Log = "", hclog.New(&hclog.LoggerOptions{Output: said, Level: hclog.Info})
	launch(t, cfg)
	said.await(t, "setpoint agent --join TOKEN@"+s.address+" --data-dir "+cfg.DataDir)
	live, err := simDriver(t, sims).List(t.Context())
	if err != nil || len(live) != 1 {
		t.Errorf("running: %v, %v", live, err)
	}
}

// An agent whose node was given up meanwhile stops its tasks.
func TestRejoinOfAnUnwantedNode(t *testing.T) {
	s, sims := newServer(t), t.TempDir()
	cfg := config(t, s, sims)
	expireBetween(t, s, cfg)
	s.set(func(s *server) { s.leave = "node worker was decommissioned" })
	a := launch(t, cfg)
	var left *LeftError
	if err := a.result(); !errors.As(err, &left) || left.Reason != "node worker was decommissioned" {
		t.Fatalf("Run returned %v", err)
	}
	live, err := simDriver(t, sims).List(t.Context())
	if err != nil || len(live) != 1 || live[0].Status.State != driver.StateExited {
		t.Errorf("left running: %v, %v", live, err)
	}
}

// lines is where an agent logs to.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the agent does not say %q; it says:\n%s", want, text)
		}
		<-time.After(10 * time.Millisecond)
	}
}
