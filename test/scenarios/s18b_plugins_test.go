package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// install puts the plugin with faults at a path. What is appended makes another file of it that does the same.
func install(t *testing.T, path, appended string) {
	t.Helper()
	program, err := os.ReadFile(faultPlugin(t))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, path, append(program, appended...), 0o755)
}

// replace puts a finished file into place.
func replace(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A start that fails leaves nothing, however often it is tried.
func Test18DFailingStart(t *testing.T) {
	script := filepath.Join(t.TempDir(), "never")
	replace(t, script, []byte("#!/bin/sh\nsleep 1000 &\nexec sleep 1000\n"), 0o755)
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: pluginBlock("never", script, nil, "handshake_timeout = \"100ms\"")})
	c.Until(time.Minute, "it was tried again and again", func() (bool, any) {
		d := inspectPlugin(t, c, "never")
		return d.State == "crash_loop", d
	})
	for range 15 { // without the delay of a crash loop
		if r := c.CLI("plugin", "reload", "never"); r.Code != bench.Error || !strings.Contains(r.Stderr, "no answer within 100ms") {
			t.Errorf("%s", r)
		}
	}
	c.Until(bench.Soon, "nothing of the failed starts is left", func() (bool, any) {
		left := slices.DeleteFunc(c.PluginProcesses(), func(p bench.PluginProcess) bool { return p.Plugin })
		return len(left) == 0 && socketDirs(t, c) == 3, []any{left, socketDirs(t, c)}
	})
}

// Another executable is seen, takes over when it is told to if it works, and changes nothing if it does not. No task notices.
func Test18EUpgrade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filter")
	install(t, path, "")
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: pluginBlock("constraint", path, []string{"-version", "1.0.1"}, "")})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 4, Constraints: []string{"node.name != n3"}})
	c.RunJobs(bench.Job{Name: "tape", Constraints: []string{"node.labels.disk == tape"}})
	c.Stall(bench.Soon, "tape", "constraint")
	lives := len(c.Lives(""))
	before := inspectPlugin(t, c, "constraint")
	if before.DigestRunning == "" || before.DigestRunning != before.DigestOnDisk || before.Classes != 2 || before.MirrorNodes != 3 || before.Latency.Samples == 0 {
		t.Errorf("it is %+v", before)
	}

	install(t, path, "another build")
	if d := inspectPlugin(t, c, "constraint"); d.DigestRunning != before.DigestRunning || d.DigestOnDisk == before.DigestRunning || d.PID != before.PID {
		t.Errorf("with another file on disk it is %+v", d)
	}
	r := c.Must("plugin", "reload", "constraint")
	t.Logf("reloaded within %s: %s", r.Took().Round(time.Millisecond), r.Stdout)
	c.RunJobsWait(10*time.Second, bench.Job{Name: "next", Constraints: []string{"node.name == n3"}})
	after := inspectPlugin(t, c, "constraint")
	if after.DigestRunning != after.DigestOnDisk || after.PID == before.PID || after.Restarts != 0 {
		t.Errorf("after the reload it is %+v", after)
	}
	if now := len(c.Lives("")); now != lives+1 {
		t.Errorf("%d starts, there were %d and one is new", now, lives)
	}

	elf := slices.Clone(must(os.ReadFile(faultPlugin(t)))[:4096])
	elf[18], elf[19] = 0xf3, 0 // RISC-V
	for name, x := range map[string]struct {
		put  func()
		says string
	}{
		"exits":     {func() { replace(t, path, []byte("#!/bin/sh\necho no licence >&2\nexit 3\n"), 0o755) }, "no licence"},
		"mode":      {func() { replace(t, path, []byte("#!/bin/sh\n"), 0o644) }, "it is not executable (mode 0644) (chmod +x it)"},
		"machine":   {func() { replace(t, path, elf, 0o755) }, "it was built for another machine (EM_RISCV)"},
		"directory": {func() { _ = os.Remove(path); check(t, os.Mkdir(path, 0o755)) }, "it is a directory"},
		"link":      {func() { _ = os.Remove(path); check(t, os.Symlink("/nonexistent/filter", path)) }, "it is a symbolic link to /nonexistent/filter, which does not exist"},
		"gone":      {func() { _ = os.Remove(path) }, "no such file"},
	} {
		x.put()
		r := c.CLI("plugin", "reload", "constraint")
		if r.Code != bench.Error || !strings.Contains(r.Stderr, x.says) || !strings.Contains(r.Stderr, "nothing has changed") {
			t.Errorf("%s: %s, want %q", name, r, x.says)
		}
		if d := inspectPlugin(t, c, "constraint"); d.PID != after.PID || d.State != "running" {
			t.Errorf("%s: it is %+v", name, d)
		}
		_ = os.RemoveAll(path)
	}
	c.RunJobsWait(10*time.Second, bench.Job{Name: "last", Constraints: []string{"node.name == n3"}})
	if now := len(c.Lives("")); now != lives+2 {
		t.Errorf("%d starts, there were %d and two are new", now, lives)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A candidate is asked everything on the live state, and nothing comes of it.
func Test18EShadow(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: faulty(t, "")})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 3, Constraints: []string{"node.labels.x != 1"}})
	before, lives := inspectPlugin(t, c, "constraint"), len(c.Lives(""))
	var got struct {
		Candidate   string `json:"candidate"`
		Total       int    `json:"total"`
		Unjudged    int    `json:"unjudged"`
		Differences []struct {
			Kind      string   `json:"kind"`
			Jobs      []string `json:"jobs"`
			Node      string   `json:"node"`
			Serving   string   `json:"serving"`
			Candidate string   `json:"candidate"`
		} `json:"differences"`
	}
	r := c.Must("plugin", "shadow", "constraint", faultPlugin(t), "-o", "json", "--", "-version", "2.0.0", "-refuse", "n1")
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	if got.Candidate != "2.0.0" || got.Total != 1 || got.Unjudged != 0 || len(got.Differences) != 1 {
		t.Fatalf("compared %+v", got)
	}
	if d := got.Differences[0]; d.Kind != "verdict" || d.Node != "n1" || d.Serving != "allowed" || !strings.Contains(d.Candidate, "it is not loved") || !slices.Equal(d.Jobs, []string{"web"}) {
		t.Errorf("it differs in %+v", d)
	}
	if d := inspectPlugin(t, c, "constraint"); d.PID != before.PID || len(c.Lives("")) != lives {
		t.Errorf("something came of it: %+v, %d starts", d, len(c.Lives("")))
	}
}

