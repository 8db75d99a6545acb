package bench

import "time"

// Soon is within which what nothing stands in the way of has happened.
const Soon = 5 * time.Second

const lookEvery = 100 * time.Millisecond

// Until looks again and again until it is so, and returns how long that took. If it is not so within the limit the test ends with what was seen last.
func (c *Cluster) Until(limit time.Duration, what string, look func() (ok bool, seen any)) time.Duration {
	c.t.Helper()
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ok, seen := look()
		took := time.Since(began)
		if ok {
			return took
		}
		if took > limit {
			c.t.Fatalf("not within %s: %s; seen last: %+v", limit, what, seen)
		}
		<-tick.C
	}
}

// During looks again and again as long as the time lasts, and ends the test when it is not so.
func (c *Cluster) During(long time.Duration, what string, look func() (ok bool, seen any)) {
	c.t.Helper()
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for time.Since(began) < long {
		if ok, seen := look(); !ok {
			c.t.Fatalf("not so after %s: %s; seen: %+v", time.Since(began).Round(time.Millisecond), what, seen)
		}
		<-tick.C
	}
}

// Pass lets time pass.
func (c *Cluster) Pass(long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	<-timer.C
}

// RunningCount waits until so many tasks of a job run.
func (c *Cluster) RunningCount(limit time.Duration, job string, count int) time.Duration {
	c.t.Helper()
	return c.Until(limit, "tasks of "+job+" run", func() (bool, any) {
		running := c.Running(job)
		return len(running) == count, len(running)
	})
}

// Stall waits until a job has exactly one stall of a code on its tasks, slots or itself, and returns it.
func (c *Cluster) Stall(limit time.Duration, job, code string) Stall {
	c.t.Helper()
	var found Stall
	c.Until(limit, job+" has a stall "+code, func() (bool, any) {
		stalls := c.Stalls(job)
		for _, s := range stalls {
			if s.Code == code {
				found = s
				return true, nil
			}
		}
		return false, stalls
	})
	return found
}

// NoStall waits until a job has no stall.
func (c *Cluster) NoStall(limit time.Duration, job string) time.Duration {
	c.t.Helper()
	return c.Until(limit, job+" has no stall", func() (bool, any) {
		stalls := c.Stalls(job)
		return len(stalls) == 0, stalls
	})
}

// NodeState waits until a node is in a state.
func (c *Cluster) NodeState(limit time.Duration, name, state string) time.Duration {
	c.t.Helper()
	return c.Until(limit, name+" is "+state, func() (bool, any) {
		n := c.Node(name)
		return n.State == state, n.State
	})
}

func (c *Cluster) awaitReady(names ...string) {
	c.t.Helper()
	c.Until(20*time.Second, "all nodes are ready", func() (bool, any) {
		states := map[string]string{}
		for _, n := range c.Nodes() {
			if !n.Decommissioned {
				states[n.Name] = n.State
			}
		}
		for _, name := range names {
			if states[name] != "ready" {
				return false, states
			}
		}
		return true, nil
	})
}
