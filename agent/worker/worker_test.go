package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a set that runs in a bubble, on a real file and the sim driver.
type bench struct {
	t       *testing.T
	dir     string
	sim     string
	file    *state.File
	set     *Set
	cancel  context.CancelFunc
	done    chan struct{}
	cut     time.Duration // since when no server is heard when the set begins; 0: one is
	secrets string        // where they are kept; empty: nowhere
	// wrap, if not nil, puts something between the set and its store and drivers.
	wrap func(Store, driver.Driver) (Store, driver.Driver)
}

func newBench(t *testing.T) *bench { return &bench{t: t, dir: t.TempDir(), sim: t.TempDir()} }

// open starts the agent's part again on what is there.
func (b *bench) open() {
	b.t.Helper()
	d, err := sim.New(sim.Options{Dir: b.sim})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.file, err = state.Open(b.dir); err != nil {
		b.t.Fatal(err)
	}
	tasks, revision, err := b.file.Load()
	if err != nil {
		b.t.Fatal(err)
	}
	var store Store = b.file
	var drv driver.Driver = d
	if b.wrap != nil {
		store, drv = b.wrap(store, drv)
	}
	opts := Options{Store: store, Drivers: []driver.Driver{drv}, Node: "worker", Log: hclog.NewNullLogger(), Boot: bootClock, NoSecrets: "no memory"}
	if b.secrets != "" {
		if opts.Secrets, err = secrets.Open(b.secrets); err != nil {
			b.t.Fatal(err)
		}
	}
	b.set = New(opts, tasks, revision)
	if b.cut != 0 {
		b.set.Cut(b.cut)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	b.cancel, b.done = cancel, make(chan struct{})
	go func(set *Set) {
		defer close(b.done)
		_ = set.Run(ctx)
	}(b.set)
	synctest.Wait()
}

// bootClock goes on with the bubble's time.
func bootClock() time.Duration { return time.Duration(time.Now().UnixNano()) }

func (b *bench) close() {
	b.t.Helper()
	b.cancel()
	<-b.done
	if err := b.file.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) apply(o Orders) {
	b.t.Helper()
	if err := b.set.Apply(o); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) status(task cluster.TaskID) state.Status {
	for _, s := range b.set.Statuses() {
		if s.Task == task {
			return s
		}
	}
	return state.Status{}
}

// want fails unless the task is observed in a state now.
func (b *bench) want(task cluster.TaskID, want cluster.ObservedState) state.Status {
	b.t.Helper()
	synctest.Wait()
	got := b.status(task)
	if got.State != want {
		b.t.Fatalf("task %s is %q (%s %s), want %q", task, got.State, got.Message, got.Err, want)
	}
	return got
}

func (b *bench) events() []sim.Event {
	b.t.Helper()
	events, err := sim.Events(b.sim)
	if err != nil {
		b.t.Fatal(err)
	}
	return events
}

func (b *bench) count(task cluster.TaskID, kind sim.Kind) int {
	n := 0
	for _, e := range b.events() {
		if e.TaskID == string(task) && e.Kind == kind {
			n++
		}
	}
	return n
}

func wanted(task cluster.TaskID, settings map[string]string) state.Assignment {
	job, slot, _, err := task.Parts()
	if err != nil {
		panic(err)
	}
	return state.Assignment{
		Task: task, Job: job, Slot: slot, Desired: cluster.DesiredRunning, Grace: -1, Start: true,
		Spec: &cluster.TaskSpec{Driver: "sim", Config: settings, Stop: cluster.StopSpec{Signal: "TERM", Grace: 10 * time.Second}},
	}
}

func unwanted(a state.Assignment, grace time.Duration, observed cluster.ObservedState) state.Assignment {
	a.Desired, a.Grace, a.Observed, a.Spec, a.Start = cluster.DesiredShutdown, grace, observed, nil, false
	return a
}

func orders(revision cluster.Revision, as ...state.Assignment) Orders {
	return Orders{Revision: revision, Assignments: as}
}

func full(revision cluster.Revision, as ...state.Assignment) Orders {
	return Orders{Revision: revision, Full: true, Assignments: as}
}

const web = cluster.TaskID("web/1/5")

func TestLife(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		after    time.Duration
		want     state.Status
	}{
		"runs":     {nil, time.Hour, state.Status{State: cluster.Running, Message: "started", Healthy: true}},
		"starting": {map[string]string{"start_delay": "5s"}, 4 * time.Second, state.Status{State: cluster.Starting}},
		"completes": {
			map[string]string{"run_for": "3s"},
			4 * time.Second,
			state.Status{State: cluster.Complete, Message: "ended by itself"},
		},
		"fails": {
			map[string]string{"run_for": "3s", "exit_code": "3"},
			4 * time.Second,
			state.Status{State: cluster.Failed, Message: "started", Err: "exit code 3", ExitCode: 3},
		},
		"out of memory": {
			map[string]string{"run_for": "3s", "oom": "true"},
			4 * time.Second,
			state.Status{State: cluster.Failed, Message: "started", Err: "killed by the kernel: out of memory", ExitCode: 137},
		},
		"out of memory in part": {
			map[string]string{"run_for": "3s", "oom": "true", "exit_code": "4"},
			4 * time.Second,
			state.Status{State: cluster.Failed, Message: "started", Err: "exit code 4; the kernel had killed a process of it: out of memory", ExitCode: 4},
		},
		"rejected": {map[string]string{"reject": "no room"}, 0, state.Status{State: cluster.Rejected, Err: "no room"}},
		"cannot start": {
			map[string]string{"fail_start": "busy"},
			0,
			state.Status{State: cluster.Failed, Err: "it could not be started: start task web/1/5: busy"},
		},
		"not healthy yet": {
			map[string]string{"healthy_after": "5s"},
			4 * time.Second,
			state.Status{State: cluster.Running, Message: "starting: not healthy yet"},
		},
		"healthy": {
			map[string]string{"healthy_after": "2s"},
			4 * time.Second,
			state.Status{State: cluster.Running, Message: "healthy", Healthy: true},
		},
		"sick": {map[string]string{"unhealthy_after": "5s"}, 10 * time.Second, state.Status{State: cluster.Failed, Err: "health check failed: …", ExitCode: 143}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.open()
				defer b.close()
				b.apply(orders(1, wanted(web, c.settings)))
				time.Sleep(c.after)
				got := b.want(web, c.want.State)
				if c.want.Err != "" && c.want.Err[len(c.want.Err)-len("…"):] == "…" && len(got.Err) > 20 {
					got.Err, c.want.Err = got.Err[:20], c.want.Err[:20]
				}
				if len(c.want.Message) > 20 && len(got.Message) > 20 {
					got.Message, c.want.Message = got.Message[:20], c.want.Message[:20]
				}
				if c.want.State == cluster.Failed && c.want.Message == "" {
					got.Message = ""
				}
				c.want.Task, c.want.At = web, got.At
				if got != c.want {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
			})
		})
	}
}

func TestEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, nil)
		a.Spec.Env = map[string]string{"MODE": "prod"}
		a.Ports = []cluster.PortGrant{{Name: "http", Number: 8080}}
		a.Addresses = []cluster.AddressGrant{{Name: "eth0", Pool: "lan", Address: "10.1.0.7"}}
		b.apply(orders(1, a))
		b.want(web, cluster.Running)
		got := b.events()[0].Spec.Env
		for name, want := range map[string]string{
			"MODE": "prod", "SETPOINT_TASK_ID": "web/1/5", "SETPOINT_JOB": "web", "SETPOINT_SLOT": "1", "SETPOINT_NODE": "worker", "SETPOINT_PORT_http": "8080",
			"SETPOINT_ADDRESS_eth0": "10.1.0.7",
		} {
			if got[name] != want {
				t.Errorf("%s=%q, want %q", name, got[name], want)
			}
		}
	})
}

func TestStop(t *testing.T) {
	deaf := map[string]string{"stop_delay": "1h"}
	for name, c := range map[string]struct {
		settings map[string]string
		grace    time.Duration
		before   time.Duration // between start and stop
		still    time.Duration // it runs so long after the order
		ended    time.Duration // and has ended so long after
		code     int
		message  string
	}{
		"at once":       {nil, -1, time.Second, 0, 0, 143, "stopped"},
		"own grace":     {deaf, -1, time.Second, 9 * time.Second, 10 * time.Second, 137, "killed: it did not end within its grace"},
		"shorter grace": {deaf, 3 * time.Second, time.Second, 2 * time.Second, 3 * time.Second, 137, "killed: it did not end within its grace"},
		"kill":          {deaf, 0, time.Second, 0, 0, 137, "killed"},
		"during start":  {map[string]string{"start_delay": "5s"}, -1, time.Second, 0, 0, 0, "told to stop before it was started"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.open()
				defer b.close()
				a := wanted(web, c.settings)
				b.apply(orders(1, a))
				time.Sleep(c.before)
				b.apply(orders(2, unwanted(a, c.grace, cluster.Running)))
				if c.still > 0 {
					time.Sleep(c.still)
					b.want(web, cluster.Running)
				}
				time.Sleep(c.ended - c.still)
				got := b.want(web, cluster.Stopped)
				if got.ExitCode != c.code || got.Message != c.message || got.Err != "" {
					t.Errorf("stopped as %+v", got)
				}
			})
		})
	}
}

