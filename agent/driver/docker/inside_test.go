package docker

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// tells runs a task to its end and returns what it wrote.
func tells(t *testing.T, d *Driver, spec driver.Spec) []string {
	t.Helper()
	spec.Command = append(spec.Command, "exit", "0")
	h := start(t, d, spec)
	if exit := wait(t, d, h); exit.Code != 0 {
		t.Errorf("exit is %+v", exit)
	}
	out := output(t, d, h)
	if err := d.Remove(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	return out
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !slices.Contains(got, line) {
			t.Errorf("%q is not in %q", line, got)
		}
	}
}

func TestInside(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1", "who", "env", "MODE", "status", "NoNewPrivs", "status", "CapEff", "write", "/x")
	spec.Env = map[string]string{"MODE": "prod"}
	want(t, tells(t, d, spec), "uid 0 gid 0 dir / pid 1", "MODE=prod", "NoNewPrivs: 1", "CapEff: 00000000a80425fb", "write: ok")

	spec.User, spec.Dir = "web", "/made/for/it"
	spec.Settings["cap_drop"], spec.Settings["read_only"] = `["ALL"]`, "true"
	want(t, tells(t, d, spec), "uid 1001 gid 1002 dir /made/for/it pid 1", "CapEff: 0000000000000000", "write: open /x: read-only file system")

	spec.User = "7:8"
	spec.Settings["new_privileges"], spec.Settings["read_only"] = "true", "false"
	spec.Settings["cap_drop"], spec.Settings["cap_add"] = `["ALL"]`, `["NET_ADMIN"]`
	want(t, tells(t, d, spec), "uid 7 gid 8 dir /made/for/it pid 1", "NoNewPrivs: 0")
	spec.User = ""
	want(t, tells(t, d, spec), "CapEff: 0000000000001000")
}

func TestArgs(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1", "out", "a")
	spec.Settings["args"] = `["out", "b c", "exit", "0"]`
	h := start(t, d, spec)
	wait(t, d, h)
	want(t, output(t, d, h), "a", "b c")
}

func TestInit(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1", "who")
	spec.Settings["init"] = "true"
	got := tells(t, d, spec)
	if len(got) != 1 || strings.HasSuffix(got[0], " pid 1") {
		t.Errorf("it wrote %q", got)
	}
}

func TestMounts(t *testing.T) {
	d := fresh(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "given"), []byte("by the machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := task("job/1/1", "read", "/in/given", "write", "/in/new", "write", "/ro/new", "write", "/tmp/new", "write", "/kept/new")
	spec.Settings["read_only"] = "true"
	spec.Settings["mounts"] = `[{"source": "` + dir + `", "target": "/in"}, {"source": "` + dir + `", "target": "/ro", "read_only": true},
		{"type": "tmpfs", "target": "/tmp", "size": "1MiB"}, {"source": "setpoint-test-kept", "target": "/kept"}]`
	want(t, tells(t, d, spec), "read: by the machine ok", "write: open /ro/new: read-only file system")
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	// A named volume outlives the task, and another one finds what is in it.
	defer d.engine.VolumeRemove(t.Context(), "setpoint-test-kept", client.VolumeRemoveOptions{})
	next := task("job/1/2", "read", "/kept/new")
	next.Settings["mounts"] = `[{"type": "volume", "source": "setpoint-test-kept", "target": "/kept"}]`
	want(t, tells(t, d, next), "read: written ok")
}

func TestSecrets(t *testing.T) {
	d := fresh(t)
	for name, c := range map[string]struct {
		user, owner string
		want        []string
	}{
		"root":         {"", "", []string{"read: hunter2 ok", "SETPOINT_SECRETS_DIR=/run/secrets", "write: open /run/secrets/new: read-only file system"}},
		"number":       {"1001", "", []string{"read: hunter2 ok"}},
		"name":         {"web", "", []string{"read:  open /run/secrets/db: permission denied"}},
		"name, owned":  {"web", "1001", []string{"read: hunter2 ok"}},
		"other, owned": {"7", "1001:1002", []string{"read:  open /run/secrets/db: permission denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/dev/shm", "setpoint-test-")
			if err != nil {
				t.Skip(err)
			}
			defer os.RemoveAll(dir)
			if err := os.WriteFile(filepath.Join(dir, "db"), []byte("hunter2\n"), 0o400); err != nil {
				t.Fatal(err)
			}
			spec := task("job/1/1", "env", "SETPOINT_SECRETS_DIR", "read", "/run/secrets/db", "write", "/run/secrets/new")
			spec.User, spec.Secrets = c.user, driver.Secrets{Dir: dir, Files: []driver.SecretFile{{Name: "db", Mode: 0o400, Owner: c.owner}}}
			want(t, tells(t, d, spec), c.want...)
		})
	}
}

// enter moves the calling goroutine's thread into the engine's network, where ports are published. The thread ends with the goroutine.
func enter(t *testing.T) {
	t.Helper()
	path := os.Getenv(envNetNS)
	if path == "" {
		t.Skipf("%s is not set: it is not known in which network the engine publishes ports", envNetNS)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runtime.LockOSThread() // and never unlock it
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// hello returns what the task says to who asks.
func hello(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestPorts(t *testing.T) {
	d := fresh(t)
	same := task("job/1/1", "listen", "18081", "out", "up")
	same.Ports = []driver.Port{{Name: "http", Number: 18081}}
	mapped := task("job/2/1", "listen", "80", "listen", "81", "out", "up")
	mapped.Ports = []driver.Port{{Name: "http", Number: 18082}, {Name: "admin", Number: 18083}}
	mapped.Settings["ports"] = `{"http": 80, "admin": ["81/tcp", "81/udp"]}`
	host := task("job/3/1", "listen", "18084", "out", "up")
	host.Ports = []driver.Port{{Name: "http", Number: 18084}}
	host.Settings["network"] = "host"
	delete(same.Settings, "network")
	delete(mapped.Settings, "network")
	for _, spec := range []driver.Spec{same, mapped, host} {
		h := start(t, d, spec)
		for _, err := range d.Logs(t.Context(), h, driver.LogsRequest{Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			break // it listens
		}
	}
	t.Run("reached", func(t *testing.T) {
		enter(t)
		for _, port := range []string{"18081", "18082", "18083", "18084"} {
			if line, err := hello("127.0.0.1:" + port); err != nil || !strings.HasSuffix(line, "\nhello\n") {
				t.Errorf("port %s says %q, %v", port, line, err)
			}
		}
	})
}