// SIGHUP takes up what changed of plugins; what cannot serve changes nothing, and what needs a restart is named.
func TestHangUpTakesUpPlugins(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2), Config: faulty(t, "", "-version", "1.0.1")})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 2, Constraints: []string{"node.name != n9"}})
	lives := len(c.Lives(""))
	version := func(want string) {
		t.Helper()
		c.Until(10*time.Second, "version "+want+" serves", func() (bool, any) {
			d := inspectPlugin(t, c, "constraint")
			return d.Version == want && d.State == "running", d
		})
	}
	version("1.0.1")
	c.Configure(faulty(t, "", "-version", "1.0.2") + pluginBlock("extra", faultPlugin(t), []string{"-version", "7"}, "") + "placement {\n  strategy = \"binpack\"\n}\n")
	c.HangUp()
	version("1.0.2")
	c.Until(10*time.Second, "the new plugin serves", func() (bool, any) {
		p := pluginNamed(c, "extra")
		return p.State == "running", p
	})
	logged(t, c, "settings that changed need a restart of the server", "placement")
	c.RunJobsWait(10*time.Second, bench.Job{Name: "more", Constraints: []string{"node.name == n2"}})

	broken := filepath.Join(t.TempDir(), "broken")
	replace(t, broken, []byte("#!/bin/sh\necho no licence >&2\nexit 3\n"), 0o755)
	pid := inspectPlugin(t, c, "constraint").PID
	c.Configure(pluginBlock("constraint", broken, nil, ""))
	c.HangUp()
	logged(t, c, "plugin not changed", "no licence")
	c.Until(10*time.Second, "the plugin that is not configured any more is gone", func() (bool, any) {
		return pluginNamed(c, "extra").Name == "", c.Plugins()
	})
	if d := inspectPlugin(t, c, "constraint"); d.PID != pid || d.State != "running" {
		t.Errorf("it is %+v", d)
	}
	c.Configure("this is = not {")
	c.HangUp()
	logged(t, c, "configuration not taken up", "")
	c.RunJobsWait(10*time.Second, bench.Job{Name: "last", Constraints: []string{"node.name == n2"}})
	if now := len(c.Lives("")); now != lives+2 {
		t.Errorf("%d starts, there were %d and two are new", now, lives)
	}
}

// logged waits until the server's log has a line with all of it.
func logged(t *testing.T, c *bench.Cluster, words ...string) {
	t.Helper()
	c.Until(15*time.Second, fmt.Sprintf("the log says %q", words), func() (bool, any) {
		log, err := os.ReadFile(filepath.Join(c.Dir, "server.log"))
		check(t, err)
		for line := range strings.Lines(string(log)) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return true, nil
			}
		}
		return false, nil
	})
}

