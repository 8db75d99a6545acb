package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Deadline is how long the suite waits for what must come. It is long because machines that test are busy.
const Deadline = 60 * time.Second

// Harness is what a driver brings to the suite.
type Harness struct {
	// New opens the driver on a directory. It is called again on the same directory, as after an agent's restart.
	New func(t *testing.T, dir string) driver.Driver
	// Dir makes a directory for one test; nil: t.TempDir.
	Dir func(t *testing.T) string
	// Parallel has the tests run beside each other, for drivers of which one does not disturb another.
	Parallel bool
	// Spec fills in what makes a task behave as asked. The id is set already.
	Spec func(spec *driver.Spec, b Behaviour)
	// Hog fills in what makes a task touch ever more memory, and hold it. It is needed of drivers that enforce limits of memory.
	Hog func(spec *driver.Spec)
	// Exec returns a command that, inside a task, does what is asked. It is needed of drivers that are a driver.Execer.
	Exec func(c Command) []string
}

// Behaviour is what a test wants of its task.
type Behaviour struct {
	// Exit makes it end by itself with that code; otherwise it runs until stopped. It then ends by the default action of the signal.
	Exit *int
	// After is how long it runs before Exit; zero: it ends at once.
	After time.Duration
	// Deaf makes it ignore the stop signal, from before it writes its first line.
	Deaf bool
	// Stdout and Stderr are lines that it writes at its start.
	Stdout, Stderr []string
	// Rejected makes it one that cannot run here.
	Rejected bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.Dir == nil {
		h.Dir = func(t *testing.T) string { return t.TempDir() }
	}
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"ExitCode", exitCode},
		{"ExitIsKept", exitIsKept},
		{"WaitEndsWithContext", waitEndsWithContext},
		{"StopEndsWithinGrace", stopWithinGrace},
		{"StopKillsAtGrace", stopKillsAtGrace},
		{"StopWithoutGrace", stopWithoutGrace},
		{"StopIsShortenedByALaterOne", stopIsShortened},
		{"StopIsNeverExtended", stopIsNeverExtended},
		{"StopAfterEnd", stopAfterEnd},
		{"StartIsIdempotent", startIsIdempotent},
		{"StartAtOnceByMany", startByMany},
		{"StartNeverTwice", startNeverTwice},
		{"Rejected", rejected},
		{"RecoverRunning", recoverRunning},
		{"RecoverExited", recoverExited},
		{"RecoverWithoutData", recoverWithoutData},
		{"Unknown", unknown},
		{"RemoveRunning", removeRunning},
		{"Remove", remove},
		{"List", list},
		{"Logs", logs},
		{"LogsSelected", logsSelected},
		{"LogsFollow", logsFollow},
		{"LogsFollowEndsWithContext", logsFollowEndsWithContext},
		{"AwkwardIDs", awkwardIDs},
		{"Fingerprint", fingerprint},
		{"MemoryIsLimited", memoryIsLimited},
		{"ResourcesAreTaken", resourcesAreTaken},
		{"ExecStreams", execStreams},
		{"ExecStdin", execStdin},
		{"ExecTTY", execTTY},
		{"ExecEndsWithContext", execEndsWithContext},
		{"ExecEndsWithTask", execEndsWithTask},
		{"ExecIsHeldBack", execIsHeldBack},
		{"ExecRefused", execRefused},
		{"ExecNotRunning", execNotRunning},
		{"ExecByMany", execByMany},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			ctx, cancel := context.WithTimeout(t.Context(), Deadline)
			defer cancel()
			dir := h.Dir(t)
			s := &suite{T: t, h: h, dir: dir, ctx: ctx, d: h.New(t, dir)}
			t.Cleanup(s.sweep)
			test.run(s)
		})
	}
}

// A suite is one test's driver and what it needs around it.
type suite struct {
	*testing.T
	h   Harness
	dir string
	ctx context.Context
	d   driver.Driver
}

// sweep ends and removes whatever a test left.
func (s *suite) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	Sweep(ctx, s.T, s.d)
}

// Sweep ends and removes everything that the driver lists.
func Sweep(ctx context.Context, t *testing.T, d driver.Driver) {
	t.Helper()
	all, err := d.List(ctx)
	if err != nil {
		t.Errorf("list what is left: %v", err)
	}
	for _, l := range all {
		if err := d.Stop(ctx, l.Handle, driver.StopRequest{}); err != nil {
			t.Errorf("sweep: %v", err)
		}
		if l.Status.State != driver.StateNotStarted {
			if _, err := d.Wait(ctx, l.Handle); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
		if err := d.Remove(ctx, l.Handle); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
}

func (s *suite) spec(id string, b Behaviour) driver.Spec {
	spec := driver.Spec{TaskID: id}
	s.h.Spec(&spec, b)
	return spec
}

func (s *suite) start(id string, b Behaviour) driver.Handle {
	s.Helper()
	if b.Deaf {
		b.Stdout = []string{"deaf"}
	}
	h, err := s.d.Start(s.ctx, s.spec(id, b))
	if err != nil {
		s.Fatal(err)
	}
	if h.TaskID != id || h.Driver != s.d.Name() {
		s.Fatalf("handle is of %s/%s, want %s/%s", h.Driver, h.TaskID, s.d.Name(), id)
	}
	if b.Deaf {
		for _, err := range s.d.Logs(s.ctx, h, driver.LogsRequest{Follow: true}) {
			if err != nil {
				s.Fatal(err)
			}
			break
		}
	}
	return h
}

func (s *suite) wait(h driver.Handle) driver.Exit {
	s.Helper()
	exit, err := s.d.Wait(s.ctx, h)
	if err != nil {
		s.Fatal(err)
	}
	return exit
}

func (s *suite) stop(h driver.Handle, req driver.StopRequest) {
	s.Helper()
	if err := s.d.Stop(s.ctx, h, req); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) state(h driver.Handle, want driver.State) driver.Status {
	s.Helper()
	status, err := s.d.Recover(s.ctx, h)
	if err != nil {
		s.Fatal(err)
	}
	if status.State != want {
		s.Fatalf("state is %+v, want %s", status, want)
	}
	return status
}

// reopen makes the driver anew, as a restarted agent does.
func (s *suite) reopen() { s.d = s.h.New(s.T, s.dir) }

func code(n int) *int { return &n }
