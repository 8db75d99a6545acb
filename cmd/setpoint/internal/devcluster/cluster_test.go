package devcluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this test's binary be an agent: it writes who it is and waits for a signal, which it notes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(playAgent(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func playAgent(args []string) int {
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[strings.TrimPrefix(args[i], "--")] = args[i+1]
	}
	if flags["label"] == "broken=yes" {
		return 3
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, StopTasks)
	dir := flags["data-dir"]
	r, err := Self(flags["server"])
	if err == nil {
		err = r.Write(dir)
	}
	if err != nil {
		return 1
	}
	if err := os.WriteFile(filepath.Join(dir, "signal"), []byte((<-signals).String()), 0o600); err != nil {
		return 1
	}
	return 0
}

func options(t *testing.T, names ...string) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Dir: t.TempDir(), Executable: exe, Server: "127.0.0.1:1", Token: "secret"}
	for _, name := range names {
		opts.Nodes = append(opts.Nodes, Node{Name: name})
	}
	return opts
}

func start(t *testing.T, opts Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background(), 10*time.Second); err != nil {
			t.Error(err)
		}
		c.started.Wait()
	})
	return c
}

func record(t *testing.T, c *Cluster, name string) Record {
	t.Helper()
	r, err := Read(c.dir(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStartAdoptStop(t *testing.T) {
	opts := options(t, "n1", "n2")
	first := start(t, opts)
	n1, n2 := record(t, first, "n1"), record(t, first, "n2")
	if !n1.Alive() || !first.Alive("n2") || n1.PID == n2.PID {
		t.Fatalf("agents: %+v, %+v", n1, n2)
	}
	if token, err := os.ReadFile(filepath.Join(opts.Dir, "n1", tokenFile)); err != nil || string(token) != "secret" {
		t.Errorf("token: %q, %v", token, err)
	}
	if err := first.Joined(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(opts.Dir, "n1", tokenFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the token is still there: %v", err)
	}

	// One is killed; another run adopts the other and starts this one.
	if err := end(t.Context(), n2, syscall.SIGKILL, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	second := start(t, opts)
	if got := record(t, second, "n1"); got != n1 {
		t.Errorf("n1 was not adopted: %+v, was %+v", got, n1)
	}
	if got := record(t, second, "n2"); got.PID == n2.PID || !got.Alive() {
		t.Errorf("n2 was not started again: %+v", got)
	}

	// At another address agents are started anew, and told so gently.
	opts.Server = "127.0.0.1:2"
	third := start(t, opts)
	if got := record(t, third, "n1"); got.PID == n1.PID || got.Server != opts.Server || n1.Alive() {
		t.Errorf("n1 still serves the old address: %+v", got)
	}
	signalled(t, opts.Dir, "n1", syscall.SIGTERM)

	if err := third.Stop(t.Context(), 10*time.Second); err != nil {
		t.Error(err)
	}
	if third.Alive("n1") || third.Alive("n2") {
		t.Error("agents run after Stop")
	}
	signalled(t, opts.Dir, "n1", StopTasks)
	signalled(t, opts.Dir, "n2", StopTasks)
}

func signalled(t *testing.T, dir, name string, want os.Signal) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, name, "signal")); err != nil || string(got) != want.String() {
		t.Errorf("%s was ended by %q, %v; want %v", name, got, err, want)
	}
}

func TestClusterWithoutNodes(t *testing.T) {
	opts := options(t)
	opts.Dir = filepath.Join(opts.Dir, "agents")
	if err := start(t, opts).Stop(t.Context(), time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAgentThatFails(t *testing.T) {
	opts := options(t, "n1")
	opts.Nodes[0].Args = []string{"--label", "broken=yes"}
	_, err := Start(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), "start the agent of n1") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

// TestStrangersAreLeftAlone has a record of which the number belongs to another process meanwhile.
func TestStrangersAreLeftAlone(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	self, err := Self("")
	if err != nil {
		t.Fatal(err)
	}
	start, err := startOf(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Record{
		"another start": {PID: stranger.Process.Pid, Start: start + 1, Boot: self.Boot},
		"another boot":  {PID: stranger.Process.Pid, Start: start, Boot: "other"},
		"none":          {},
	} {
		if r.Alive() {
			t.Errorf("%s: taken for the agent", name)
		}
		if err := end(t.Context(), r, syscall.SIGKILL, time.Second); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := (Record{PID: stranger.Process.Pid, Start: start, Boot: self.Boot}); !r.Alive() {
		t.Error("the process was signalled")
	}
}
