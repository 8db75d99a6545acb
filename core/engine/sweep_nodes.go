package engine

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// sweepNode looks at the next node: whether what is noted to be taken there is what its tasks take. It returns what that has cost.
func (e *Engine) sweepNode(now cluster.Time) (cost int) {
	s := &e.sweep
	if int(s.node) >= len(e.byIndex) {
		e.sweepPools()
		s.part++
		return 1
	}
	i := s.node
	s.node++
	n := e.nodeAt(i)
	if n == nil {
		return 1
	}
	tasks := e.sumUp(n, now)
	e.sweepUse(i, n)
	e.sweepPlaces(i, n)
	if r := reconcile.Node(view{e.work, e, s.read}, n.ID, now); len(r.Changes) > 0 {
		e.catch(MissedDecision, "node "+string(n.ID), "%s", inShort(r.Changes[0]))
		e.dirtyNodes[n.ID] = true
	}
	return 1 + tasks/tasksPerLook
}

// sumUp adds up what the tasks of a node take, and has what is left of removed jobs decided about again. It returns how many tasks there are.
func (e *Engine) sumUp(n *cluster.Node, now cluster.Time) (tasks int) {
	s := &e.sweep
	if s.use.PerJob == nil {
		s.use.PerJob, s.use.Ports = map[string]int{}, map[uint16]cluster.TaskID{}
	}
	clear(s.use.PerJob)
	clear(s.use.Ports)
	s.use.Free, s.use.Tasks = n.Description.Capacity, 0
	var removed []string
	last, left := "", false
	for x := range e.work.tasksOn(n.ID) {
		tasks++
		job, slot, node := x.place()
		if job != last {
			last, left = job, e.work.Job(job) == nil
			if left {
				removed = append(removed, job)
			}
		}
		if left {
			e.wakeSlot(job, slot)
		}
		if node != n.ID {
			e.catch(MissedCount, "task "+string(x.id), "it is listed on %s, and is on %s", n.ID, node)
			e.reindex()
			return tasks
		}
		if x.dead() {
			continue
		}
		x.into(&s.task)
		t := &s.task
		s.use.Tasks++
		s.use.PerJob[t.Job]++
		s.use.Free = s.use.Free.Sub(t.Reserve.Resources)
		for _, p := range t.Placement.Ports {
			s.use.Ports[p.Number] = t.ID
		}
		e.sweepAddresses(t)
	}
	for _, job := range removed {
		e.decideAgain(job, now)
	}
	return tasks
}

// sweepUse compares what the ledger says to be taken on a node with what was summed up.
func (e *Engine) sweepUse(i uint32, n *cluster.Node) {
	l, is := e.ledger.nodes[i], &e.sweep.use
	if l == nil {
		e.catch(MissedUse, "node "+string(n.ID), "nothing is noted of it")
		e.ledger.describe(i, n)
		l = e.ledger.nodes[i]
	}
	if l.Tasks == is.Tasks && l.Free.Equal(is.Free) && maps.Equal(l.PerJob, is.PerJob) && maps.Equal(l.Ports, is.Ports) {
		return
	}
	e.catch(MissedUse, "node "+string(n.ID), "noted are %d tasks and %+v free, and it has %d tasks and %+v free", l.Tasks, l.Free, is.Tasks, is.Free)
	for job, tasks := range l.PerJob {
		e.ledger.tally(job, -tasks)
	}
	l.Tasks, l.Free, l.PerJob, l.Ports = is.Tasks, is.Free, maps.Clone(is.PerJob), maps.Clone(is.Ports)
	for job, tasks := range l.PerJob {
		e.ledger.tally(job, tasks)
	}
	e.ledger.reopen(i)
	e.changedNodes[i] = true
}

// sweepPlaces looks at what else decides whether something is placed on a node.
func (e *Engine) sweepPlaces(i uint32, n *cluster.Node) {
	l, a := e.ledger.nodes[i], e.agents[n.ID]
	wrong := ""
	switch {
	case l.Node != n:
		wrong = "what is known of it is older than its record"
	case l.Takes() != e.ledger.open.Get(int(i)):
		wrong = fmt.Sprintf("it may take something: %t, and it is listed the other way round", l.Takes())
	case l.Blocked != a.blocked():
		wrong = fmt.Sprintf("it is kept free because %q, and should be because %q", l.Blocked, a.blocked())
	case e.ledger.abilities.Describe(int(i), n):
		wrong = "what it can do was another"
	}
	if wrong != "" {
		e.catch(MissedUse, "node "+string(n.ID), "%s", wrong)
		e.ledger.describe(i, n)
		l.Blocked = a.blocked()
		e.ledger.reopen(i)
		e.ableChanged(i)
		e.changedNodes[i] = true
	}
	if id, ok := e.work.names.Get(n.Spec.Name); !n.Spec.Decommissioned && (!ok || id != n.ID) {
		e.catch(MissedCount, "node "+string(n.ID), "it is called %s, and that name is given as that of %q", n.Spec.Name, id)
		e.work.names.Set(n.Spec.Name, n.ID)
	}
}

// sweepAddresses looks at whether the addresses that a task was given are noted as taken by it.
func (e *Engine) sweepAddresses(t *cluster.Task) {
	for _, g := range t.Placement.Addresses {
		if p, a := e.poolOf(g); p != nil && p.Taken[a] != t.ID {
			e.catch(MissedUse, "task "+string(t.ID), "it has address %s of pool %s, which is noted as that of %q", g.Address, g.Pool, p.Taken[a])
			p.Taken[a] = t.ID
		}
	}
}

// sweepPools looks at whether each address that is noted as taken is.
func (e *Engine) sweepPools() {
	for _, name := range slices.Sorted(maps.Keys(e.pools)) {
		p := e.pools[name]
		free := func(a netip.Addr) bool {
			t := e.work.Task(p.Taken[a])
			return !reserves(t) || !slices.ContainsFunc(t.Placement.Addresses, func(g cluster.AddressGrant) bool { return g.Pool == name && g.Address == a.String() })
		}
		var kept []netip.Addr
		for a := range p.Taken {
			if free(a) {
				kept = append(kept, a)
			}
		}
		slices.SortFunc(kept, netip.Addr.Compare)
		for _, a := range kept {
			e.catch(MissedUse, "pool "+name, "address %s is noted as that of %s, which does not have it", a, p.Taken[a])
			e.freeAddress(p, a)
		}
	}
}

// freeAddress gives an address back that nobody has.
func (e *Engine) freeAddress(p *place.Pool, a netip.Addr) {
	delete(p.Taken, a)
	e.poolsChanged([]cluster.Address{{Pool: p.Name}})
}
