package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/cgroup"
)

// enforcing opens a driver on a machine that enforces something, or skips the test.
func enforcing(t *testing.T, c cgroup.Controller) *Driver {
	t.Helper()
	d := fresh(t)
	if err := errors.Join(d.groups.none, d.groups.lacks[c]); err != nil {
		t.Skipf("%s is not enforced here: %v", c, err)
	}
	return d
}

const hog = "x=0123456789abcdef; while :; do x=$x$x; done"

// A process of the task that is killed for want of memory is told of, though the task ended by itself.
func TestOutOfMemoryInPart(t *testing.T) {
	d := enforcing(t, cgroup.Memory)
	spec := sh("a/1/1", "sh -c '"+hog+"' 2>/dev/null; exit 4")
	spec.Settings = map[string]string{"memory_limit": "32MiB"}
	spec.Resources.MemoryBytes = 1 << 40 // what is reserved is not the limit then
	exit := wait(t, d, start(t, d, spec))
	whole := exit.Code == 137 && exit.Signal == "KILL" // as it ends where version 2 ends the group
	if !exit.OOM || exit.Code != 4 && !whole {
		t.Errorf("exit is %+v", exit)
	}
}

// The exit code of what is killed for want of memory is that of whatever is killed.
func TestKilledIsNotOutOfMemory(t *testing.T) {
	d := enforcing(t, cgroup.Memory)
	spec := sh("a/1/1", "kill -9 $$")
	spec.Resources.MemoryBytes = 64 << 20
	if exit := wait(t, d, start(t, d, spec)); exit.OOM || exit.Code != 137 {
		t.Errorf("exit is %+v", exit)
	}
}

// A shim that was killed has not seen that the kernel had killed a process of the task; its control group still tells.
func TestOutOfMemoryIsKnownWithoutAShim(t *testing.T) {
	d := enforcing(t, cgroup.Memory)
	spec := sh("a/1/1", "setsid sh -c '"+hog+"' 2>/dev/null; echo over; exec sleep 1000")
	spec.Resources.MemoryBytes = 32 << 20
	h := start(t, d, spec)
	if d.groups.tree.Version() == "v2" {
		t.Skip("version 2 ends the task as a whole")
	}
	firstLines(t, d, h, 1)
	shim := shimOf(t, d, h)
	if err := unix.Kill(shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "shim gone", func() bool { return !running(shim) })
	if exit := wait(t, d, h); !exit.OOM || exit.Code != driver.ExitUnknown {
		t.Errorf("exit is %+v", exit)
	}
}

func TestPIDsLimit(t *testing.T) {
	d := enforcing(t, cgroup.PIDs)
	spec := sh("a/1/1", "n=0; while [ $n -lt 10 ]; do sleep 1000 & n=$((n+1)); done; echo all")
	spec.Settings = map[string]string{"pids": "4"}
	h := start(t, d, spec)
	exit := wait(t, d, h)
	if lines := readAll(t, d, h, driver.LogsRequest{Stream: driver.Stdout}); exit.Code == 0 || len(lines) > 0 {
		t.Errorf("exit is %+v, output %q", exit, lines)
	}
}

func TestProcessorLimits(t *testing.T) {
	d := enforcing(t, cgroup.CPU)
	spec := sh("a/1/1", "exec sleep 1000")
	spec.Resources.CPUMilli = 500
	spec.Settings = map[string]string{"cpu_limit": "1.5"}
	start(t, d, spec)
	var got []string
	for _, dir := range d.group(d.dir("a/1/1")).Dirs {
		for _, file := range []string{"cpu.shares", "cpu.cfs_quota_us", "cpu.max", "cpu.weight"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				got = append(got, strings.TrimSpace(string(text)))
			}
		}
	}
	if !slices.Equal(got, []string{"5120", "150000"}) && !slices.Equal(got, []string{"150000 100000", "500"}) {
		t.Errorf("limits are %q", got)
	}
}

