package worker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// TestChaos plays random orders to an agent that dies at random writes, is restarted, and may lose its file: no task is ever started twice, or
// goes back, and once faults end everything is as the server wants it.
func TestChaos(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newChaos(t, seed).play() })
		})
	}
}

type chaos struct {
	*bench
	random *rand.Rand
	death  *death
	server *playServer
	next   cluster.Revision
	last   map[cluster.TaskID]cluster.ObservedState // what was reported with the file as it is
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{
		bench: newBench(t), random: rand.New(rand.NewPCG(seed, 1)), death: &death{died: make(chan struct{})},
		server: &playServer{tasks: make(map[cluster.TaskID]*state.Assignment)}, last: make(map[cluster.TaskID]cluster.ObservedState),
	}
	c.wrap = func(s Store, d driver.Driver) (Store, driver.Driver) {
		return mortalStore{s, c.death}, mortalDriver{d, c.death}
	}
	return c
}

func (c *chaos) play() {
	c.open()
	for range 40 {
		c.order()
		c.fault()
		c.step(time.Duration(c.random.IntN(5000)) * time.Millisecond)
	}
	c.mend()
	for range 8 {
		c.step(10 * time.Second)
	}
	c.check()
	c.close()
}

// order changes what the server wants.
func (c *chaos) order() {
	ids := slices.Sorted(maps.Keys(c.server.tasks))
	switch n := c.random.IntN(10); {
	case n < 5 || len(ids) == 0:
		c.next++
		a := wanted(cluster.NewTaskID("web", "1", c.next), c.script())
		a.Start = c.random.IntN(5) > 0
		c.server.tasks[a.Task] = &a
	case n < 8:
		a := c.server.tasks[ids[c.random.IntN(len(ids))]]
		a.Desired, a.Start = cluster.DesiredShutdown, false
		a.Grace = time.Duration(c.random.IntN(4)-1) * time.Second
	case n < 9:
		a := c.server.tasks[ids[c.random.IntN(len(ids))]]
		a.Start = a.Desired.Wanted()
	default:
		delete(c.server.tasks, ids[c.random.IntN(len(ids))])
	}
}

func (c *chaos) script() map[string]string {
	out := make(map[string]string)
	maybe := func(name, value string) {
		if c.random.IntN(3) == 0 {
			out[name] = value
		}
	}
	maybe("start_delay", fmt.Sprintf("%dms", c.random.IntN(3000)))
	maybe("stop_delay", fmt.Sprintf("%dms", c.random.IntN(6000)))
	maybe("run_for", fmt.Sprintf("%dms", c.random.IntN(8000)))
	maybe("healthy_after", fmt.Sprintf("%dms", c.random.IntN(3000)))
	maybe("exit_code", "3")
	if c.random.IntN(10) == 0 {
		out["unhealthy_after"] = "3s"
	}
	if c.random.IntN(10) == 0 {
		out["reject"] = "no"
	}
	return out
}

// fault may have the agent die at one of its next writes, restart it, or take its file.
func (c *chaos) fault() {
	c.death.mu.Lock()
	defer c.death.mu.Unlock()
	if c.random.IntN(3) == 0 && c.death.at <= c.death.n {
		c.death.at, c.death.after = c.death.n+1+c.random.IntN(4), c.random.IntN(2) == 0
	}
}

// mend ends all faults and lets everything start.
func (c *chaos) mend() {
	c.death.mu.Lock()
	c.death.at = 0
	c.death.mu.Unlock()
	for _, a := range c.server.tasks {
		a.Start = a.Desired.Wanted()
	}
}

// step tells the agent what is wanted and lets time pass; if it died meanwhile, or is restarted, it is there again afterwards.
func (c *chaos) step(pass time.Duration) {
	c.t.Helper()
	if err := c.server.tell(c.set); err != nil && !errors.Is(err, errKilled) {
		c.t.Fatal(err)
	}
	time.Sleep(pass)
	synctest.Wait()
	c.death.mu.Lock()
	dead := c.death.dead
	c.death.mu.Unlock()
	if dead || c.random.IntN(8) == 0 {
		c.close()
		c.death.mu.Lock()
		c.death.dead, c.death.at, c.death.died = false, 0, make(chan struct{})
		c.death.mu.Unlock()
		if c.random.IntN(6) == 0 {
			if err := os.Remove(filepath.Join(c.dir, state.Name)); err != nil {
				c.t.Fatal(err)
			}
			clear(c.last)
		}
		time.Sleep(time.Second)
		c.open()
	}
	for _, s := range c.set.Statuses() {
		if s.State < c.last[s.Task] && s.State != cluster.Starting {
			c.t.Errorf("%s went back from %s to %s", s.Task, c.last[s.Task], s.State)
		}
		c.last[s.Task] = max(c.last[s.Task], s.State)
	}
	c.server.hear(c.set)
}

// check compares what runs with what the server wants.
func (c *chaos) check() {
	c.t.Helper()
	starts, runs, kept := make(map[string]int), make(map[string]bool), make(map[string]bool)
	for _, e := range c.events() {
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
			c.t.Errorf("%s was started %d times", id, n)
		}
	}
	for id := range kept {
		if c.server.tasks[cluster.TaskID(id)] == nil {
			c.t.Errorf("%s has no record at the server, and is kept here", id)
		}
	}
	for id := range runs {
		if a := c.server.tasks[cluster.TaskID(id)]; a == nil || !a.Desired.Wanted() || a.Observed != cluster.Running {
			c.t.Errorf("%s runs, and the server has it as %+v", id, a)
		}
	}
	for id, a := range c.server.tasks {
		if !a.Observed.Terminal() && !runs[string(id)] {
			c.t.Errorf("%s does not run, and the server has it as %s, wanted at %s", id, a.Observed, a.Desired)
		}
	}
	if got := c.set.Strays(); len(got) != 0 {
		c.t.Errorf("strays are left: %v", got)
	}
}
