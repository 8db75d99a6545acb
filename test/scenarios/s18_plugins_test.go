package scenarios

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// withChildren runs the three plugins from the test's binary, each with a child of its own.
func withChildren(b bench.Binaries) string {
	var config strings.Builder
	for _, name := range []string{"constraint", "drain", "global"} {
		fmt.Fprintf(&config, "plugin %q {\n  path = %q\n  args = [%q, \"-child\", \"-start-delay\", \"100ms\"]\n}\n", name, b.Plugin, name)
	}
	return config.String()
}

// The server is killed at any moment, also while it starts its plugins: nothing of them is left, and the next one has three again.
func Test18AKilledServerLeavesNoPlugin(t *testing.T) {
	b := programs.Binaries(t)
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: withChildren(b)})
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 2})
	lives := c.Lives("")
	var slowest time.Duration
	for round := range scaled(3, 50) {
		three(t, c)
		if left := socketDirs(t, c); left != 3 {
			t.Errorf("%d directories of sockets for three plugins", left)
		}
		if round%2 == 1 { // while they start
			c.KillServer()
			gone(t, c)
			c.LaunchServer()
			c.Pass(time.Duration(rand.Int64N(int64(500 * time.Millisecond))))
		}
		c.KillServer()
		slowest = max(slowest, gone(t, c))
		c.StartServer()
	}
	t.Logf("plugins and their children were gone within %s", slowest.Round(time.Millisecond))
	c.RunningCount(10*time.Second, "web", 2)
	if now := c.Lives(""); len(now) != len(lives) {
		t.Errorf("tasks were started meanwhile: %+v", now)
	}
}

// three waits until three plugins run, each with its child, and no other process of one is there.
func three(t *testing.T, c *bench.Cluster) {
	t.Helper()
	c.Until(15*time.Second, "three plugins run, each with a child", func() (bool, any) {
		pids := map[int]bool{}
		for _, p := range c.Plugins() {
			if p.State != "running" {
				return false, p
			}
			pids[p.PID] = true
		}
		plugins, children := pluginProcesses(c)
		for _, pid := range plugins {
			if !pids[pid] {
				return false, fmt.Sprintf("process %d is no plugin's", pid)
			}
		}
		return len(plugins) == 3 && len(children) == 3, []any{plugins, children}
	})
	if zombies := zombiesOf(t, c.ServerPID()); len(zombies) > 0 {
		t.Errorf("the server has not reaped %v", zombies)
	}
}

// gone waits until no plugin and no child of one is there.
func gone(t *testing.T, c *bench.Cluster) time.Duration {
	t.Helper()
	return c.Until(3*time.Second, "no process of a plugin is left", func() (bool, any) {
		plugins, children := pluginProcesses(c)
		return len(plugins)+len(children) == 0, []any{plugins, children}
	})
}

// pluginProcesses returns the processes of plugins from the test's binary, and those of the children that they started, wherever these are now.
func pluginProcesses(c *bench.Cluster) (plugins, children []int) {
	for _, p := range c.PluginProcesses() {
		if p.Plugin {
			plugins = append(plugins, p.PID)
		} else {
			children = append(children, p.PID)
		}
	}
	return plugins, children
}

