package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

var errKilled = errors.New("the agent was killed")

// death kills an agent at one of its writes: from then on it has no effect on anything any more.
type death struct {
	mu    sync.Mutex // guards what follows
	at    int        // the write at which it dies, counting from 1; 0: it lives
	after bool       // the write takes place
	n     int        // writes so far
	dead  bool
	died  chan struct{}
}

// mortalStore is a store whose agent may die.
type mortalStore struct {
	Store
	death *death
}

func (m mortalStore) Commit(b state.Batch) error {
	d := m.death
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errKilled
	}
	d.n++
	if d.n == d.at {
		if d.after {
			if err := m.Store.Commit(b); err != nil {
				return err
			}
		}
		d.dead = true
		close(d.died)
		return errKilled
	}
	return m.Store.Commit(b)
}

// mortalDriver is a driver whose agent may die; what it had begun before is done or not, as it happens to be.
type mortalDriver struct {
	driver.Driver
	death *death
}

func (m mortalDriver) alive() error {
	m.death.mu.Lock()
	defer m.death.mu.Unlock()
	if m.death.dead {
		return errKilled
	}
	return nil
}

func (m mortalDriver) Start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	if err := m.alive(); err != nil {
		return driver.Handle{}, err
	}
	return m.Driver.Start(ctx, spec)
}

func (m mortalDriver) Stop(ctx context.Context, h driver.Handle, req driver.StopRequest) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Driver.Stop(ctx, h, req)
}

func (m mortalDriver) Remove(ctx context.Context, h driver.Handle) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Driver.Remove(ctx, h)
}

// playServer remembers of each task what a server would: the last that was observed.
type playServer struct {
	revision cluster.Revision
	tasks    map[cluster.TaskID]*state.Assignment
}

// hear takes the agent's full report: a task once observed and not named has failed.
func (p *playServer) hear(set *Set) {
	named := make(map[cluster.TaskID]bool)
	for _, s := range set.Statuses() {
		named[s.Task] = true
		if a := p.tasks[s.Task]; a != nil {
			a.Observed = max(a.Observed, s.State)
		}
	}
	for id, a := range p.tasks {
		if !named[id] && a.Observed != cluster.ObservedNone && !a.Observed.Terminal() {
			a.Observed = cluster.Failed
		}
	}
}

// tell gives the agent the full set, and what it knows and has no record any more.
func (p *playServer) tell(set *Set) error {
	p.revision++
	o := Orders{Revision: p.revision, Full: true}
	for _, a := range p.tasks {
		if !a.Observed.Terminal() {
			o.Assignments = append(o.Assignments, *a)
		}
	}
	if err := set.Apply(o); err != nil {
		return err
	}
	var gone []cluster.TaskID
	for _, s := range set.Statuses() {
		if p.tasks[s.Task] == nil {
			gone = append(gone, s.Task)
		}
	}
	return set.Apply(Orders{Revision: p.revision, Remove: gone})
}

// TestKilledAtEveryWrite plays a script, kills the agent at one of its writes, and starts it again: nothing is started twice, nothing runs that
// has no record, and in the end everything is as the server wants it.
func TestKilledAtEveryWrite(t *testing.T) {
	writes := 0
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			t.Run(fmt.Sprintf("write %d after %v", at, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { reached = playAndDie(t, at, after) })
			})
			if !reached {
				writes = at - 1
				break
			}
		}
	}
	if writes < 15 {
		t.Errorf("the script has only %d writes", writes)
	}
}

