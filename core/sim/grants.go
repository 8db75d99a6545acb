package sim

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ignored reports whether a filter is away that is not waited for, so that what it has not judged is allowed.
func (w *World) ignored() bool {
	return slices.ContainsFunc(w.plugins, func(p *Plugin) bool { return p.Dead && p.Open && p.def.Filter != nil })
}

// quiet reports whether all plugins have answered all that they were told.
func (w *World) quiet() bool {
	return !slices.ContainsFunc(w.plugins, func(p *Plugin) bool { return p.Dead || len(p.queue) > 0 || p.owes || w.real-p.started < 4*Tick })
}

// checkGrants checks what tasks were given that were placed in a turn: the lowest addresses that were free, and a node that no other node is preferred to which
// could take it as well.
func (w *World) checkGrants(t engine.Turn) {
	claims := slices.ContainsFunc(allSlots(t.State), func(s *cluster.Slot) bool { return s.Claim != "" })
	for _, c := range t.Changes {
		p, ok := c.Change.(cluster.SetPlacement)
		if !ok {
			continue
		}
		x := t.State.Task(p.Task)
		if x == nil || x.Dead() {
			continue
		}
		w.checkLowest(t.State, x)
		if !claims && w.quiet() {
			w.checkWelcome(t.State, x)
		}
	}
}

// checkLowest checks that no address is free that is lower than one that a task was given just now.
func (w *World) checkLowest(st *engine.State, x *cluster.Task) {
	for _, g := range x.Placement.Addresses {
		i := slices.IndexFunc(w.cfg.Pools, func(p engine.Pool) bool { return p.Name == g.Pool })
		if i < 0 {
			w.failf("pool: %s was given %s of pool %s, which there is not", x.ID, g.Address, g.Pool)
			return
		}
		got := netip.MustParseAddr(g.Address)
		held := map[string]bool{}
		for t := range st.Tasks() {
			for _, h := range t.Placement.Addresses {
				held[h.Address] = held[h.Address] || h.Pool == g.Pool && !t.Dead()
			}
		}
		for a := netip.MustParsePrefix(w.cfg.Pools[i].CIDR).Addr().Next(); a.Less(got); a = a.Next() {
			if !held[a.String()] {
				w.failf("pool: %s was given %s, and %s is free", x.ID, g.Address, a)
			}
		}
	}
}

// checkWelcome checks that a task could not have been placed on a node where filters say that it is more welcome.
func (w *World) checkWelcome(st *engine.State, x *cluster.Task) {
	here, any := w.rank(st, x.Job, x.Placement.Node)
	if j := st.Job(x.Job); !any || x.Avoid != "" || w.now.Sub(j.Control.Changed) < 4*Tick {
		return
	}
	w.looked("ranks")
	_, fits := w.truth(st, wishOf(x), map[cluster.TaskID]bool{x.ID: true})
	for _, id := range fits {
		if there, _ := w.rank(st, x.Job, id); there > here && w.fitsBeside(st, x, id) {
			w.failf("rank: %s was placed on %s (rank %d), and would have been more welcome on %s (rank %d)", x.ID, x.Placement.Node, here, id, there)
		}
	}
}

// fitsBeside reports whether a task that was placed elsewhere fits on a node with all that it was given left where it is.
func (w *World) fitsBeside(st *engine.State, x *cluster.Task, id cluster.NodeID) bool {
	return slices.Contains(func() []cluster.NodeID {
		need := wishOf(x)
		need.need.Addresses = nil // it holds them already
		_, fits := w.truth(st, need, nil)
		return fits
	}(), id)
}

// rank adds up what filters say of how welcome a job's tasks are on a node. any reports whether some filter says anything of that.
func (w *World) rank(st *engine.State, job string, node cluster.NodeID) (sum int, any bool) {
	j := st.Job(job)
	if j == nil {
		return 0, false
	}
	s := &j.Control.Spec
	for _, p := range w.plugins {
		if p.def.Filter == nil {
			continue
		}
		m, err := p.def.Filter.Compile(context.Background(), sdk.CompileRequest{JobType: s.Type, Labels: s.Labels, Settings: sdk.Settings(s.Settings(p.def.Name))})
		if r, ok := m.(sdk.Ranker); err == nil && ok {
			sum, any = sum+max(-100, min(100, r.Rank(st.Node(node)))), true
		}
	}
	return sum, any
}

// checkRate checks that the tasks of no two nodes may be replaced within the time that the limit says.
func (w *World) checkRate(t engine.Turn) {
	every := w.cfg.ReplaceEvery
	if every == 0 {
		return
	}
	for n := range t.State.Nodes() {
		if old := t.Before.Node(n.ID); old == nil || n.Status.State != cluster.NodeDown || old.Status.State == cluster.NodeDown {
			continue
		}
		w.looked("limited losses")
		for m := range t.State.Nodes() {
			if apart := n.Status.Replace.Sub(m.Status.Replace).Abs(); m.ID != n.ID && !m.Status.Replace.IsZero() && apart < every {
				w.failf("rate: the tasks of %s and %s may be replaced within %s, and the limit is %s", n.Spec.Name, m.Spec.Name, apart, every)
			}
		}
	}
}

// checkRebalances checks that no rebalance moves more tasks than the job has slots.
func (w *World) checkRebalances(t engine.Turn) {
	for _, c := range t.Changes {
		r, ok := c.Change.(cluster.SetRebalance)
		if !ok {
			continue
		}
		if n := max(len(t.State.Slots(r.Job)), len(t.Before.Slots(r.Job))); r.Rebalance.Moved > n {
			w.failf("rebalance: %d tasks of %s have moved, and it has %d slots", r.Rebalance.Moved, r.Job, n)
		}
	}
}

// settledRebalance returns what is wrong with a rebalance that had time to end: one that goes on has to wait for something that says so.
func (w *World) settledRebalance(st *engine.State, j *cluster.Job) []string {
	if !j.Rebalancing() || j.Update.State == cluster.UpdatePaused {
		return nil
	}
	for s := range st.Stalls() {
		if id := s.Subject.ID; id == j.Name || strings.HasPrefix(id, j.Name+"/") || strings.HasPrefix(id, j.Name+"@") {
			return nil
		}
	}
	return []string{fmt.Sprintf("the rebalance of %s goes on and waits for nothing: %+v", j.Name, j.Rebalance)}
}

// seen counts what happened in a turn.
func (w *World) seen(t engine.Turn) {
	for _, c := range t.Changes {
		switch c := c.Change.(type) {
		case cluster.PutStall:
			w.looked("stall " + string(c.Stall.Code))
		case cluster.SetUpdate:
			w.looked("update " + string(c.Update.State))
		case cluster.SetRebalance:
			w.looked(fmt.Sprintf("rebalance ended %v", c.Rebalance.Ended))
		case cluster.SetNodeStatus:
			w.looked("node " + string(c.Status.State))
		case cluster.SetDrain:
			w.looked("drain " + cmp.Or(string(c.Drain.State), "over"))
		case cluster.SetObserved:
			w.looked("observed " + c.Observed.State.String())
		case cluster.SetCondition:
			w.looked("condition " + string(c.Condition.State))
		}
	}
}
