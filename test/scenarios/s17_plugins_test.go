package scenarios

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// faultPlugin returns the plugin with faults.
func faultPlugin(t *testing.T) string {
	t.Helper()
	return programs.Other(t, "faultplugin", "./test/internal/faultplugin")
}

// faulty is the configuration of the constraint plugin with faults.
func faulty(t *testing.T, more string, args ...string) string {
	t.Helper()
	return pluginBlock("constraint", faultPlugin(t), args, "timeout = \"2s\"\n  "+more)
}

func pluginBlock(name, path string, args []string, more string) string {
	text, err := json.Marshal(append([]string{}, args...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("plugin %q {\n  path = %q\n  args = %s\n  %s\n}\n", name, path, text, more)
}

// pluginDetail is what `plugin inspect` prints.
type pluginDetail struct {
	PID            int      `json:"pid"`
	State          string   `json:"state"`
	Version        string   `json:"version"`
	Restarts       int      `json:"restarts"`
	Message        string   `json:"message"`
	DigestRunning  string   `json:"digest_running"`
	DigestOnDisk   string   `json:"digest_on_disk"`
	OnDiskProblem  string   `json:"on_disk_problem"`
	Classes        int      `json:"classes"`
	MirrorNodes    int      `json:"mirror_nodes"`
	MirrorRevision uint64   `json:"mirror_revision"`
	LastError      string   `json:"last_error"`
	Sandbox        []string `json:"sandbox"`
	Latency        struct {
		Samples int `json:"samples"`
	} `json:"latency"`
}

func inspectPlugin(t *testing.T, c *bench.Cluster, name string) pluginDetail {
	t.Helper()
	var out pluginDetail
	r := c.Must("plugin", "inspect", name, "-o", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return out
}

// pluginStalls returns the stalls of plugins, by name.
func pluginStalls(c *bench.Cluster) map[string][]bench.Stall {
	out := map[string][]bench.Stall{}
	for _, s := range c.Stalls("") {
		if s.Subject.Kind == "plugin" {
			out[s.Subject.ID] = append(out[s.Subject.ID], s)
		}
	}
	return out
}

// A plugin that never answers for one job delays no other, neither commands nor the end of the server.
func Test17AHangInOneCall(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: faulty(t, "", "-hang", "node.labels.hang")})
	round := 0
	measure := func() map[string]time.Duration { // what is done at all times, and how long it takes
		round++
		took := func(do func()) time.Duration {
			began := time.Now()
			do()
			return time.Since(began)
		}
		return map[string]time.Duration{
			"place a job": took(func() {
				c.RunJobsWait(20*time.Second, bench.Job{Name: fmt.Sprintf("j%d", round), Constraints: []string{fmt.Sprintf("node.labels.y != %d", round)}})
			}),
			"update web": took(func() { c.RunJobsWait(30*time.Second, webAt(round)) }),
			"drain n3":   took(func() { c.DrainWait("n3", 20*time.Second); c.Activate("n3") }),
		}
	}
	c.RunJobsWait(20*time.Second, webAt(round))
	var waiting []bench.Job
	for i := range 10 {
		waiting = append(waiting, bench.Job{Name: fmt.Sprintf("w%d", i), Constraints: []string{"node.labels.none == yes"}})
	}
	c.RunJobs(waiting...)
	measure() // once for what is slow only at first
	undisturbed := [2]map[string]time.Duration{measure(), measure()}
	c.RunJobs(bench.Job{Name: "x", Constraints: []string{"node.labels.hang == yes"}})
	hangs := func() {
		t.Helper()
		stall := c.Stall(10*time.Second, "x", "plugin_timeout")
		if text := stall.Message; !strings.Contains(text, "constraint") || !strings.Contains(text, "2s") {
			t.Errorf("the stall of x: %+v", stall)
		}
	}
	hangs()
	disturbed := [2]map[string]time.Duration{measure(), measure()}
	for what := range undisturbed[0] {
		before, after := max(undisturbed[0][what], undisturbed[1][what]), min(disturbed[0][what], disturbed[1][what])
		t.Logf("to %s takes %s, and %s beside a job that hangs", what, before, after)
		if after > 2*before {
			t.Errorf("to %s takes %s, undisturbed %s", what, after, before)
		}
	}
	task := c.Tasks("x")[0].ID
	for _, args := range [][]string{
		{"job", "ls"}, {"job", "inspect", "x"}, {"job", "why", "x"}, {"task", "ls"}, {"task", "why", task}, {"stalls"}, {"plugin", "inspect", "constraint"},
	} {
		took := c.CLI(args...).Took()
		if took = min(took, c.CLI(args...).Took()); took > time.Second {
			t.Errorf("%v took %s", args, took)
		}
	}
	took := c.StopServer(5 * time.Second)
	began := time.Now()
	c.StartServer()
	t.Logf("the server ended within %s, and was ready again within %s", took, time.Since(began))
	c.RunningCount(bench.Soon, "web", 6)
	hangs()
}

// webAt is the job web, in another version each time.
func webAt(round int) bench.Job {
	return bench.Job{
		Name: "web", Count: 6, MoreTask: fmt.Sprintf("    env = { ROUND = \"%d\" }", round),
		More: "  update {\n    parallelism = 3\n    monitor = \"500ms\"\n  }\n",
	}
}

// What a plugin writes instead of a handshake, and how it ends, is told with its path and what to do; nothing of it is left.
func Test17CGarbage(t *testing.T) {
	dir := t.TempDir()
	cases := map[string]struct {
		script string
		says   []string
	}{
		"text":   {"echo hello there; exec sleep 1000", []string{"no answer within 2s", `stdout began with "hello there\n"`, "log to stderr"}},
		"flood":  {"head -c 10485760 /dev/zero | tr '\\0' x; exec sleep 1000", []string{"no answer within 2s", `stdout began with "xxxx`}},
		"binary": {"printf '\\001\\002\\377'; exec sleep 1000", []string{"no answer within 2s", `stdout began with "\x01\x02\xff"`}},
		"half":   {"printf '1|1|unix|'; exec sleep 1000", []string{"no answer within 2s", `"1|1|unix|"`}},
		"silent": {"exec sleep 1000", []string{"no answer within 2s", "wrote nothing on stdout"}},
		"closes": {"exec >&-; exec sleep 1000", []string{"closed stdout without a handshake"}},
		"zero":   {"exit 0", []string{"exited with status 0", "run it by hand"}},
		"three":  {"echo no licence >&2; exit 3", []string{"exited with status 3", `stderr ended with "no licence"`}},
		"old":    {"echo '1|0|unix|/x|grpc|'; exec sleep 1000", []string{"speaks protocol version 0, the host 1", "upgrade the plugin"}},
		"new":    {"echo '1|99|unix|/x|grpc|'; exec sleep 1000", []string{"speaks protocol version 99, the host 1", "upgrade the host"}},
	}
	var config strings.Builder
	for name, x := range cases {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+x.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		config.WriteString(pluginBlock(name, path, nil, "handshake_timeout = \"2s\""))
	}
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: config.String()})
	var seen map[string][]bench.Stall
	c.Until(6*time.Second, "every plugin has its stall", func() (bool, any) {
		seen = pluginStalls(c)
		return len(seen) == len(cases), seen
	})
	for name, x := range cases {
		if len(seen[name]) != 1 {
			t.Errorf("%s has %d stalls: %+v", name, len(seen[name]), seen[name])
			continue
		}
		s := seen[name][0]
		for _, want := range append(x.says, filepath.Join(dir, name)) {
			if !strings.Contains(s.Message, want) {
				t.Errorf("%s: %q lacks %q", name, s.Message, want)
			}
		}
		if len(s.Message) > 1500 {
			t.Errorf("%s: a text of %d characters", name, len(s.Message))
		}
	}
	c.StopServer(10 * time.Second)
	if left := c.PluginProcesses(); len(left) > 0 {
		t.Errorf("processes are left: %+v", left)
	}
	c.StartServer()
}

