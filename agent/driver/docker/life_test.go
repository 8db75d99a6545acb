package docker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

// A task that was told to stop has no longer to end because its agent began anew, and is killed by the next one.
func TestStopOutlivesTheAgent(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1", "deaf", "out", "deaf"))
	for _, err := range d.Logs(t.Context(), h, driver.LogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	const grace = 500 * time.Millisecond
	asked := time.Now()
	if err := d.Stop(t.Context(), h, driver.StopRequest{Grace: grace}); err != nil {
		t.Fatal(err)
	}
	for name, timer := range d.kills { // as if the agent had died
		timer.Stop()
		delete(d.kills, name)
	}
	next := open(t, d.opts.Host, d.opts.Dir)
	if err := next.Stop(t.Context(), h, driver.StopRequest{Grace: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, next, h); exit.Signal != "KILL" || exit.Finished.Sub(asked) < grace {
		t.Errorf("exit is %+v, asked at %v", exit, asked)
	}
	if err := next.Remove(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(d.opts.Dir, stopsDir)); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Waiting for it is enough to have it killed when its time is over.
func TestWaitGoesOnWithAStop(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1", "deaf"))
	name := d.container(h.TaskID)
	if err := writeFile(d.stopPath(name), []byte(`{"deadline": "2020-01-01T00:00:00Z"}`)); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, d, h); exit.Signal != "KILL" {
		t.Errorf("exit is %+v", exit)
	}
}

func TestStopSignals(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1")
	spec.StopSignal = "INT"
	for i, c := range []struct {
		signal string
		code   int
	}{{"", 130}, {"SIGUSR1", 138}} {
		spec.TaskID = "job/1/" + strconv.Itoa(i)
		h := start(t, d, spec)
		if err := d.Stop(t.Context(), h, driver.StopRequest{Signal: c.signal, Grace: drivertest.Deadline}); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, d, h); exit.Code != c.code {
			t.Errorf("stopped by %q, exit is %+v, want code %d", c.signal, exit, c.code)
		}
	}
}

// What somebody else does to the container beside the agent is seen.
func TestKilledAndRemovedByOthers(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1"))
	name := d.container(h.TaskID)
	docker(t, "pause", name)
	if status, err := d.Recover(t.Context(), h); err != nil || status.State != driver.StateRunning || status.Message == "" {
		t.Errorf("status is %+v, %v", status, err)
	}
	docker(t, "unpause", name)
	docker(t, "kill", name)
	if exit := wait(t, d, h); exit.Signal != "KILL" {
		t.Errorf("exit is %+v", exit)
	}
	docker(t, "rm", name)
	if _, err := d.Wait(t.Context(), h); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("wait returned %v", err)
	}
}

// docker runs the engine's own command.
func docker(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("docker", append([]string{"--host", os.Getenv(envHost)}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestHealth(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1")
	spec.Health = &driver.HealthCheck{Exec: []string{program, "read", "/healthy", "exit", "0"}, Interval: time.Second, Timeout: 10 * time.Second, Retries: 2}
	h := start(t, d, spec)
	if got := health(t, d, h, func(h driver.Health) bool { return h.Healthy || h.Failed }); !got.Healthy || got.Message != "healthy" {
		t.Errorf("health is %+v", got)
	}
	spec.TaskID, spec.Health.Exec = "job/2/1", []string{program, "err", "no answer", "exit", "1"}
	h = start(t, d, spec)
	if got := health(t, d, h, func(h driver.Health) bool { return h.Healthy || h.Failed }); !got.Checked || !got.Failed || !strings.Contains(got.Message, "no answer") {
		t.Errorf("health is %+v", got)
	}
	spec.TaskID, spec.Health.Exec = "job/3/1", nil // the agent checks from outside
	if got, err := d.Health(t.Context(), start(t, d, spec)); err != nil || got.Checked {
		t.Errorf("health is %+v, %v", got, err)
	}
}

// health asks until what it is told holds.
func health(t *testing.T, d *Driver, h driver.Handle, until func(driver.Health) bool) driver.Health {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Deadline)
	defer cancel()
	for {
		got, err := d.Health(ctx, h)
		if err != nil {
			t.Fatal(err)
		}
		if until(got) {
			return got
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// killEngine kills the engine and the program that it runs containers with, and waits until both are gone: an engine that finds the other one still dying does not
// start another.
func killEngine(t *testing.T) {
	t.Helper()
	for _, name := range []string{"pid", "exec/containerd/containerd.pid"} {
		text, err := os.ReadFile(filepath.Join(os.Getenv(envDir), name))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		for err := syscall.Kill(pid, syscall.SIGKILL); err == nil; err = syscall.Kill(pid, 0) {
			if !pause(t.Context(), 10*time.Millisecond) {
				t.Fatal("the engine does not end")
			}
		}
	}
}

// The engine is killed and started again. What it keeps alive meanwhile goes on, is waited for and read on; what died meanwhile has ended.
func TestEngineStartsAgain(t *testing.T) {
	if os.Getenv(envDir) == "" {
		t.Skipf("%s is not set: it is not known how the engine is started", envDir)
	}
	d := alone(t)
	dir := t.TempDir()
	lives := task("job/1/1", "out", "before", "until", "/in/go", "out", "after", "exit", "5")
	lives.Settings["mounts"] = `[{"source": "` + dir + `", "target": "/in"}]`
	living := start(t, d, lives)
	dying := start(t, d, task("job/2/1"))
	c, err := d.look(t.Context(), dying.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := d.Recover(t.Context(), living); err != nil || status.State != driver.StateRunning {
		t.Fatalf("status is %+v, %v", status, err)
	}
	exits := make(chan driver.Exit, 1)
	go func() { exits <- wait(t, d, living) }()
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for line, err := range d.Logs(t.Context(), living, driver.LogsRequest{Follow: true}) {
			if err != nil {
				t.Errorf("logs: %v", err)
				return
			}
			lines <- string(line.Text)
		}
	}()
	if line := <-lines; line != "before" {
		t.Errorf("it wrote %q", line)
	}

	killEngine(t)
	if _, err := d.Fingerprint(t.Context()); err == nil {
		t.Error("a driver without an engine says what it can")
	}
	if _, err := d.Recover(t.Context(), living); err == nil {
		t.Error("a driver without an engine says what became of a task")
	}
	shim, err := parent(c.State.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{shim, c.State.Pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	again := exec.Command(filepath.Join(os.Getenv(envDir), "start.sh"))
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	if err := again.Process.Release(); err != nil { // who started the first ends it
		t.Fatal(err)
	}
	if exit := wait(t, d, dying); exit.Code == 0 {
		t.Errorf("exit is %+v", exit)
	}
	if status, err := d.Recover(t.Context(), living); err != nil || status.State != driver.StateRunning {
		t.Errorf("status is %+v, %v", status, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if exit := <-exits; exit.Code != 5 {
		t.Errorf("exit is %+v", exit)
	}
	var rest []string
	for line := range lines {
		rest = append(rest, line)
	}
	if strings.Join(rest, ",") != "after" {
		t.Errorf("it then wrote %q", rest)
	}
}

// parent returns the parent of a process.
func parent(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return 0, errors.New("a process without a parent")
	}
	return strconv.Atoi(fields[1])
}