// playAndDie reports whether the agent came to the write at which it is to die.
func playAndDie(t *testing.T, at int, after bool) bool {
	d := &death{at: at, after: after, died: make(chan struct{})}
	b := newBench(t)
	b.wrap = func(s Store, drv driver.Driver) (Store, driver.Driver) {
		return mortalStore{s, d}, mortalDriver{drv, d}
	}
	b.open()
	server := &playServer{tasks: make(map[cluster.TaskID]*state.Assignment)}
	// alive lets time pass and the agent report. When it has died it is started again, and the step is played once more.
	alive := func(pass time.Duration, change func()) {
		t.Helper()
		for range 2 {
			change()
			err := server.tell(b.set)
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			time.Sleep(pass)
			synctest.Wait()
			d.mu.Lock()
			dead := d.dead
			d.mu.Unlock()
			if !dead {
				server.hear(b.set)
				return
			}
			b.close()
			d.mu.Lock()
			d.dead = false
			d.mu.Unlock()
			time.Sleep(time.Second)
			b.open()
			server.hear(b.set)
		}
	}
	add := func(id cluster.TaskID, settings map[string]string) {
		if server.tasks[id] == nil {
			a := wanted(id, settings)
			server.tasks[id] = &a
		}
	}
	shut := func(id cluster.TaskID) {
		if a := server.tasks[id]; a != nil {
			a.Desired, a.Grace, a.Start = cluster.DesiredShutdown, 2*time.Second, false
		}
	}
	alive(2*time.Second, func() {
		add("keep/1/1", nil)
		add("slow/1/1", map[string]string{"start_delay": "5s"})
		add("batch/1/1", map[string]string{"run_for": "3s"})
	})
	alive(2*time.Second, func() {
		add("stop/1/2", map[string]string{"stop_delay": "1s"})
		add("never/1/2", map[string]string{"start_delay": "1h"})
		add("bad/1/2", map[string]string{"reject": "no"})
	})
	alive(5*time.Second, func() { shut("stop/1/2"); shut("never/1/2") })
	alive(5*time.Second, func() {
		delete(server.tasks, "batch/1/1")
		delete(server.tasks, "stop/1/2")
		delete(server.tasks, "slow/1/1") // while it runs
	})
	alive(15*time.Second, func() {})
	checkEnd(t, b, server)
	b.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n >= at
}

func checkEnd(t *testing.T, b *bench, server *playServer) {
	t.Helper()
	starts, runs, kept := make(map[string]int), make(map[string]bool), make(map[string]bool)
	for _, e := range b.events() {
		switch e.Kind {
		case sim.Started:
			starts[e.TaskID]++
			runs[e.TaskID], kept[e.TaskID] = true, true
		case sim.Ended:
			delete(runs, e.TaskID)
		case sim.Removed:
			delete(kept, e.TaskID)
		case sim.StopAsked, sim.Rejected:
		}
	}
	for id, n := range starts {
		if n != 1 {
			t.Errorf("%s was started %d times", id, n)
		}
	}
	if !runs["keep/1/1"] || len(runs) != 1 {
		t.Errorf("running in the end: %v", runs)
	}
	if got := b.status("keep/1/1").State; got != cluster.Running {
		t.Errorf("keep/1/1 is reported as %s", got)
	}
	for _, id := range []cluster.TaskID{"batch/1/1", "stop/1/2", "slow/1/1"} {
		if kept[string(id)] || b.status(id).State != cluster.ObservedNone {
			t.Errorf("%s has no record at the server, and is kept here", id)
		}
	}
	if got := server.tasks["bad/1/2"].Observed; got != cluster.Rejected && got != cluster.Failed {
		t.Errorf("bad/1/2 is %s", got)
	}
	if got := server.tasks["never/1/2"].Observed; got != cluster.Stopped {
		t.Errorf("never/1/2 is %s", got)
	}
	if starts["never/1/2"] != 0 || starts["batch/1/1"] != 1 {
		t.Errorf("starts: %v", starts)
	}
	if got := b.set.Strays(); len(got) != 0 {
		t.Errorf("strays are left: %v", got)
	}
	tasks, _, err := b.file.Load()
	if err != nil || len(tasks) != len(b.set.Statuses()) {
		t.Errorf("%d records, %d tasks, %v", len(tasks), len(b.set.Statuses()), err)
	}
}