// What a plugin writes to standard output after its handshake does no harm, and fills neither the log nor the memory.
func Test17CNoiseAfterTheHandshake(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(2), Config: faulty(t, "", "-babble")})
	size := func() int64 { return must(os.Stat(filepath.Join(c.Dir, "server.log"))).Size() }
	c.Until(10*time.Second, "the noise has begun", func() (bool, any) {
		d := c.Must("plugin", "logs", "constraint").Stdout
		return strings.Contains(d, "nonsense"), d
	})
	before, resident, began := size(), residentOf(t, c.ServerPID()), time.Now()
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 4, Constraints: []string{"node.name != n2"}})
	c.Pass(2 * time.Second)
	perSecond := float64(size()-before) / time.Since(began).Seconds()
	t.Logf("the log grows by %.0f KiB a second", perSecond/1024)
	if perSecond > 1<<20 { // 200 lines of some 300 bytes, and what the job causes
		t.Errorf("the log grows by %.0f KiB a second", perSecond/1024)
	}
	if now := residentOf(t, c.ServerPID()); now > resident+16<<20 {
		t.Errorf("the server had %d MiB and has %d", resident>>20, now>>20)
	}
	if d := inspectPlugin(t, c, "constraint"); d.State != "running" || d.Restarts != 0 {
		t.Errorf("the plugin is %+v", d)
	}
}

