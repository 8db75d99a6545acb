package pluginhost

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// asPlugin is the first argument with which this test binary is a plugin instead of a test.
const asPlugin = "as-plugin"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asPlugin {
		play(os.Args[2])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// recorder is an engine that remembers what it is told. Safe for use by several goroutines.
type recorder struct {
	mu  sync.Mutex
	got []engine.Input
	on  func(engine.Input) // called with the lock held; may be nil
}

func (r *recorder) Send(ctx context.Context, in engine.Input) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, in)
	if r.on != nil {
		r.on(in)
	}
	return ctx.Err()
}

func (r *recorder) inputs() []engine.Input {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]engine.Input(nil), r.got...)
}

// all returns the inputs of one kind.
func all[T engine.Input](r *recorder) []T {
	var out []T
	for _, in := range r.inputs() {
		if x, ok := in.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// await polls for an input, for what other processes do.
func await[T engine.Input](t *testing.T, r *recorder, what string, ok func(T) bool) T {
	t.Helper()
	var found T
	eventually(t, what, func() bool {
		for _, in := range all[T](r) {
			if ok(in) {
				found = in
				return true
			}
		}
		return false
	})
	return found
}

// eventually polls for what other processes do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		}
	}
}

func newLauncher(t *testing.T) *runner.Launcher {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := runner.NewLauncher(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// played is the plugin that this binary is with a mode.
func played(mode string) Plugin {
	return Plugin{
		Name: mode, Timeout: time.Second, StartTimeout: 20 * time.Second,
		Command: runner.Command{Path: "/proc/self/exe", Args: []string{asPlugin, mode}},
	}
}

// running is a host under test with its engine.
type running struct {
	*Host
	engine *recorder
	stop   func() error // ends Run and returns what it returned
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{engine: &recorder{}}
	cfg.Launcher, cfg.Engine, cfg.ClusterID = newLauncher(t), r.engine, "test"
	if cfg.Logger == nil && testing.Verbose() {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Debug})
	}
	r.Host = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	var err error
	r.stop = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// up waits for a session later than the given one.
func (r *running) up(t *testing.T, plugin string, after uint64) engine.PluginUp {
	t.Helper()
	return await(t, r.engine, plugin+" is up", func(in engine.PluginUp) bool { return in.Name == plugin && in.Session > after })
}

func node(id string, labels map[string]string) *cluster.Node {
	return &cluster.Node{
		ID: cluster.NodeID(id), Spec: cluster.NodeSpec{Name: id, Labels: labels, Availability: cluster.Active},
		Status: cluster.NodeStatus{State: cluster.NodeReady},
	}
}

// first is the update that begins a session: two nodes, of which n1 is in pool "a" and n2 in "b".
func first(up engine.PluginUp) engine.PluginUpdate {
	return engine.PluginUpdate{
		Plugin: up.Name, Session: up.Session, Reset: true, Revision: 7,
		Nodes: []engine.IndexedNode{{Index: 0, Node: node("n1", map[string]string{"pool": "a"})}, {Index: 1, Node: node("n2", map[string]string{"pool": "b"})}},
	}
}

func class(id uint32, settings string) engine.Class {
	return engine.Class{ID: id, Revision: 5, JobType: cluster.TypeReplicated, Settings: settings}
}