// What left the session, the process group and the environment of its task, and whose shim is gone as well, still belongs to it.
func TestNothingEscapes(t *testing.T) {
	d := fresh(t)
	if d.groups.none != nil {
		t.Skip("no control groups here: ", d.groups.none)
	}
	for name, end := range map[string]func(*Driver, driver.Handle) error{
		"stop":   func(d *Driver, h driver.Handle) error { return d.Stop(t.Context(), h, driver.StopRequest{}) },
		"orphan": func(d *Driver, h driver.Handle) error { return unix.Kill(shimOf(t, d, h), unix.SIGKILL) },
		"no directory": func(d *Driver, h driver.Handle) error {
			err := unix.Kill(shimOf(t, d, h), unix.SIGKILL)
			return errors.Join(err, os.RemoveAll(string(d.dir(h.TaskID))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-") + "/1/1"
			h := start(t, d, sh(id, "exec env -i PATH=$PATH sh -c 'setsid sleep 1000 & echo $!; exec sleep 1000'"))
			far := pid(t, firstLines(t, d, h, 1)[0])
			if err := end(d, h); err != nil {
				t.Fatal(err)
			}
			if name == "no directory" {
				all, err := d.List(t.Context())
				if err != nil || !slices.ContainsFunc(all, func(l driver.Listed) bool { return l.Handle.TaskID == id && l.Status.State == driver.StateOrphaned }) {
					t.Errorf("list is %+v, %v", all, err)
				}
				if err := d.Stop(t.Context(), driver.Handle{Driver: Name, TaskID: id}, driver.StopRequest{}); err != nil {
					t.Fatal(err)
				}
			} else {
				wait(t, d, h)
			}
			if running(far) {
				t.Errorf("process %d is left", far)
			}
		})
	}
}

func TestWhatCannotBeEnforced(t *testing.T) {
	spec := sh("a/1/1", "exit 3")
	spec.Resources = driver.Resources{CPUMilli: 1500, MemoryBytes: 64 << 20}
	spec.Settings = map[string]string{"pids": "7"}
	want := []string{"cpu share of 1.5 cores (", "memory of 67108864 bytes (", "7 processes ("}

	d := fresh(t)
	d.groups.tree = new(cgroup.Tree) // a machine without control groups
	h := start(t, d, spec)
	if len(h.Unenforced) != len(want) {
		t.Fatalf("unenforced is %q", h.Unenforced)
	}
	for i, text := range want {
		if !strings.HasPrefix(h.Unenforced[i], text) || !strings.Contains(h.Unenforced[i], "no control group is mounted") {
			t.Errorf("unenforced is %q, want %q", h.Unenforced[i], text)
		}
	}
	if exit := wait(t, d, h); exit.Code != 3 {
		t.Errorf("exit is %+v", exit)
	}
	all, err := d.List(t.Context())
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Handle.Unenforced, h.Unenforced) {
		t.Errorf("list is %+v, %v", all, err)
	}

	d.opts.Enforce = EnforceRequired
	spec.TaskID = "a/1/2"
	_, err = d.Start(t.Context(), spec)
	var why *driver.RejectedError
	if !errors.As(err, &why) || why.Code != driver.RejectUnenforced {
		t.Fatalf("start returned %v", err)
	}
	for _, text := range append(want, `enforce = "best_effort"`, "leave that out of the job", `"enforced"`) {
		if !strings.Contains(why.Reason, text) {
			t.Errorf("refused with %q, which does not say %q", why.Reason, text)
		}
	}
	state(t, d, driver.Handle{Driver: Name, TaskID: "a/1/2"}, driver.StateAbsent)
	spec.Resources, spec.Settings = driver.Resources{}, nil
	if exit := wait(t, d, start(t, d, spec)); exit.Code != 3 { // what asks for nothing is refused nothing
		t.Errorf("exit is %+v", exit)
	}
}

func TestAttributes(t *testing.T) {
	d := fresh(t)
	d.groups.lacks, d.groups.none = cgroup.Lacks{cgroup.Memory: errors.New("not here")}, nil
	fp, err := d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"memory": "unenforced", "cpu": "enforced", "pids": "enforced", "kill": "cgroup", "cgroups": d.groups.tree.Version()}
	for name, value := range want {
		if got := fp.Attributes["driver.process."+name]; got != value {
			t.Errorf("driver.process.%s is %q, want %q", name, got, value)
		}
	}
	d.groups.none = errors.New("nothing here")
	if fp, err = d.Fingerprint(t.Context()); err != nil || fp.Attributes["driver.process.cpu"] != "unenforced" || fp.Attributes["driver.process.kill"] != "descendants" {
		t.Errorf("attributes are %v, %v", fp.Attributes, err)
	}
}

func TestRlimits(t *testing.T) {
	d := fresh(t)
	spec := sh("a/1/1", "grep -E 'open files|core file|stack size' /proc/self/limits | tr -s ' '")
	spec.Settings = map[string]string{"nofile": "100:200", "core": "0", "stack": "4MiB:8MiB"}
	h := start(t, d, spec)
	wait(t, d, h)
	want := []string{"Max stack size 4194304 8388608 bytes ", "Max core file size 0 0 bytes ", "Max open files 100 200 files "}
	if got := readAll(t, d, h, driver.LogsRequest{}); !slices.Equal(got, want) {
		t.Errorf("limits are %q, want %q", got, want)
	}
	// What nobody set is the agent's.
	h = start(t, d, sh("a/1/2", "grep 'open files' /proc/self/limits"))
	wait(t, d, h)
	own, err := exec.CommandContext(t.Context(), "grep", "open files", "/proc/self/limits").Output()
	if got := readAll(t, d, h, driver.LogsRequest{}); err != nil || len(got) != 1 || got[0] != strings.TrimSuffix(string(own), "\n") {
		t.Errorf("limit is %q, want %q, %v", got, own, err)
	}
}

