package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

const year = 365 * 24 * time.Hour

// The server's clock jumps, and nothing of what it decides does: silence, delays, windows and what waits go by the time that passes.
func Test08EClockJumps(t *testing.T) {
	config := ""
	for _, name := range []string{"constraint", "drain", "global"} { // confined, they could not read the clock that the server has
		config += fmt.Sprintf("plugin %q {\n  sandbox = \"off\"\n}\n", name)
	}
	// V6 goes by the times of events, which are those of the clock that is wrong.
	c := start(t, bench.Options{Nodes: bench.Ns(3), Clocked: programs.Clocked(t), Config: config, Unchecked: []string{"V6"}})
	delay, hold := scaled(4*time.Second, 10*time.Second), scaled(5*time.Second, 10*time.Second)
	c.RunJobsWait(20*time.Second, bench.Job{Name: "web", Count: 9})
	c.RunJobs(
		bench.Job{Name: "waits", Constraints: []string{"node.labels.none == 1"}},
		bench.Job{Name: "used", Sim: crash("100ms"), More: "restart {\n delay = \"300ms\"\n max_delay = \"300ms\"\n attempts = 2\n window = \"2h\"\n}"})
	waiting := c.Stall(bench.Soon, "waits", "constraint")
	c.Stall(10*time.Second, "used", "restart_budget_used")
	began := c.Status().Revision

	for i, by := range []time.Duration{2 * year, 0, time.Hour, -time.Hour, 0} {
		name := fmt.Sprintf("crash%d", i)
		runFor := 1500 * time.Millisecond
		c.RunJobs(bench.Job{
			Name: name, Sim: crash(runFor.String()), More: fmt.Sprintf("restart {\n delay = %q\n max_delay = %q\n}", delay, delay),
		})
		c.Until(bench.Soon, name+" has ended", func() (bool, any) {
			lives := c.Lives(name)
			return len(lives) == 1 && time.Now().After(lives[0].Ended.Add(300*time.Millisecond)), lives
		})
		c.ShiftClock(by)
		c.During(hold, fmt.Sprintf("nothing comes of a clock that is wrong by %s", by), func() (bool, any) {
			ready, stalls := c.Ready(), c.StallsNow("waits")
			if len(stalls) != 1 || !stalls[0].GetSince().AsTime().Equal(waiting.Since) {
				t.Fatalf("it waits since %s, and is said to since %v", waiting.Since, stalls)
			}
			if used := c.StallsNow("used"); len(used) != 1 || used[0].GetCode() != "restart_budget_used" || len(c.Lives("used")) != 3 {
				t.Fatalf("the budget was used up for two hours: %v", used)
			}
			return ready == 3, ready
		})
		untouched(t, c, "web", 9)
		lives := c.Lives(name)
		if len(lives) < 2 {
			t.Fatalf("%s was not started again: %+v", name, lives)
		}
		if gap := lives[1].Started.Sub(lives[0].Ended); gap < delay*8/10 || gap > delay*13/10 {
			t.Errorf("with the clock at %s it was started again after %s; the delay is %s", by, gap, delay)
		}
		c.ShiftClock(0)
		c.RemoveJob(name)
	}

	// What happened is known still, and records are kept.
	if events := c.EventsFrom(began, ""); len(events) < 10 {
		t.Errorf("%d events are left", len(events))
	}
	if n := len(c.AllTasks("used")); n != 3 {
		t.Errorf("%d records of used are left", n)
	}
	// Who comes while the clock is wrong gets in as soon as it is right; and so does everybody after a server that started with a wrong clock.
	for _, by := range []time.Duration{2 * year, -2 * year} {
		c.ShiftClock(by)
		c.KillServer()
		c.Agent("n1").Kill()
		c.LaunchServer()
		c.Agent("n1").Restart()
		c.Pass(scaled(3*time.Second, 10*time.Second))
		c.ShiftClock(0)
		c.AwaitServer()
		took := c.Until(70*time.Second, "all nodes are ready", func() (bool, any) { n := c.Nodes(); return c.Ready() == 3, n })
		t.Logf("after a start at %s all were ready %s after the clock was right", by, took)
		c.Until(bench.Soon, "all run", func() (bool, any) { n := len(c.Running("web")); return n == 9 && len(c.Alive("web")) == 9, n })
	}
	untouched(t, c, "web", 9)
	c.RunJobsWait(10*time.Second, bench.Job{Name: "new"})
}

// An agent whose clock is somewhat wrong joins; one whose clock is far from right says so, with both times.
func Test08FAnAgentsClockIsWrong(t *testing.T) {
	c := start(t, bench.Options{Nodes: bench.Ns(1), Clocked: programs.Clocked(t)})
	ready := 2
	for name, behind := range map[string]time.Duration{"late": 10 * time.Minute, "early": -10 * time.Minute} {
		c.JoinLate(bench.N(name), behind)
		c.Until(10*time.Second, name+" is ready", func() (bool, any) { nodes := c.Nodes(); return c.Ready() == ready, nodes })
		ready++
		c.RunJobsWait(10*time.Second, bench.Job{Name: "on-" + name, Constraints: []string{"node.name == " + name}})
	}
	far := c.JoinLate(bench.N("far"), 26*time.Hour)
	theirs, ours := time.Now().Add(-26*time.Hour).UTC().Format("2006-01-02T15"), time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15")
	c.Until(10*time.Second, "the agent says what its clock shows and what is right", func() (bool, any) {
		log := far.Log()
		return strings.Contains(log, theirs) && strings.Contains(log, ours), log
	})
	for _, n := range c.Nodes() {
		if n.Name == "far" {
			t.Errorf("it has joined: %+v", n)
		}
	}
}
