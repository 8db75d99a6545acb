package engine

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// cluster is the nodes as place sees them, with the room that is kept for slots that an update emptied.
func (e *Engine) cluster() place.Cluster {
	c := e.ledger.cluster()
	c.Pools = e.pools
	for _, id := range slices.Sorted(maps.Keys(e.claims)) {
		if s := e.claims[id]; s != nil {
			if claim, ok := e.claim(s, s.Claim, nil); ok {
				c.Claims = append(c.Claims, claim)
			}
		}
	}
	return c
}

// claim is the room that is kept for a slot, unless its next task has a node already or the node takes nothing new.
func (e *Engine) claim(s *cluster.Slot, node cluster.NodeID, leaving *cluster.Task) (place.Claim, bool) {
	i, ok := e.index[node]
	j := e.work.Job(s.Job)
	if n := e.work.Node(node); !ok || j == nil || n == nil || !n.Usable() {
		return place.Claim{}, false
	}
	v := j.VersionOf(s.Version)
	if v == nil {
		return place.Claim{}, false
	}
	out := place.Claim{Job: s.Job, Slot: s.Key, Node: int(i), Reserve: reserveOf(&v.Spec)}
	if leaving != nil {
		if leaving.Placement.Node == node {
			out.Old = leaving
		}
		return out, true
	}
	for _, t := range e.work.SlotTasks(s.Job, s.Key) {
		switch {
		case !t.Placed() || t.Dead():
		case t.Desired.State.Wanted():
			return place.Claim{}, false
		case t.Placement.Node == node:
			out.Old = t
		}
	}
	return out, true
}

func reserveOf(s *cluster.JobSpec) cluster.Reserve {
	return cluster.Reserve{Resources: s.Task.Resources, Ports: s.Task.Ports, Addresses: s.Task.Addresses, MaxPerNode: s.MaxPerNode}
}

// Fits says whether one more task of a job's newest version would find room for a slot, for reconcile.
func (v view) Fits(job *cluster.Job, slot *cluster.Slot, leaving *cluster.Task, also []reconcile.Claim) reconcile.Fit {
	e := v.e
	c := e.withClaims(job, also)
	g := e.groupOf(job.Name, slot.Nodes, reserveOf(&job.Control.Spec), job.Control.Version)
	var freed []place.Use
	if leaving != nil {
		if i, ok := e.index[leaving.Placement.Node]; ok {
			freed = append(freed, place.UseOf(int(i), leaving))
		}
	}
	if i, ok := place.Fit(c, g, freed); ok {
		return reconcile.Fit{Node: e.byIndex[i]}
	}
	c = without(c, leaving, freed)
	st := place.Stand(c, g)
	details := place.Describe(c, g)
	return reconcile.Fit{Code: st.Code(), Why: place.Sentence(st.Facts(), details), Clears: details.Clears}
}

// withClaims is the cluster with the room that a decision under way keeps, besides what is kept already.
func (e *Engine) withClaims(job *cluster.Job, also []reconcile.Claim) place.Cluster {
	c := e.cluster()
	for _, x := range also {
		next := *x.Slot
		next.Version = job.Control.Version
		if claim, ok := e.claim(&next, x.Node, x.Leaving); ok {
			c.Claims = append(c.Claims, claim)
		}
	}
	return c
}

// Better says where a task of a job's newest version would be placed rather than where it is, for reconcile.
func (v view) Better(job *cluster.Job, slot *cluster.Slot, t *cluster.Task, also []reconcile.Claim, leaving map[cluster.NodeID]int) cluster.NodeID {
	e := v.e
	from, ok := e.index[t.Placement.Node]
	if !ok {
		return ""
	}
	c := e.withClaims(job, also)
	if len(leaving) > 0 {
		c.Nodes = slices.Clone(c.Nodes)
	}
	for id, count := range leaving {
		if i, ok := e.index[id]; ok && int(i) < len(c.Nodes) && c.Nodes[i] != nil {
			n := *c.Nodes[i]
			n.PerJob = maps.Clone(n.PerJob)
			n.PerJob[job.Name] -= count
			c.Nodes[i] = &n
		}
	}
	g := e.groupOf(job.Name, slot.Nodes, reserveOf(&job.Control.Spec), job.Control.Version)
	if i, ok := place.Better(c, g, place.UseOf(int(from), t)); ok {
		return e.byIndex[i]
	}
	return ""
}

// without is a cluster in which a task has given back what it takes.
func without(c place.Cluster, t *cluster.Task, freed []place.Use) place.Cluster {
	if t == nil || len(freed) == 0 {
		return c
	}
	i := freed[0].Node
	n := *c.Nodes[i]
	n.Free = n.Free.Add(t.Reserve.Resources)
	n.Tasks--
	n.PerJob, n.Ports = maps.Clone(n.PerJob), maps.Clone(n.Ports)
	n.PerJob[t.Job]--
	for _, p := range t.Placement.Ports {
		delete(n.Ports, p.Number)
	}
	c.Nodes = slices.Clone(c.Nodes)
	c.Nodes[i] = &n
	c.Pools = maps.Clone(c.Pools)
	for name, p := range c.Pools {
		left := *p
		left.Taken = maps.Clone(p.Taken)
		maps.DeleteFunc(left.Taken, func(_ netip.Addr, holder cluster.TaskID) bool { return holder == t.ID })
		c.Pools[name] = &left
	}
	return c
}

// groupOf is what is placed together, as place sees it, without its tasks: those of a version of a job.
func (e *Engine) groupOf(job string, nodes []cluster.NodeID, reserve cluster.Reserve, version uint64) place.Group {
	out := place.Group{Key: job, Job: job, Reserve: reserve, Filters: e.filters(job)}
	if len(nodes) > 0 {
		out.Nodes = []int{}
		for _, id := range nodes {
			if i, ok := e.index[id]; ok {
				out.Nodes = append(out.Nodes, int(i))
			}
		}
	}
	if j := e.work.Job(job); j != nil {
		if v := j.VersionOf(version); v != nil {
			out.Filters = append(e.ledger.abilities.Filters(&v.Spec.Task), out.Filters...)
		}
		spec := j.Control.Spec
		spec.Strategy = cmp.Or(spec.Strategy, e.cfg.Strategy)
		out.Spec, out.Priority = &spec, spec.Priority
		// Nobody but place enforces the limit, so the job's present one counts, not the one at a task's creation.
		out.Reserve.MaxPerNode = spec.MaxPerNode
	}
	return out
}