// While a plugin answers with errors nothing is evicted and nothing created; then all goes on.
func Test17FErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "away")
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: faulty(t, "sandbox = \"off\"", "-fail-while", file)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 6, Constraints: []string{"node.labels.bad != yes"}})
	lives := len(c.Lives("web"))
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Label("n1", "bad=yes")
	c.RunJobs(bench.Job{Name: "new", Constraints: []string{"node.labels.zone != a"}})
	c.Stall(5*time.Second, "new", "plugin_error")
	c.During(scaled(5*time.Second, time.Minute), "web runs as it did, and new waits", func() (bool, any) {
		return len(c.Running("web")) == 6 && len(c.Lives("web")) == lives && len(c.Running("new")) == 0, c.Tasks("")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.RunningCount(40*time.Second, "new", 1)
	c.NoStall(bench.Soon, "new")
}

// A panic is one incident with its text; what waits for the plugin refers to that.
func Test17GOneIncident(t *testing.T) {
	file := filepath.Join(t.TempDir(), "panic")
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: faulty(t, "sandbox = \"off\"", "-panic", file), Unchecked: []string{"V7"}})
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var jobs []bench.Job
	for i := range 20 {
		jobs = append(jobs, bench.Job{Name: fmt.Sprintf("j%d", i), Count: 10, Constraints: []string{fmt.Sprintf("node.labels.x != %d", i)}})
	}
	c.Until(10*time.Second, "the panic is told", func() (bool, any) {
		stalls := pluginStalls(c)["constraint"]
		return len(stalls) == 1 && strings.Contains(stalls[0].Message, "the moon fell down"), stalls
	})
	c.RunJobs(jobs...)
	c.Until(20*time.Second, "200 tasks wait for the plugin", func() (bool, any) {
		groups, incidents := 0, 0
		for _, s := range c.Stalls("") {
			switch {
			case s.Subject.Kind == "plugin":
				incidents++
			case s.Code == "plugin_unavailable":
				groups++
				if strings.Contains(s.Message, "moon") || len(s.Message) > 300 {
					t.Fatalf("a job repeats the incident: %+v", s)
				}
			}
		}
		return incidents == 1 && groups >= 20, fmt.Sprintf("%d incidents, %d references", incidents, groups)
	})
	log, err := os.ReadFile(filepath.Join(c.Dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "moon") {
			lines++
		}
	}
	if failures := inspectPlugin(t, c, "constraint").Restarts; lines > 20 || lines > 5*failures {
		t.Errorf("%d lines of the log tell of %d failures", lines, failures)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.RunningCount(60*time.Second, "", 40) // as many as there is room for
}

// A plugin that takes too much memory is ended, and it is said why.
func Test17MemoryLimit(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: faulty(t, "max_memory = \"64MiB\"", "-grow"), Unchecked: []string{"V7"}})
	c.Until(30*time.Second, "the limit is told", func() (bool, any) {
		d := inspectPlugin(t, c, "constraint")
		return strings.Contains(d.LastError, "used more memory than its limit of 64MiB") && strings.Contains(d.LastError, "raise its max_memory"), d.LastError
	})
	c.Until(bench.Soon, "it is sampled", func() (bool, any) { return c.Sampler.Samples() > 0, nil })
}

// A slow plugin is waited for, and what changes meanwhile is not lost.
func Test17BSlow(t *testing.T) {
	config := pluginBlock("constraint", programs.Binaries(t).Plugin, []string{"constraint", "-match-delay", "500ms"}, "timeout = \"5s\"")
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: config})
	var jobs []bench.Job
	for i := range 20 {
		jobs = append(jobs, bench.Job{Name: fmt.Sprintf("j%d", i), Count: 10, CPU: 0.05, Constraints: []string{"node.labels.late == yes", fmt.Sprintf("node.labels.x != %d", i%4)}})
	}
	c.RunJobs(jobs...)
	c.Stall(60*time.Second, "j19", "constraint")
	before := residentOf(t, c.ServerPID())
	for i := range 5 { // changes come faster than they are judged
		c.Label("n1", fmt.Sprintf("n=%d", i))
	}
	c.Label("n1", "late=yes")
	c.RunningCount(90*time.Second, "", 80)
	c.Label("n2", "late=yes")
	c.RunningCount(90*time.Second, "", 160)
	if now := residentOf(t, c.ServerPID()); now > before+64<<20 {
		t.Errorf("the server had %d MiB and has %d", before>>20, now>>20)
	}
}

// residentOf returns the memory that a process has at hand, in bytes.
func residentOf(t *testing.T, pid int) int {
	t.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * os.Getpagesize()
}
