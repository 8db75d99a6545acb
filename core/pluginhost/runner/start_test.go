package runner

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestStartServesAndStops(t *testing.T) {
	l, log := newLauncher(t)
	p := start(t, l, play("serve"))
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := p.Dispense("silent"); err != nil || conn != any(p.Conn()) {
		t.Errorf("dispense: %v, %v", conn, err)
	}
	if p.Version() != 1 {
		t.Errorf("version %d", p.Version())
	}
	self, err := os.ReadFile(selfExecutable)
	if err != nil {
		t.Fatal(err)
	}
	if p.Digest() != sha256.Sum256(self) {
		t.Error("the digest is not that of this executable")
	}
	if status := p.Exit(); status.At != (time.Time{}) {
		t.Errorf("exit status of a running plugin: %+v", status)
	}
	if err := p.Stop(t.Context(), 10*time.Second, p.Shutdown); err != nil {
		t.Fatal(err)
	}
	if status := waitDone(t, p); status.Code != 0 || status.Signal != 0 || !status.Requested {
		t.Errorf("it %s, requested %t", status, status.Requested)
	}
	if !strings.Contains(log.String(), `"@message":"plugin process started"`) {
		t.Errorf("the start is not logged:\n%s", log)
	}
}

// Every way not to start: the error says which, with what the plugin wrote, and comes within its limits.
func TestStartFailures(t *testing.T) {
	cases := map[string]struct {
		cmd     Command
		timeout time.Duration
		step    Step
		is      error
		texts   []string // all are in the error's text
	}{
		"exits 0":       {cmd: play("exit", "0"), step: StepHandshake, is: ErrExited, texts: []string{"exited with status 0"}},
		"exits 3":       {cmd: play("exit", "3", "no licence", "bye"), step: StepHandshake, is: ErrExited, texts: []string{"exited with status 3", `no licence\nbye`}},
		"exits late":    {cmd: play("exit-before-handshake"), step: StepHandshake, is: ErrExited, texts: []string{"exited with status 5"}},
		"panics":        {cmd: play("panic"), step: StepHandshake, is: ErrExited, texts: []string{"exited with status 2", "panic: boom"}},
		"closes stdout": {cmd: play("close-stdout"), step: StepHandshake, is: ErrHandshake, texts: []string{"closed stdout without a handshake"}},
		"garbage": {
			cmd: play("garbage"), timeout: 3 * time.Second, step: StepHandshake, is: ErrTimeout,
			texts: []string{"no answer within 3s", `"\x00\xff|gggg`, "only the handshake belongs on stdout"},
		},
		"half a handshake": {
			cmd: play("print", "1|1|unix|"), timeout: 3 * time.Second, step: StepHandshake, is: ErrTimeout,
			texts: []string{"no whole handshake line", `"1|1|unix|"`},
		},
		"half, then exit": {cmd: play("print-exit", "1|1|unix|x"), step: StepHandshake, is: ErrHandshake, texts: []string{"does not end with a newline"}},
		"silence":         {cmd: play("block"), timeout: 2 * time.Second, step: StepHandshake, is: ErrTimeout, texts: []string{"wrote nothing on stdout"}},
		"freezes": {
			cmd: play("freeze-after-handshake"), timeout: 2 * time.Second, step: StepConnect, is: ErrTimeout,
			texts: []string{"does not answer on its socket"},
		},
		"ends at once": {
			cmd: play("end-after-handshake"), step: StepConnect, is: ErrExited, texts: []string{"exited with status 0 before it had answered"},
		},
		"no certificate":    {cmd: play("no-certificate"), step: StepHandshake, is: ErrHandshake, texts: []string{"offers no TLS certificate"}},
		"tcp":               {cmd: play("print", "1|1|tcp|127.0.0.1:1|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"listens on tcp"}},
		"net/rpc":           {cmd: play("print", "1|1|unix|DIR/s|netrpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"speaks netrpc"}},
		"few fields":        {cmd: play("print", "1|1|unix|DIR/s\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"has 4 fields"}},
		"core version":      {cmd: play("print", "2|1|unix|DIR/s|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"version 2 of go-plugin's handshake"}},
		"huge version":      {cmd: play("print", "1|99999999999999999999|unix|DIR/s|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"is no number"}},
		"socket elsewhere":  {cmd: play("print", "1|1|unix|/tmp/other|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"not in the directory"}},
		"socket with ..":    {cmd: play("print", "1|1|unix|DIR/../s|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"not in the directory"}},
		"socket too long":   {cmd: play("print", "1|1|unix|DIR/"+strings.Repeat("s", 107)+"|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"the limit is 107"}},
		"no socket":         {cmd: play("print", "1|1|unix|DIR/s|grpc|\n"), step: StepHandshake, is: ErrHandshake, texts: []string{"cannot be found"}},
		"relative path":     {cmd: Command{Name: "x", Path: "bin/x"}, step: StepOpen, texts: []string{"not absolute", "starting with /"}},
		"reserved variable": {cmd: Command{Name: "x", Path: "/x", Env: []string{"PLUGIN_CLIENT_CERT=x"}}, step: StepSpawn, texts: []string{"PLUGIN_CLIENT_CERT is the host's to set"}},
	}
	l, _ := newLauncher(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.timeout != 0 {
				c.cmd.HandshakeTimeout = c.timeout
			}
			begin := time.Now()
			_, err := l.Start(t.Context(), c.cmd, protocol(1))
			e, ok := errors.AsType[*StartError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if took := time.Since(begin); c.timeout != 0 && took > c.timeout+3*time.Second {
				t.Errorf("took %s", took)
			}
			if e.Step != c.step || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("step %s, want %s; cause %v, want %v", e.Step, c.step, e.Err, c.is)
			}
			for _, text := range append(c.texts, c.cmd.Name, c.cmd.Path) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in %s", text, err)
				}
			}
			if !slices.Equal(e.Argv, c.cmd.argv()) {
				t.Errorf("argv %q", e.Argv)
			}
			if (e.Exit != nil) != (c.is == ErrExited) {
				t.Errorf("exit status %v", e.Exit)
			}
			if len(e.Stdout) > 4*maxFirstBytes+2 {
				t.Errorf("%d bytes of stdout", len(e.Stdout))
			}
			if left, err := os.ReadDir(l.dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestStartNamesBothVersions(t *testing.T) {
	l, _ := newLauncher(t)
	for _, c := range []struct {
		plugin string
		host   []int
		text   string
	}{
		{"9", []int{1, 2, 3}, "speaks protocol version 9, the host 1 to 3 (upgrade the host, or install an older release of the plugin)"},
		{"1", []int{2, 4}, "speaks protocol version 1, the host 2, 4 (upgrade the plugin, or rebuild it with the current SDK)"},
	} {
		_, err := l.Start(t.Context(), play("version", c.plugin), protocol(c.host...))
		version, ok := errors.AsType[*VersionError](err)
		if !ok || !slices.Equal(version.Host, c.host) || !strings.Contains(strings.ReplaceAll(err.Error(), "; stdout", " stdout"), "protocol version "+c.plugin) {
			t.Fatalf("got %v", err)
		}
		e, _ := errors.AsType[*StartError](err)
		if got := e.Reason + " (" + e.Hint + ")"; !strings.HasSuffix(got, c.text) {
			t.Errorf("got %s\nwant …%s", got, c.text)
		}
	}
	p, err := l.Start(t.Context(), play("version", "2"), protocol(1, 2, 3))
	if err != nil || p.Version() != 2 {
		t.Fatalf("version %v: %v", p, err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	l, _ := newLauncher(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cause := make(chan error, 1)
	go func() {
		_, err := l.Start(ctx, play("block"), protocol(1))
		cause <- err
	}()
	select {
	case err := <-cause:
		if err == nil {
			t.Fatal("started")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("does not end")
	}
}

func TestStartToleratesNoise(t *testing.T) {
	l, log := newLauncher(t)
	for _, mode := range []string{"noise", "flood-before"} {
		p := start(t, l, play(mode))
		if err := p.Stop(t.Context(), time.Second, p.Shutdown); err != nil {
			t.Error(err)
		}
	}
	if text := log.String(); !strings.Contains(text, "before its handshake") || !strings.Contains(text, `hello\\x1b[31m world`) {
		t.Errorf("noise is not logged, or not escaped:\n%s", text)
	}
}

func TestConnectionNeedsTheCertificate(t *testing.T) {
	l, _ := newLauncher(t)
	p := start(t, l, play("serve"))
	sockets, err := filepath.Glob(filepath.Join(l.dir, "*", "*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	info, err := os.Stat(sockets[0])
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("socket mode %s, %v", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Dir(sockets[0])); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %s, %v", info.Mode(), err)
	}
	conn, err := grpc.NewClient("unix:"+sockets[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := ping(t.Context(), conn); err == nil {
		t.Error("a stranger without a certificate was answered")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	l, _ := newLauncher(t)
	t.Setenv("SETPOINT_TEST_SECRET", "hunter2")
	file := filepath.Join(t.TempDir(), "env")
	cmd := play("env", file)
	cmd.Env = []string{"LANG=C", "GREETING=hello"}
	start(t, l, cmd)
	var keys []string
	for kv := range strings.Lines(content(t, file)) {
		if key, _, found := strings.Cut(kv, "="); found && key == strings.ToUpper(key) { // a certificate has lines with "=" too
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	want := []string{
		"GREETING", "LANG", "PLUGIN_CLIENT_CERT", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS",
		"PLUGIN_UNIX_SOCKET_DIR", LifelineEnv, "SETPOINT_TEST_COOKIE",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("the plugin has %q\nwant %q", keys, want)
	}
	if got := AllowedEnv([]string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "PATHS=no", "TZ=UTC"}); !slices.Equal(got, []string{"PATH=/bin", "TZ=UTC"}) {
		t.Errorf("allowed: %q", got)
	}
}

func TestUnusableExecutables(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/nonexistent/plugin", link); err != nil {
		t.Fatal(err)
	}
	foreign := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\xb7\x00" + strings.Repeat("\x00", 100)
	cases := map[string]struct {
		path  string
		step  Step
		texts []string
	}{
		"missing":           {filepath.Join(dir, "none"), StepOpen, []string{"no such file", "install the plugin there"}},
		"dangling link":     {link, StepOpen, []string{"symbolic link to /nonexistent/plugin"}},
		"directory":         {dir, StepOpen, []string{"is a directory"}},
		"device":            {"/dev/null", StepOpen, []string{"not a regular file"}},
		"no executable bit": {write("plain", "x", 0o644), StepOpen, []string{"not executable (mode 0644)", "chmod +x"}},
		"world-writable":    {write("open", "x", 0o777), StepOpen, []string{"everybody", "chmod o-w"}},
		"other machine":     {write("foreign", foreign, 0o755), StepSpawn, []string{"built for another machine (EM_AARCH64)", "linux/"}},
		"no program":        {write("text", "just text", 0o755), StepSpawn, []string{"not a program", "#! line"}},
		"no interpreter":    {write("script", "#!/nonexistent/interpreter\n", 0o755), StepSpawn, []string{"interpreter"}},
	}
	l, _ := newLauncher(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := l.Start(t.Context(), Command{Name: "bad", Path: c.path}, protocol(1))
			e, ok := errors.AsType[*StartError](err)
			if !ok || e.Step != c.step {
				t.Fatalf("got %v", err)
			}
			for _, text := range c.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in %s", text, err)
				}
			}
		})
	}
	_, err := l.Start(t.Context(), Command{Name: "bad", Path: selfExecutable, Dir: "/nonexistent"}, protocol(1))
	if err == nil || !strings.Contains(err.Error(), "working directory /nonexistent") {
		t.Errorf("got %v", err)
	}
}