// A grace that goes on is cut short by a shorter one, and never made longer.
func TestShorterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, map[string]string{"stop_delay": "1h"})
		b.apply(orders(1, a))
		b.apply(orders(2, unwanted(a, time.Minute, cluster.Running)))
		time.Sleep(10 * time.Second)
		b.apply(orders(3, unwanted(a, time.Hour, cluster.Running)))
		b.apply(orders(4, unwanted(a, 5*time.Second, cluster.Running)))
		time.Sleep(4 * time.Second)
		b.want(web, cluster.Running)
		time.Sleep(time.Second)
		b.want(web, cluster.Stopped)
	})
}

// What is desired moves forward only.
func TestDesiredForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, map[string]string{"stop_delay": "1h"})
		b.apply(orders(1, a))
		b.apply(orders(2, unwanted(a, 10*time.Second, cluster.Running)))
		b.apply(orders(3, a))
		time.Sleep(10 * time.Second)
		b.want(web, cluster.Stopped)
		if n := b.count(web, sim.Started); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestWaitsForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, nil)
		a.Start = false
		b.apply(full(1, a))
		time.Sleep(time.Minute)
		b.want(web, cluster.Accepted)
		a.Start = true
		b.apply(orders(2, a))
		b.want(web, cluster.Running)
	})
}

// TestUnknown is about tasks that the server has observed and this agent does not know, and such as it never started.
func TestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		lost := wanted(web, nil)
		lost.Observed = cluster.Running
		b.apply(full(1, lost, unwanted(wanted("web/2/5", nil), 0, cluster.Running), unwanted(wanted("web/3/5", nil), 0, cluster.ObservedNone)))
		if got := b.status(web); got.State != cluster.ObservedNone {
			t.Errorf("a lost task is reported as %s", got.State)
		}
		if got := b.status("web/2/5"); got.State != cluster.ObservedNone {
			t.Errorf("a lost task that should stop is reported as %s", got.State)
		}
		b.want("web/3/5", cluster.Stopped)
		b.apply(orders(2, lost))
		if got := b.want(web, cluster.Failed); got.Err != "not known here" {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Minute)
		if n := len(b.events()); n != 0 {
			t.Errorf("%d events of the driver: %v", n, b.events())
		}
	})
}

func TestFullSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		slow := wanted("web/2/5", map[string]string{"stop_delay": "3s"})
		batch := wanted("batch/1/5", map[string]string{"run_for": "1s"})
		b.apply(full(1, wanted(web, nil), slow, batch))
		time.Sleep(2 * time.Second)
		b.want("batch/1/5", cluster.Complete)

		b.apply(full(2, wanted(web, nil)))
		if got := b.set.Strays(); !slices.Equal(got, []cluster.TaskID{"web/2/5"}) {
			t.Errorf("while it stops, the strays are %v", got)
		}
		if got := b.status("web/2/5"); got.State != cluster.ObservedNone {
			t.Errorf("a forgotten task is still reported: %+v", got)
		}
		b.want("batch/1/5", cluster.Complete) // its output may still be asked for
		time.Sleep(4 * time.Second)
		if got := b.set.Strays(); len(got) != 0 {
			t.Errorf("strays are left: %v", got)
		}
		b.want(web, cluster.Running)
		if b.count("web/2/5", sim.Removed) != 1 || b.count(web, sim.StopAsked) != 0 {
			t.Errorf("events: %v", b.events())
		}

		b.apply(Orders{Revision: 3, Remove: []cluster.TaskID{"batch/1/5", web, "not/known/1"}})
		time.Sleep(time.Second)
		if got := b.set.Statuses(); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
		if tasks, revision, err := b.file.Load(); len(tasks) != 0 || revision != 3 || err != nil {
			t.Errorf("on the disk: %v, revision %d, %v", tasks, revision, err)
		}
	})
}