// Names that are none are refused with their line; a directory that is a link is as good as any.
func Test18FNames(t *testing.T) {
	dir := t.TempDir()
	bin := programs.Binaries(t)
	validate := func(text string) (string, int) {
		t.Helper()
		file := filepath.Join(dir, "c.hcl")
		check(t, os.WriteFile(file, []byte(text), 0o600))
		cmd := exec.Command(bin.Setpoint, "config", "validate", file)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, name := range []string{"../x", "/bin/sh", "a/b", "", strings.Repeat("x", 5000), "a\\u0000b"} {
		out, code := validate(fmt.Sprintf("plugin \"%s\" {\n  path = \"/bin/true\"\n}\n", name))
		if code != bench.Refused || !strings.Contains(out, "Invalid name") || !strings.Contains(out, "c.hcl line 1") {
			t.Errorf("%.20q: code %d: %.600s", name, code, out)
		}
	}
	real := filepath.Join(dir, "real")
	check(t, os.Mkdir(real, 0o755))
	install(t, filepath.Join(real, "filter"), "")
	check(t, os.Symlink(real, filepath.Join(dir, "linked")))
	if out, code := validate(pluginBlock("constraint", filepath.Join(dir, "linked", "filter"), nil, "")); code != bench.Done {
		t.Errorf("a linked directory: code %d: %s", code, out)
	}
}

// Sockets are their owner's alone, also if the server was started with a umask that allows everything.
func Test18FSockets(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), Unmasked: true})
	dirs := must(filepath.Glob(filepath.Join(c.Dir, "server", "plugins", "plugin-dir*")))
	if len(dirs) != 3 {
		t.Errorf("directories %v", dirs)
	}
	for _, dir := range dirs {
		if mode := must(os.Stat(dir)).Mode().Perm(); mode != 0o700 {
			t.Errorf("%s has mode %04o", dir, mode)
		}
		entries := must(os.ReadDir(dir))
		if len(entries) == 0 {
			t.Errorf("%s is empty", dir)
		}
		for _, e := range entries {
			info := must(e.Info())
			if info.Mode().Type() == os.ModeSocket && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %s", e.Name(), info.Mode())
			}
		}
		if os.Geteuid() == 0 {
			ls := exec.Command("ls", dir)
			ls.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := ls.CombinedOutput(); err == nil {
				t.Errorf("another user sees %s", out)
			}
		}
	}
	c.Until(bench.Soon, "it is sampled", func() (bool, any) { return c.Sampler.Samples() > 0, nil })
}

// A plugin gets nothing of the server's: no credential, no variable, no descriptor.
func Test18GSecrets(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: faulty(t, "env = { MINE = \"yes\" }", "-dump")})
	var text string
	c.Until(bench.Soon, "the plugin has written what it got", func() (bool, any) {
		text = c.Must("plugin", "logs", "constraint").Stdout
		return strings.Contains(text, "descriptor 4"), text
	})
	allowed := []string{
		"LANG", "LC_ALL", "LC_CTYPE", "MINE", "PATH", "PLUGIN_CLIENT_CERT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "SETPOINT_PLUGIN",
		"SETPOINT_PLUGIN_LIFELINE_FD", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
	}
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, " variable "); ok {
			if name, _, _ := strings.Cut(rest, " "); !slices.Contains(allowed, name) {
				t.Errorf("it gets the variable %s", rest)
			}
		}
		if _, rest, ok := strings.Cut(line, " descriptor "); ok {
			number, target, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if len(number) > 1 || number > "4" {
				if !strings.Contains(target, "anon_inode") && !strings.HasPrefix(target, "/sys/") && !strings.HasPrefix(target, "/proc/") {
					t.Errorf("it gets descriptor %s, %s", number, target)
				}
			}
		}
	}
	for _, secret := range []string{"admin.pem", "tokens.json", "PRIVATE KEY"} {
		if strings.Contains(text, secret) {
			t.Errorf("it gets %s:\n%s", secret, text)
		}
	}
	if d := inspectPlugin(t, c, "constraint"); len(d.Sandbox) < 4 {
		t.Errorf("in force is %q", d.Sandbox)
	}
	c.Until(bench.Soon, "it is sampled", func() (bool, any) { return c.Sampler.Samples() > 0, nil })
}

// A plugin that does not end is killed at the limit, and the server ends in time.
func Test18HStopDuringASlowCall(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: faulty(t, "", "-slow-stop")})
	c.RunJobs(bench.Job{Name: "x", Constraints: []string{"node.labels.a == b"}})
	c.Stall(10*time.Second, "x", "plugin_timeout")
	pid := inspectPlugin(t, c, "constraint").PID
	took := c.StopServer(10 * time.Second)
	t.Logf("the server ended within %s", took.Round(time.Millisecond))
	if alive(pid) {
		t.Error("the plugin goes on")
	}
	log := must(os.ReadFile(filepath.Join(c.Dir, "server.log")))
	if !bytes.Contains(log, []byte("server ends")) {
		t.Error("the server did not end in peace")
	}
	c.StartServer()
}
