package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The exit codes of commands.
const (
	Done    = 0
	Error   = 1
	Refused = 2
	Stalled = 3
	Failed  = 4
)

// commandLimit is within which every command ends that does not wait for anything.
const commandLimit = 20 * time.Second

// Result is what came of one command.
type Result struct {
	Args   []string
	Code   int
	Stdout string
	Stderr string
	Began  time.Time
	Ended  time.Time
}

// Took is how long the command ran.
func (r Result) Took() time.Duration { return r.Ended.Sub(r.Began) }

func (r Result) String() string {
	return fmt.Sprintf("setpoint %s: code %d after %s\n%s%s", strings.Join(r.Args, " "), r.Code, r.Took().Round(time.Millisecond), r.Stdout, r.Stderr)
}

// CLI runs one command. That it does not end, or ends with a code that is not documented, is an error of the test (V8). One that waits has so much longer.
func (c *Cluster) CLI(args ...string) Result { return c.cliWithin(commandLimit+waits(args), args...) }

// waits returns how long a command is told to wait.
func waits(args []string) time.Duration {
	for i, a := range args[:max(0, len(args)-1)] {
		if d, err := time.ParseDuration(args[i+1]); a == "--wait" && err == nil {
			return d
		}
	}
	return 0
}

func (c *Cluster) cliWithin(limit time.Duration, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := c.net.at(serverHost, append([]string{c.bin.Setpoint}, args...)...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = c.env("SETPOINT_DATA_DIR=" + c.path("server"))
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	c.before(args)
	r := Result{Args: args, Began: time.Now()}
	err := cmd.Run()
	r.Ended, r.Stdout, r.Stderr = time.Now(), out.String(), errOut.String()
	r.Code = cmd.ProcessState.ExitCode()
	if wrong := judge(r, err, limit); wrong != "" {
		c.t.Errorf("V8: %s: %s", wrong, r)
	}
	if r.Code == Done {
		c.acknowledged(args)
	}
	return r
}

// judge holds V8: it says what is wrong with how a command ended, or nothing.
func judge(r Result, err error, limit time.Duration) string {
	var exit *exec.ExitError
	switch {
	case r.Took() >= limit:
		return fmt.Sprintf("the command has not ended within %s", limit)
	case err != nil && !errors.As(err, &exit):
		return err.Error()
	case r.Code < Done || r.Code > Failed:
		return fmt.Sprintf("the code %d is not documented", r.Code)
	case r.Code != Done && strings.TrimSpace(r.Stderr+r.Stdout) == "":
		return "it did not succeed, and does not say why"
	}
	return ""
}

// Must runs one command that is to succeed.
func (c *Cluster) Must(args ...string) Result {
	c.t.Helper()
	r := c.CLI(args...)
	if r.Code != Done {
		c.t.Fatalf("%s", r)
	}
	return r
}

// MustWithin runs one command that waits for something and is to succeed within the limit.
func (c *Cluster) MustWithin(limit time.Duration, args ...string) Result {
	c.t.Helper()
	r := c.cliWithin(limit, args...)
	if r.Code != Done {
		c.t.Fatalf("%s", r)
	}
	return r
}

// ask runs a command that only looks, and decodes what it prints. While the server is away it returns false.
func (c *Cluster) ask(into any, args ...string) bool {
	c.t.Helper()
	r := c.CLI(append(args, "-o", "json")...)
	if r.Code == Error && c.serverAway.Load() {
		return false
	}
	if r.Code != Done {
		c.t.Fatalf("%s", r)
	}
	if err := json.Unmarshal([]byte(r.Stdout), into); err != nil {
		c.t.Fatalf("%v: %s", err, r)
	}
	return true
}

// Tasks lists tasks: those that are not dead and the last dead one of each slot; of one job unless that is empty.
func (c *Cluster) Tasks(job string) []Task {
	c.t.Helper()
	var out []Task
	args := []string{"task", "ls"}
	if job != "" {
		args = append(args, "--job", job)
	}
	c.ask(&out, args...)
	return out
}

// AllTasks lists all tasks that are known, dead ones too.
func (c *Cluster) AllTasks(job string) []Task {
	c.t.Helper()
	var out []Task
	c.ask(&out, "task", "ls", "--all", "--job", job)
	return out
}

// Records lists all tasks of a job of which there is a record.
func (c *Cluster) Records(job string) []Task {
	c.t.Helper()
	var out []Task
	c.ask(&out, "task", "ls", "--all", "--job", job)
	return out
}

// Live lists the tasks that are not dead.
func (c *Cluster) Live(job string) []Task {
	c.t.Helper()
	var out []Task
	for _, t := range c.Tasks(job) {
		if !t.Dead {
			out = append(out, t)
		}
	}
	return out
}

// Running lists the tasks that run, as the server sees it.
func (c *Cluster) Running(job string) []Task {
	c.t.Helper()
	var out []Task
	for _, t := range c.Tasks(job) {
		if t.Running() {
			out = append(out, t)
		}
	}
	return out
}

// Nodes lists nodes.
func (c *Cluster) Nodes() []Node {
	c.t.Helper()
	var out []Node
	c.ask(&out, "node", "ls")
	return out
}

// Node returns one node.
func (c *Cluster) Node(name string) Node {
	c.t.Helper()
	var out Node
	c.ask(&out, "node", "inspect", name)
	return out
}

// Stalls lists what waits; of one job unless that is empty.
func (c *Cluster) Stalls(job string) []Stall {
	c.t.Helper()
	var out []Stall
	args := []string{"stalls"}
	if job != "" {
		args = append(args, "--job", job)
	}
	c.ask(&out, args...)
	return out
}

// Plugins lists plugins.
func (c *Cluster) Plugins() []Plugin {
	c.t.Helper()
	var out []Plugin
	c.ask(&out, "plugin", "ls")
	return out
}

// Job returns one job.
func (c *Cluster) Job(name string) JobView {
	c.t.Helper()
	var out JobView
	c.ask(&out, "job", "inspect", name)
	return out
}

// Status returns the server's status.
func (c *Cluster) Status() Status {
	c.t.Helper()
	var out Status
	c.ask(&out, "status")
	return out
}

// Why returns what keeps a task from each node.
func (c *Cluster) Why(task string) Why {
	c.t.Helper()
	var out Why
	c.ask(&out, "task", "why", task)
	return out
}

// EventsFrom returns what happened from a revision on; only about a job unless that is empty.
func (c *Cluster) EventsFrom(revision uint64, job string) []Event {
	c.t.Helper()
	var out []Event
	args := []string{"events", "--from", fmt.Sprint(revision)}
	if job != "" {
		args = append(args, "--job", job)
	}
	c.ask(&out, args...)
	return out
}

// RunJobs creates or changes jobs with one command.
func (c *Cluster) RunJobs(jobs ...Job) {
	c.t.Helper()
	c.Must("job", "run", c.writeJobs(jobs), "--detach")
}

// RunJobsWait is RunJobs, and waits until they run.
func (c *Cluster) RunJobsWait(wait time.Duration, jobs ...Job) {
	c.t.Helper()
	c.MustWithin(wait+commandLimit, "job", "run", c.writeJobs(jobs), "--wait", wait.String())
}

// RunJobsCode is RunJobsWait for jobs that may not come to run.
func (c *Cluster) RunJobsCode(wait time.Duration, jobs ...Job) Result {
	c.t.Helper()
	return c.cliWithin(wait+commandLimit, "job", "run", c.writeJobs(jobs), "--wait", wait.String())
}

// Plan shows what running jobs would do, and notes nothing.
func (c *Cluster) Plan(jobs ...Job) Result {
	c.t.Helper()
	var text strings.Builder
	for _, j := range jobs {
		text.WriteString(j.HCL())
	}
	path := filepath.Join(c.Dir, "plan.hcl")
	c.write(path, text.String())
	return c.CLI("job", "plan", path)
}

// writeJobs writes a job file and notes what the jobs reserve.
func (c *Cluster) writeJobs(jobs []Job) string {
	c.t.Helper()
	var text strings.Builder
	c.mu.Lock()
	for _, j := range jobs {
		text.WriteString(j.HCL())
		c.jobs[j.Name] = j
		delete(c.removed, j.Name)
	}
	c.files++
	path := filepath.Join(c.Dir, fmt.Sprintf("job%d.hcl", c.files))
	c.mu.Unlock()
	c.write(path, text.String())
	return path
}

// RemoveJob removes a job.
func (c *Cluster) RemoveJob(name string) {
	c.t.Helper()
	c.Must("job", "rm", name)
}

// Label sets and removes labels of a node.
func (c *Cluster) Label(node string, labels ...string) {
	c.t.Helper()
	c.Must(append([]string{"node", "label", node}, labels...)...)
}

// Drain orders a drain, with flags besides the node's name; it does not wait for its end.
func (c *Cluster) Drain(node string, flags ...string) {
	c.t.Helper()
	c.Must(append([]string{"node", "drain", node}, flags...)...)
}

// DrainWait drains a node and waits for the end.
func (c *Cluster) DrainWait(node string, wait time.Duration) Result {
	c.t.Helper()
	c.Drain(node)
	return c.MustWithin(wait+commandLimit, "node", "drain", node, "--wait", wait.String())
}

// Pause lets a node take nothing new.
func (c *Cluster) Pause(node string) {
	c.t.Helper()
	c.Must("node", "pause", node)
}

// Activate lets a node take tasks again.
func (c *Cluster) Activate(node string) {
	c.t.Helper()
	c.Must("node", "activate", node)
}
