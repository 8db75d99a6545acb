package netns

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// Who is no operator, or shows what is not his, gets nothing: a node at the operators' API, a token that was made up, one of another cluster, one that was revoked.
func TestStrangers(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web"})
	revision := c.Status().Revision
	node := filepath.Join(c.Dir, "as-node")
	if err := os.Mkdir(node, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.Agent("n1").File("node.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(node, "login.pem"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"node", "ls"}, {"job", "stop", "web"}, {"token", "create"}, {"node", "drain", "n1"}, {"ca", "rotate"}} {
		args := append(command, "--data-dir", node, "--addr", "https://"+c.Address())
		if r := c.CLI(args...); r.Code != bench.Error || !strings.Contains(r.Stderr, "role node") {
			t.Errorf("with a node's certificate: %s", r)
		}
	}
	token := strings.TrimSpace(c.Must("token", "create").Stdout)
	cut := strings.LastIndex(token, "-")
	var revoked struct{ ID, Token string }
	if err := json.Unmarshal([]byte(c.Must("token", "create", "-o", "json").Stdout), &revoked); err != nil {
		t.Fatal(err)
	}
	c.Must("token", "rm", revoked.ID)
	for what, tt := range map[string]struct{ token, says string }{
		"made up":            {token[:cut+1] + strings.Repeat("a", len(token)-cut-1), "join token refused"},
		"of another cluster": {strings.Replace(token, token[len("SPJT-1-"):cut], strings.Repeat("a", cut-len("SPJT-1-")), 1), "does not belong to the cluster of the join token"},
		"revoked":            {revoked.Token, "join token refused"},
	} {
		r := c.CLI("agent", "--join", tt.token+"@"+c.Address(), "--name", "x", "--data-dir", filepath.Join(c.Dir, "stranger-"+strings.ReplaceAll(what, " ", "-")))
		if r.Code != bench.Error || !strings.Contains(r.Stderr, tt.says) {
			t.Errorf("a token %s: %s", what, r)
		}
		if strings.Contains(r.Stderr, tt.token) {
			t.Errorf("a token %s: it is repeated: %s", what, r)
		}
	}
	if nodes := c.Nodes(); len(nodes) != 1 || nodes[0].State != "ready" {
		t.Errorf("there are %+v", nodes)
	}
	for _, e := range c.EventsFrom(revision, "") {
		if e.Kind == "node_joined" || e.Kind == "job_stopped" {
			t.Errorf("something came of it: %+v", e)
		}
	}
}

// What an agent once said is worth nothing to who recorded it on the cable: said again, none of it is taken, and the node's own session goes on.
func TestARecordedSession(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2), Relayed: []string{"n1"}})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 4, Command: []string{"sleep", "1000"}})
	before := pids(c)
	// Then everything changes: what is said again is old.
	c.Must("job", "stop", "web")
	c.Until(15*time.Second, "all have ended, and the server knows", func() (bool, any) {
		tasks := c.AllTasks("web")
		return !slices.ContainsFunc(tasks, func(task bench.Task) bool { return !task.Dead }), tasks
	})
	said := c.Relay("n1").Said()
	if len(said) < 2 { // the join and the session
		t.Fatalf("%d connections were recorded", len(said))
	}
	revision := c.Status().Revision
	for i, data := range said {
		if len(data) < 1000 {
			t.Errorf("connection %d was recorded with %d bytes", i, len(data))
		}
		if answer, err := c.Relay("n1").Say(data, 3*time.Second); err != nil && len(answer) == 0 {
			t.Logf("connection %d said again: %v", i, err)
		}
	}
	c.During(3*time.Second, "both are ready", func() (bool, any) { n := c.Ready(); return n == 2, n })
	for _, e := range c.EventsFrom(revision, "") {
		if e.Revision > revision {
			t.Errorf("something came of it: %+v", e)
		}
	}
	if now := pids(c); len(now) != 0 {
		t.Errorf("%v run, as %v did", now, before)
	}
}