func socketDirs(t *testing.T, c *bench.Cluster) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.Dir, "server", "plugins", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// The constraint plugin is killed while tasks are being placed: it is back within two seconds, and all of them run once.
func Test18BKilledPlugin(t *testing.T) {
	c := start(t, bench.Options{Nodes: []bench.Node{bench.N("n1", "zone=a"), bench.N("n2", "zone=a"), bench.N("n3")}})
	others, descriptors := pids(c, "drain", "global"), bench.Descriptors(c.ServerPID())
	var jobs []bench.Job
	for i := range 20 {
		jobs = append(jobs, bench.Job{Name: fmt.Sprintf("j%d", i), Constraints: []string{"node.labels.zone == a", fmt.Sprintf("node.labels.x != %d", i)}})
	}
	placed := make(chan struct{})
	go func() { // waited for below
		defer close(placed)
		c.RunJobs(jobs...)
	}()
	c.Pass(time.Duration(rand.Int64N(int64(300 * time.Millisecond))))
	kill(t, pids(c, "constraint")["constraint"])
	killed := time.Now()
	back(c, 2*time.Second)
	<-placed
	if took := time.Since(killed); took > 2*time.Second {
		t.Logf("the jobs were all accepted %s after the kill", took)
	}
	c.RunningCount(10*time.Second, "", 20)
	if starts := c.Lives(""); len(starts) != 20 {
		t.Errorf("%d starts for 20 tasks", len(starts))
	}
	c.Until(time.Second, "nothing waits", func() (bool, any) {
		stalls := c.Stalls("")
		return len(stalls) == 0, stalls
	})

	// Ten times in 20 s: a crash loop, which is said with its count and with when the next try is.
	began := time.Now()
	for kills := 0; kills < 10 && time.Since(began) < 40*time.Second; {
		p := pluginNamed(c, "constraint")
		if p.PID != 0 && alive(p.PID) {
			kill(t, p.PID)
			kills++
		}
		if p.State == "crash_loop" {
			break
		}
	}
	var loop bench.Plugin
	c.Until(bench.Soon, "the plugin is in a crash loop", func() (bool, any) {
		loop = pluginNamed(c, "constraint")
		return loop.State == "crash_loop", loop
	})
	said := false
	for _, s := range c.Stalls("") {
		if s.Subject.Kind == "plugin" && s.Subject.ID == "constraint" {
			said = true
			t.Logf("it says: %s: %s (%s)", s.Code, s.Message, s.Clears)
			if s.Code != "plugin_unavailable" || !strings.ContainsAny(s.Message+s.Clears, "0123456789") {
				t.Errorf("the stall of a crash loop: %+v", s)
			}
		}
	}
	if !said {
		t.Errorf("no stall of the plugin; there are %+v", c.Stalls(""))
	}
	if now := pids(c, "drain", "global"); now["drain"] != others["drain"] || now["global"] != others["global"] {
		t.Errorf("the other plugins were %v and are %v", others, now)
	}
	// What was judged stays, what needs no judgement goes on.
	if starts, running := len(c.Lives("")), len(c.Running("")); starts != 20 || running != 20 {
		t.Errorf("%d starts, %d running", starts, running)
	}
	if zombies := zombiesOf(t, c.ServerPID()); len(zombies) > 0 {
		t.Errorf("the server has not reaped %v", zombies)
	}
	back(c, 40*time.Second)
	if now := bench.Descriptors(c.ServerPID()); now > descriptors+descriptors/10+1 {
		t.Errorf("the server had %d files open at first and has %d", descriptors, now)
	}
	c.RunJobsWait(20*time.Second, bench.Job{Name: "late", Constraints: []string{"node.labels.zone == a"}})
}

func pluginNamed(c *bench.Cluster, name string) bench.Plugin {
	for _, p := range c.Plugins() {
		if p.Name == name {
			return p
		}
	}
	return bench.Plugin{}
}

func pids(c *bench.Cluster, names ...string) map[string]int {
	out := map[string]int{}
	for _, name := range names {
		out[name] = pluginNamed(c, name).PID
	}
	return out
}

// back waits until the constraint plugin serves again.
func back(c *bench.Cluster, limit time.Duration) {
	c.Until(limit, "the constraint plugin serves", func() (bool, any) {
		p := pluginNamed(c, "constraint")
		return p.State == "running" && alive(p.PID), p
	})
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 0 {
		t.Fatal("no process to kill")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

func alive(pid int) bool {
	_, alive := bench.ReadStat(pid)
	return alive
}

// zombiesOf returns the children of a process that have ended and were not reaped.
func zombiesOf(t *testing.T, parent int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		if stat, _ := bench.ReadStat(pid); stat.Parent == parent && stat.State == 'Z' {
			out = append(out, pid)
		}
	}
	return out
}