func TestRlimitsThatMayNotBeGiven(t *testing.T) {
	d := fresh(t)
	spec := sh("a/1/1", "exit 0")
	refused := func(text string) {
		t.Helper()
		_, err := d.Start(t.Context(), spec)
		var why *driver.RejectedError
		if !errors.As(err, &why) || why.Code != driver.RejectRefusedBySystem || !strings.Contains(why.Reason, text) {
			t.Errorf("start returned %v, want a refusal with %q", err, text)
		}
	}
	spec.Settings = map[string]string{"nofile": "4611686018427387"}
	refused("nofile = 4611686018427387 is more than this ")
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil {
		t.Fatal(err)
	}
	if capable, err := hasCapability(unix.CAP_SYS_RESOURCE); err != nil || capable || own.Max == unlimited {
		t.Skipf("this process may raise its limits (%v) or has none to raise: %d", err, own.Max)
	}
	spec.Settings = map[string]string{"nproc": "unlimited"}
	refused(fmt.Sprintf("nproc = unlimited is more than this agent may give: its own hard limit is %d; raise that (systemd: LimitNPROC=)", own.Max))
}

func TestNewerIntentIsRefused(t *testing.T) {
	d := fresh(t)
	newer := shimVia(t, d, `sed -i 's/"v":2/"v":3/' "$1/spec.json"; exec "$0" shim "$1"`)
	_, err := newer.Start(t.Context(), sh("a/1/1", "exit 0"))
	if err == nil || !strings.Contains(err.Error(), "this one is of version 3") {
		t.Errorf("start returned %v", err)
	}
	state(t, d, driver.Handle{Driver: Name, TaskID: "a/1/1"}, driver.StateAbsent)
}

// An intent of an agent before control groups is understood.
func TestOlderIntent(t *testing.T) {
	d := fresh(t)
	older := shimVia(t, d, `sed -i 's/"v":2,//; s/"group":{[^}]*},\?//; s/,}/}/' "$1/spec.json"; exec "$0" shim "$1"`)
	if exit := wait(t, d, start(t, older, sh("a/1/1", "exit 5"))); exit.Code != 5 {
		t.Errorf("exit is %+v", exit)
	}
}

func TestPolicyIsKnown(t *testing.T) {
	if _, err := New(Options{Dir: t.TempDir(), Shim: []string{"/bin/true"}, Enforce: "sometimes"}); err == nil || !strings.Contains(err.Error(), "sometimes") {
		t.Errorf("new returned %v", err)
	}
}

// A job's word on its logs goes before the agent's.
func TestLogSettings(t *testing.T) {
	d := fresh(t)
	spec := sh("a/1/1", "head -c 1000000 /dev/zero | tr '\\0' 'x' | fold -w 99")
	spec.Settings = map[string]string{"log_file_size": "64KiB", "log_files": "3"}
	wait(t, d, start(t, d, spec))
	numbers, err := segments(d.dir("a/1/1").logs(), driver.Stdout)
	if err != nil || len(numbers) != 3 {
		t.Errorf("files are %v, %v", numbers, err)
	}
	for _, n := range numbers {
		if info, err := os.Stat(segmentName(d.dir("a/1/1").logs(), driver.Stdout, n)); err != nil || info.Size() > 64<<10 {
			t.Errorf("file %d: %v, %v", n, info, err)
		}
	}
}

// A driver that is opened removes the empty groups that nobody else will, and no other.
func TestGroupsOfTheForgottenAreRemoved(t *testing.T) {
	d := fresh(t)
	if d.groups.none != nil {
		t.Skip("no control groups here: ", d.groups.none)
	}
	other := groupPrefix + "other" + strings.ToLower(filepath.Base(filepath.Dir(t.TempDir()))) + "-a"
	names := map[string]bool{d.groups.prefix + "a%2F1%2F1": false, d.groups.prefix + "kept": true, other + "new": true, other + "old": false}
	if err := os.Mkdir(filepath.Join(d.opts.Dir, tasksDir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name := range names {
		g, _, err := d.groups.tree.Make(name, cgroup.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		})
		if strings.HasSuffix(name, "old") {
			long := time.Now().Add(-time.Hour)
			if err := os.Chtimes(g.Dirs[0], long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, d.opts.Dir)
	for name, stays := range names {
		if there := len(d.groups.tree.Group(name).Dirs) > 0; there != stays {
			t.Errorf("group %s is there: %v", name, there)
		}
	}
}
