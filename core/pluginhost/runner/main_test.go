package runner

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// asPlugin is the first argument with which this test binary is a plugin, or a host, instead of a test.
const asPlugin = "as-plugin"

// asConfiner is the first argument with which this test binary confines itself and becomes a plugin.
const asConfiner = "as-confiner"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asPlugin {
		playPlugin(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == asConfiner {
		os.Exit(ConfineMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// silent is a plugin type without services: health checks are enough for these tests.
type silent struct{ plugin.NetRPCUnsupportedPlugin }

func (silent) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (silent) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: "SETPOINT_TEST_COOKIE", MagicCookieValue: "c0ffee"}
}

func protocol(versions ...int) Protocol {
	p := Protocol{Handshake: handshake(), Versions: make(map[int]plugin.PluginSet)}
	for _, v := range versions {
		p.Versions[v] = plugin.PluginSet{"silent": silent{}}
	}
	return p
}

// logBuffer is a log that a test can read while it is written to.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newLog() (hclog.Logger, *logBuffer) {
	buf := &logBuffer{}
	return hclog.New(&hclog.LoggerOptions{Output: buf, Level: hclog.Trace, JSONFormat: true}), buf
}

// shortDir is a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newLauncher(t *testing.T) (*Launcher, *logBuffer) {
	t.Helper()
	log, buf := newLog()
	l, err := NewLauncher(shortDir(t), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, buf
}

// play is the command that runs this binary as a plugin that behaves as mode says.
func play(mode string, args ...string) Command {
	return Command{
		Name:             mode,
		Path:             selfExecutable,
		Args:             append([]string{asPlugin, mode}, args...),
		HandshakeTimeout: 20 * time.Second, // machines that run tests can be slow
	}
}

func start(t *testing.T, l *Launcher, cmd Command) *Process {
	t.Helper()
	p, err := l.Start(t.Context(), cmd, protocol(1))
	if err != nil {
		t.Fatal(err)
	}
	return p
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

// content waits for a file that a plugin writes by renaming, and returns its content.
func content(t *testing.T, path string) string {
	t.Helper()
	var b []byte
	eventually(t, filepath.Base(path)+" is written", func() bool {
		var err error
		b, err = os.ReadFile(path)
		return err == nil
	})
	return string(b)
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func kill(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func waitDone(t *testing.T, p *Process) ExitStatus {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the process does not end")
	}
	return p.Exit()
}
