package engine

import (
	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// choices says from how many nodes those of placements were chosen, for the record.
type choices struct {
	e      *Engine
	groups map[cluster.TaskID]int // by task, a number into tried
	tried  []place.Group
	nodes  int
	open   place.Bitmap
	counts []int // of allowed nodes by group; -1: not counted yet
}

func newChoices(e *Engine, tried []place.Group) *choices {
	c := &choices{e: e, groups: map[cluster.TaskID]int{}, tried: tried, open: place.NewBitmap(len(e.byIndex)), counts: make([]int, len(tried))}
	for k := range tried {
		c.counts[k] = -1
		for _, t := range tried[k].Tasks {
			c.groups[t.ID] = k
		}
	}
	for i, n := range e.ledger.nodes {
		if n == nil {
			continue
		}
		c.nodes++
		if n.Node.Usable() && n.Blocked == "" {
			c.open.Set(i)
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
	out := cluster.Among{Nodes: c.nodes, Allowed: c.counts[k], Beside: c.e.ledger.nodes[p.Node].PerJob[g.Job]}
	for i := range g.Filters {
		if ranks := g.Filters[i].Ranks; p.Node < len(ranks) {
			out.Rank += int(ranks[p.Node])
		}
	}
	return out
}

func (c *choices) allowed(g *place.Group) int {
	in := c.open
	if g.Nodes != nil {
		limited := place.NewBitmap(len(c.e.byIndex))
		for _, i := range g.Nodes {
			limited.Set(i)
		}
		in = in.And(limited)
	}
	for i := range g.Filters {
		in = in.And(g.Filters[i].Allowed).AndNot(g.Filters[i].Pending)
	}
	return in.Count()
}