// Of a task that one set of orders names twice, the last word counts.
func TestNamedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, nil)
		a.Start = false
		b.apply(full(1, a, wanted(web, nil)))
		b.want(web, cluster.Running)
		if n := b.count(web, sim.Started); n != 1 {
			t.Errorf("started %d times", n)
		}
		b.apply(full(2, wanted(web, nil), unwanted(wanted(web, nil), -1, cluster.Running)))
		b.want(web, cluster.Stopped)
	})
}

func TestStaleFullSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		a := wanted(web, nil)
		b.apply(full(7, a))
		b.close()
		b.open()
		defer b.close()
		err := b.set.Apply(full(6))
		var stale *StaleError
		if !errors.As(err, &stale) || stale.Have != 7 || stale.Got != 6 {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute)
		b.want(web, cluster.Running)
		b.apply(full(7))
		time.Sleep(time.Second)
		if b.count(web, sim.Ended) != 1 {
			t.Error("a set that is not older was not applied")
		}
	})
}

// TestRestart is about what an agent finds when it starts again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		runs := wanted("runs/1/1", nil)
		ends := wanted("ends/1/1", map[string]string{"run_for": "10s", "exit_code": "4"})
		starts := wanted("starts/1/1", map[string]string{"start_delay": "10s"})
		waits := wanted("waits/1/1", nil)
		waits.Start = false
		b.apply(full(1, runs, ends, starts, waits))
		time.Sleep(5 * time.Second)
		b.close() // while starts is being started
		time.Sleep(10 * time.Second)
		b.open()
		defer b.close()
		b.want("runs/1/1", cluster.Running)
		if got := b.want("ends/1/1", cluster.Failed); got.ExitCode != 4 {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Minute)
		b.want("starts/1/1", cluster.Starting) // not before the server confirms it
		b.want("waits/1/1", cluster.Accepted)
		waits.Start = true
		b.apply(full(2, runs, ends, starts, waits))
		time.Sleep(10 * time.Second)
		b.want("starts/1/1", cluster.Running)
		b.want("waits/1/1", cluster.Running)
		for _, id := range []cluster.TaskID{"runs/1/1", "ends/1/1", "starts/1/1", "waits/1/1"} {
			if n := b.count(id, sim.Started); n != 1 {
				t.Errorf("%s was started %d times", id, n)
			}
		}
	})
}

// Without its file an agent stops what it finds, says so until it has ended, and does not start it again.
func TestStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		a := wanted(web, map[string]string{"stop_delay": "2s"})
		b.apply(full(1, a))
		b.close()
		b.dir = t.TempDir()
		b.open()
		defer b.close()
		if got := b.set.Strays(); !slices.Equal(got, []cluster.TaskID{web}) {
			t.Errorf("strays are %v", got)
		}
		b.apply(full(2, a))
		b.want(web, cluster.Failed)
		feed := b.set.Follow()
		defer feed.Close()
		time.Sleep(3 * time.Second)
		if _, changed := feed.Take(10); !changed {
			t.Error("the end of a stray is not told")
		}
		if got := b.set.Strays(); len(got) != 0 {
			t.Errorf("strays are left: %v", got)
		}
		if b.count(web, sim.Started) != 1 || b.count(web, sim.Removed) != 1 {
			t.Errorf("events: %v", b.events())
		}
	})
}

func TestUnknownDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		a := wanted(web, nil)
		a.Spec.Driver = "docker"
		b.apply(orders(1, a))
		if got := b.want(web, cluster.Rejected); got.Err != `this node has no driver "docker"` {
			t.Errorf("got %+v", got)
		}
		b.apply(Orders{Revision: 2, Remove: []cluster.TaskID{web}})
		if got := b.set.Statuses(); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}

func TestHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		waits := wanted("waits/1/1", nil)
		waits.Start = false
		b.apply(full(1, wanted(web, map[string]string{"stop_delay": "1h"}), wanted("web/2/1", nil), waits,
			wanted("starts/1/1", map[string]string{"start_delay": "1h"})))
		began := time.Now()
		if err := b.set.Halt(t.Context(), 4*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		b.want(web, cluster.Stopped)
		b.want("web/2/1", cluster.Stopped)
		b.want("waits/1/1", cluster.Accepted)
		b.want("starts/1/1", cluster.Starting)
		b.apply(full(2, wanted("web/3/1", nil)))
		time.Sleep(time.Minute)
		if got := b.status("web/3/1"); got.State != cluster.ObservedNone {
			t.Errorf("a halted set takes orders: %+v", got)
		}
	})
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer b.close()
		feed := b.set.Follow()
		defer feed.Close()
		b.apply(full(1, wanted("a/1/1", nil), wanted("a/2/1", nil), wanted("a/3/1", nil)))
		seen := 0
		for range 2 {
			<-feed.Wake()
			got, changed := feed.Take(2)
			if !changed {
				t.Error("nothing changed")
			}
			for _, s := range got {
				if s.State != cluster.Running {
					t.Errorf("not the newest: %+v", s)
				}
			}
			seen += len(got)
		}
		if _, changed := feed.Take(2); seen != 3 || changed {
			t.Errorf("%d statuses, and more: %v", seen, changed)
		}
	})
}

// A driver that runs tasks without holding them to their limits.
type laxDriver struct {
	driver.Driver
	driver.HealthReporter
}

func (d laxDriver) Start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	h, err := d.Driver.Start(ctx, spec)
	h.Unenforced = []string{"memory: no control groups here", "cpu: nor for this"}
	return h, err
}

func TestWhatIsNotEnforcedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.wrap = func(s Store, d driver.Driver) (Store, driver.Driver) {
			return s, laxDriver{d, d.(driver.HealthReporter)}
		}
		b.open()
		defer b.close()
		b.apply(orders(1, wanted(web, nil)))
		const want = "; not enforced here: memory: no control groups here; cpu: nor for this"
		if got := b.want(web, cluster.Running); got.Message != "started"+want {
			t.Errorf("message is %q, want %q", got.Message, "started"+want)
		}
		other := cluster.TaskID("checked/1/6")
		b.apply(orders(2, wanted(web, nil), wanted(other, map[string]string{"healthy_after": "2s"})))
		time.Sleep(4 * time.Second)
		if got := b.want(other, cluster.Running); got.Message != "healthy"+want {
			t.Errorf("message is %q, want %q", got.Message, "healthy"+want)
		}
	})
}

// A driver that reports health by itself, but of this task knows nothing, or cannot say yet.
type silentDriver struct {
	driver.Driver
	err error
}

func (d silentDriver) Health(context.Context, driver.Handle) (driver.Health, error) {
	return driver.Health{}, d.err
}

// A driver that has counted the failures of its own check.
type countingDriver struct{ driver.Driver }

func (countingDriver) Health(context.Context, driver.Handle) (driver.Health, error) {
	return driver.Health{Checked: true, Failed: true, Message: "no answer"}, nil
}

func TestTheDriverCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.wrap = func(s Store, d driver.Driver) (Store, driver.Driver) { return s, countingDriver{d} }
		b.open()
		defer b.close()
		b.apply(orders(1, wanted(web, nil)))
		if got := b.want(web, cluster.Failed); got.Err != "health check failed: no answer" {
			t.Errorf("status is %+v", got)
		}
	})
}

// What the driver does not check the job's own check does, and what it cannot tell yet nobody takes for healthy.
func TestTheDriverDoesNotCheck(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"it does not check": {nil, "starting: no such command: no-such-check"},
		"it cannot say":     {errors.New("the engine is away"), "starting: the engine is away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.wrap = func(s Store, d driver.Driver) (Store, driver.Driver) { return s, silentDriver{d, c.err} }
				b.open()
				defer b.close()
				a := wanted(web, nil)
				a.Spec.Health = &cluster.HealthSpec{Exec: []string{"no-such-check"}, Interval: time.Hour, Timeout: time.Second, Retries: 3}
				b.apply(orders(1, a))
				if got := b.want(web, cluster.Running); got.Healthy || !strings.HasPrefix(got.Message, c.want) {
					t.Errorf("status is %+v", got)
				}
			})
		})
	}
}
