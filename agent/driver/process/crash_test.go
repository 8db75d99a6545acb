package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// dieAt is a point function that notes the points in a file and kills this very process at one of them.
func dieAt(name, file string) func(string) {
	return func(here string) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, _ = fmt.Fprintln(f, here)
			_ = f.Close()
		}
		if here == name {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
}

// wholeLife starts the task given as JSON, kills it, waits for it and removes it.
func wholeLife(dir, spec string, point func(string)) int {
	var s driver.Spec
	exe, err := os.Executable()
	if err == nil {
		err = json.Unmarshal([]byte(spec), &s)
	}
	var d *Driver
	if err == nil {
		d, err = New(Options{Dir: dir, Shim: []string{exe, "shim"}})
	}
	var h driver.Handle
	ctx := context.Background()
	if err == nil {
		d.point = point
		h, err = d.Start(ctx, s)
	}
	if err == nil {
		err = d.Stop(ctx, h, driver.StopRequest{})
	}
	if err == nil {
		_, err = d.Wait(ctx, h)
	}
	if err == nil {
		err = d.Remove(ctx, h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// points are where an agent, a shim or what is about to become the task is killed, in their order.
var points = map[string][]string{
	"agent": {
		"agent: directory made", "agent: directory locked", "agent: control group made", "agent: intent written", "agent: shim started",
		"agent: control group removed", "agent: directory moved aside",
	},
	"shim": {
		"shim: born", "shim: recorded itself", "shim: listens", "task: born", "task: in its control group", "shim: task started", "shim: task recorded",
		"shim: start reported", "shim: task ended", "shim: exit written", "shim: control group removed",
	},
}

// A trial is a task that tells how often it was started, and whatever it becomes of.
type trial struct {
	*testing.T
	d       *Driver
	spec    driver.Spec
	started string // file with a line for each start
	seen    string // file with the points that were reached
}

func newTrial(t *testing.T, script string) *trial {
	started := filepath.Join(t.TempDir(), "started")
	return &trial{T: t, d: fresh(t), spec: sh("a/1/1", "echo $$ >> "+started+"; "+script), started: started, seen: filepath.Join(t.TempDir(), "seen")}
}

func (c *trial) lines(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// after does what the next agent does: it finds the task, starts it if nothing ever ran, ends it and removes it. Nothing of it may be left.
func (c *trial) after() {
	c.Helper()
	d := open(c.T, c.d.opts.Dir)
	h := driver.Handle{Driver: Name, TaskID: c.spec.TaskID}
	status, err := d.Recover(c.Context(), h)
	if err != nil {
		c.Fatal(err)
	}
	before := len(c.lines(c.started))
	if (status.State == driver.StateAbsent || status.State == driver.StateNotStarted) && before > 0 {
		c.Errorf("it was started, and is %s", status.State)
	}
	if _, err := d.Start(c.Context(), c.spec); err != nil {
		c.Fatal(err)
	}
	again, err := d.Recover(c.Context(), h)
	if err != nil {
		c.Fatal(err)
	}
	if again.State == driver.StateRunning {
		if before > 0 && status.State != driver.StateRunning {
			c.Errorf("it was %s, and is started again", status.State)
		}
		until(c.T, "its start", func() bool { return len(c.lines(c.started)) > 0 })
	}
	if err := d.Stop(c.Context(), h, driver.StopRequest{}); err != nil {
		c.Fatal(err)
	}
	if _, err := d.Wait(c.Context(), h); err != nil {
		c.Fatal(err)
	}
	if n := len(c.lines(c.started)); n > 1 {
		c.Errorf("it was started %d times", n)
	}
	for _, started := range c.lines(c.started) {
		if running(pid(c.T, started)) {
			c.Errorf("process %s is left", started)
		}
	}
	if err := d.Remove(c.Context(), h); err != nil {
		c.Fatal(err)
	}
	c.clean(d)
}

// clean looks whether anything is left of a task that was removed.
func (c *trial) clean(d *Driver) {
	c.Helper()
	left, err := scanMarked(d.boot, func(of taskDir) bool { return strings.HasPrefix(string(of), d.opts.Dir+"/") })
	if err != nil || len(left) > 0 {
		c.Errorf("processes %v are left, %v", left, err)
	}
	if names := d.groups.tree.Names(d.groups.prefix); len(names) > 0 {
		c.Errorf("control groups %q are left", names)
	}
	for _, sub := range []string{tasksDir, binDir} {
		entries, err := os.ReadDir(filepath.Join(d.opts.Dir, sub))
		if err != nil || len(entries) > 0 {
			c.Errorf("%s holds %v, %v", sub, entries, err)
		}
	}
}

// Wherever the shim dies, nothing is left and nothing is started twice.
func TestShimDiesAnywhere(t *testing.T) {
	for _, point := range points["shim"] {
		t.Run(point, func(t *testing.T) {
			script := "exec sleep 1000"
			if slices.Contains([]string{"shim: task ended", "shim: exit written", "shim: control group removed"}, point) {
				script = "exit 3"
			}
			c := newTrial(t, script)
			doomed := open(t, c.d.opts.Dir)
			doomed.opts.Shim = []string{doomed.opts.Shim[0], "shim-until", point, c.seen}
			h, err := doomed.Start(t.Context(), c.spec)
			if err == nil {
				until(t, "the death of the shim", func() bool {
					doomed.reapAll()
					locked, err := doomed.dir(h.TaskID).locked()
					return err == nil && !locked
				})
			}
			if seen := c.lines(c.seen); len(seen) == 0 || !slices.Contains(seen, point) {
				t.Fatalf("it was not reached: %q, %v", seen, err)
			}
			c.after()
		})
	}
}

// Wherever the agent dies, the next one goes on as if it had not.
func TestAgentDiesAnywhere(t *testing.T) {
	for _, point := range points["agent"] {
		t.Run(point, func(t *testing.T) {
			c := newTrial(t, "exec sleep 1000")
			if out := c.agent(point); !strings.Contains(out, "signal: killed") {
				t.Fatal(out)
			}
			if point == "agent: directory moved aside" { // it is removed, so its id is free
				c.clean(open(t, c.d.opts.Dir))
				return
			}
			c.after()
		})
	}
}

// agent runs an agent through a task's whole life, or until it is killed at a point, and returns how it ended.
func (c *trial) agent(point string) string {
	c.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	spec, err := json.Marshal(c.spec)
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.CommandContext(c.Context(), exe, "agent-until", point, c.seen, c.d.opts.Dir, string(spec))
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Run(); err != nil {
		return err.Error() + " " + words.String()
	}
	return ""
}

// What the tests above kill at are all the points that there are.
func TestPointsAreAll(t *testing.T) {
	c := newTrial(t, "exec sleep 1000")
	if out := c.agent("nowhere"); out != "" {
		t.Fatal(out)
	}
	if seen := c.lines(c.seen); !slices.Equal(seen, points["agent"]) {
		t.Errorf("an agent passes %q", seen)
	}
	c.clean(open(t, c.d.opts.Dir))

	c = newTrial(t, "exit 3")
	c.d.opts.Shim = []string{c.d.opts.Shim[0], "shim-until", "nowhere", c.seen}
	h := start(t, c.d, c.spec)
	if exit := wait(t, c.d, h); exit.Code != 3 {
		t.Errorf("exit is %+v", exit)
	}
	if seen := c.lines(c.seen); !slices.Equal(seen, points["shim"]) {
		t.Errorf("a shim passes %q", seen)
	}
}
