package engine

import (
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// choices says from how many nodes those of placements were chosen, for the record.
type choices struct {
	e      *Engine
	groups map[cluster.TaskID]int // by task, a number into tried
	tried  []place.Group
	counts []int // of allowed nodes by group; -1: not counted yet
}

func newChoices(e *Engine, tried []place.Group) *choices {
	c := &choices{e: e, groups: map[cluster.TaskID]int{}, tried: tried, counts: make([]int, len(tried))}
	for k := range tried {
		c.counts[k] = -1
		for _, t := range tried[k].Tasks {
			c.groups[t.ID] = k
		}
	}
	return c
}

// among is asked before the placement counts.
func (c *choices) among(p place.Placement) cluster.Among {
	k := c.groups[p.Task]
	g := &c.tried[k]
	if c.counts[k] < 0 {
		c.counts[k] = c.allowed(g)
	}
	out := cluster.Among{Nodes: c.e.ledger.count, Allowed: c.counts[k], Beside: c.e.ledger.nodes[p.Node].PerJob[g.Job]}
	for i := range g.Filters {
		if ranks := g.Filters[i].Ranks; p.Node < len(ranks) {
			out.Rank += int(ranks[p.Node])
		}
	}
	return out
}

func (c *choices) allowed(g *place.Group) int {
	in := c.e.ledger.open
	if g.Nodes != nil {
		count := 0
		for _, i := range g.Nodes {
			if in.Get(i) && !slices.ContainsFunc(g.Filters, func(f place.Filter) bool { return !f.Allowed.Get(i) || f.Pending.Get(i) }) {
				count++
			}
		}
		return count
	}
	for i := range g.Filters {
		in = in.And(g.Filters[i].Allowed).AndNot(g.Filters[i].Pending)
	}
	return in.Count()
}
