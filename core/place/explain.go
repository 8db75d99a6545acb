package place

import (
	"cmp"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// NodeReasons is all that keeps a group's tasks from one node.
type NodeReasons struct {
	Index   int
	ID      cluster.NodeID
	Name    string
	Reasons []Reason // in the fixed order; the first is the one under which the node is counted. Empty: a task fits
}

// Reason is one thing that keeps a group's tasks from one node.
type Reason struct {
	Source string // "core", or the filter's name
	Code   cluster.Code
	Detail string
	Want   int64          // for insufficient_resources, as in Resources.Amount; for one_per_node, the limit; for address_pool_exhausted, addresses
	Free   int64          // for insufficient_resources and address_pool_exhausted
	Has    int64          // for insufficient_resources: all that the node has; for one_per_node: tasks of the job there; for a pool: all that it gives
	Holder cluster.TaskID // for port_taken: who has the port; with revision 0 if it is kept for a slot's next task
	Clears string         // what would end it, for people

	kind     reason
	byFilter bool // whether Clears is the filter's own word
}

// Explain returns every node that counts for g with every reason why it cannot take a task, by name and id.
func Explain(c Cluster, g Group) []NodeReasons {
	v := newView(&c, g.Job)
	n := v.need(&g)
	indexes := c.considered(&g)
	sortByName(c.Nodes, indexes)
	out := make([]NodeReasons, len(indexes))
	for k, i := range indexes {
		out[k] = explain(v, n, i)
	}
	return out
}

func explain(v *view, n *need, i int) NodeReasons {
	var st state
	v.fill(i, &st)
	out := NodeReasons{Index: i, ID: st.base.Node.ID, Name: st.base.Node.Spec.Name}
	n.reasons(i, &st, func(r reason) bool {
		out.Reasons = append(out.Reasons, n.amounts(i, &st, r))
		return true
	})
	return out
}

// amounts says how much of what r is about is wanted and there.
func (n *need) amounts(i int, st *state, r reason) Reason {
	out := Reason{Source: r.source, Code: r.code, Detail: r.detail, kind: r}
	switch r.stage {
	case stageResource:
		out.Want = n.g.Reserve.Resources.Amount(r.detail)
		out.Has = st.base.Node.Description.Capacity.Amount(r.detail)
		switch r.sort {
		case sortCPU:
			out.Free = st.cpu
		case sortMemory:
			out.Free = st.mem
		default:
			out.Free = st.unit(r.detail)
		}
	case stagePort:
		if r.sort != sortDynamic {
			out.Holder, _ = st.holder(uint16(r.sort))
		}
	case stageLimit:
		out.Want, out.Has = int64(n.g.Reserve.MaxPerNode), int64(st.count(n))
	case stagePool:
		p := &n.pools[r.sort]
		out.Want = p.count
		if p.st.pool != nil {
			out.Free, out.Has = max(0, p.st.left), p.st.pool.Total()
		}
	case stageFilter:
		for k := range n.filters {
			if f := &n.filters[k]; f.Name == r.source && f.Clears != nil && !r.pending {
				out.Clears = f.Clears(i)
				out.byFilter = out.Clears != ""
			}
		}
	}
	if out.Clears == "" {
		out.Clears = out.clears(n, st)
	}
	return out
}

// Nearest returns the node that is nearest to taking a task of g: among those that got furthest in the order in which nodes are looked at, the one with the
// fewest reasons, then the one that lacks the smallest share of what is wanted, then the first by name and id. It reports false if no node counts or one fits.
func Nearest(c Cluster, g Group) (NodeReasons, bool) {
	v := newView(&c, g.Job)
	return nearest(v, v.need(&g))
}

func nearest(v *view, n *need) (NodeReasons, bool) {
	var best reason
	var candidates []int
	var st state
	for _, i := range v.c.considered(n.g) {
		v.fill(i, &st)
		r := n.first(i, &st)
		if r.stage == stageNone {
			return NodeReasons{}, false
		}
		by := compareKinds(r, best)
		if by > 0 {
			best, candidates = r, candidates[:0]
		}
		if by >= 0 {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) == 0 {
		return NodeReasons{}, false
	}
	all := make([]NodeReasons, len(candidates))
	for k, i := range candidates {
		all[k] = explain(v, n, i)
	}
	return slices.MinFunc(all, func(a, b NodeReasons) int {
		return cmp.Or(cmp.Compare(len(a.Reasons), len(b.Reasons)), cmp.Compare(missing(a), missing(b)), compareNames(v.c.Nodes[a.Index], v.c.Nodes[b.Index]))
	}), true
}

// compareKinds orders reasons by how far a node got, leaving aside which resource, port or requirement it was.
func compareKinds(a, b reason) int {
	if a.stage == stageFilter && b.stage == stageFilter {
		return compareReasons(reason{source: a.source, pending: a.pending, code: a.code}, reason{source: b.source, pending: b.pending, code: b.code})
	}
	return cmp.Compare(a.stage, b.stage)
}

// missing returns the largest share of a wanted resource that the node lacks, in millionths.
func missing(r NodeReasons) uint32 {
	out := uint32(0)
	for k := range r.Reasons {
		if r.Reasons[k].kind.stage == stageResource {
			out = max(out, share(r.Reasons[k].Want-r.Reasons[k].Free, r.Reasons[k].Want))
		}
	}
	return out
}

// ExceedsEvery reports whether no present node could ever take a task of g, even with nothing else on it, and names the resource: one that is beyond each of
// these nodes if there is one, otherwise the first where the fewest are. Nodes that a filter refuses do not count, unless all are refused.
func ExceedsEvery(c Cluster, g Group) (resource string, exceeds bool) {
	n := newNeed(&g)
	nodes := c.considered(&g)
	if allowed := slices.DeleteFunc(slices.Clone(nodes), func(i int) bool { return n.refused(i) }); len(allowed) > 0 {
		nodes = allowed
	}
	var everywhere, first []string
	for k, i := range nodes {
		lacking := c.Nodes[i].Node.Description.Capacity.Lacking(g.Reserve.Resources)
		if len(lacking) == 0 {
			return "", false
		}
		if k == 0 {
			everywhere = slices.Clone(lacking)
		}
		everywhere = slices.DeleteFunc(everywhere, func(name string) bool { return !slices.Contains(lacking, name) })
		if k == 0 || len(lacking) < len(first) || len(lacking) == len(first) && slices.Compare(lacking, first) < 0 {
			first = lacking
		}
	}
	switch {
	case len(everywhere) > 0:
		return everywhere[0], true
	case len(first) > 0:
		return first[0], true
	}
	return "", false
}

// refused reports whether a filter has judged node i and does not allow it.
func (n *need) refused(i int) bool {
	for k := range n.filters {
		if f := &n.filters[k]; !f.Pending.Get(i) && !f.Allowed.Get(i) {
			return true
		}
	}
	return false
}
