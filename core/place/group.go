package place

import (
	"cmp"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Group is waiting tasks that are placed together: what one may use and needs, all may use and need.
type Group struct {
	Key      string // unique among groups
	Job      string
	Spec     *cluster.JobSpec // strategy and spread; nil: the defaults
	Reserve  cluster.Reserve
	Nodes    []int    // indexes of the nodes that the slots are limited to; nil: any node
	Filters  []Filter // each name once, but for those of Abilities
	Tasks    []*cluster.Task
	Priority int // higher is placed first
}

// Filter is what one filter says of a group's class.
type Filter struct {
	Name    string
	Allowed Bitmap       // nodes that it allows
	Pending Bitmap       // nodes of which no verdict counts; Allowed says nothing of them
	Away    cluster.Code // why it cannot judge the pending ones now, such as plugin_timeout; "": plugin_pending
	Detail  string       // goes with Away

	Reason func(node int) (cluster.Code, string) // code and detail of a refusal; nil: constraint, without detail
	Clears func(node int) string                 // what would end a refusal, for people; nil, or "": not said
	Ranks  []int8                                // how welcome the tasks are, by node index; nodes beyond its end have 0
}

// oldest returns the revision of the turn that made the group's oldest task.
func (g *Group) oldest() cluster.Revision {
	if len(g.Tasks) == 0 {
		return 0
	}
	out := g.Tasks[0].CreatedRev
	for _, t := range g.Tasks[1:] {
		out = min(out, t.CreatedRev)
	}
	return out
}

// before orders groups: higher priority, then the oldest task, then the key.
func before(a, b *need) int {
	return cmp.Or(cmp.Compare(b.g.Priority, a.g.Priority), cmp.Compare(a.oldest, b.oldest), cmp.Compare(a.g.Key, b.g.Key))
}

// need is what a group asks of a node, prepared once.
type need struct {
	g        *Group
	oldest   cluster.Revision
	limited  []int // the group's nodes if it is limited, ascending; nil: all
	filters  []Filter
	cpu, mem int64
	units    []unit   // by name, amounts above 0
	statics  []uint16 // ascending
	twice    uint16   // a port that the group names twice, which no node can give; 0: none
	dynamic  int      // ports of any number
	pools    []poolNeed
	job      int32 // number of the job in the view, if its tasks are counted there; otherwise -1
	alone    bool  // the job has no tasks on any node, but for those that are counted in the view
}

type unit struct {
	name   string
	amount int64
}

// newNeed prepares g for looking at nodes of c.
func newNeed(g *Group) *need {
	n := &need{g: g, oldest: g.oldest(), filters: g.Filters, cpu: g.Reserve.Resources.MilliCPU, mem: g.Reserve.Resources.Memory, job: -1}
	if g.Nodes != nil {
		n.limited = slices.Clone(g.Nodes)
		slices.Sort(n.limited)
		n.limited = slices.Compact(n.limited)
	}
	if !slices.IsSortedFunc(n.filters, compareFilters) {
		n.filters = slices.SortedStableFunc(slices.Values(n.filters), compareFilters)
	}
	for _, name := range g.Reserve.Resources.UnitNames() {
		if amount := g.Reserve.Resources.Units[name]; amount > 0 {
			n.units = append(n.units, unit{name, amount})
		}
	}
	for _, p := range g.Reserve.Ports {
		if p.Static == 0 {
			n.dynamic++
		} else {
			n.statics = append(n.statics, p.Static)
		}
	}
	slices.Sort(n.statics)
	for i := 1; i < len(n.statics); i++ {
		if n.statics[i] == n.statics[i-1] {
			n.twice = n.statics[i]
			break
		}
	}
	return n
}

// compareFilters orders filters: what the core says of nodes' abilities goes first, then names count.
func compareFilters(a, b Filter) int {
	first := func(f Filter) int {
		if f.Name == cluster.SourceCore {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Name, b.Name))
}

// allows reports whether every filter has a verdict of node i that allows it.
func (n *need) allows(i int) bool {
	for k := range n.filters {
		if f := &n.filters[k]; !f.Allowed.Get(i) || f.Pending.Get(i) {
			return false
		}
	}
	return true
}

// rank adds up how welcome the group is on node i.
func (n *need) rank(i int) int {
	sum := 0
	for k := range n.filters {
		if r := n.filters[k].Ranks; i < len(r) {
			sum += int(r[i])
		}
	}
	return sum
}

// binpack reports whether full nodes are preferred.
func (n *need) binpack() bool { return n.g.Spec != nil && n.g.Spec.Strategy == cluster.StrategyBinpack }

func (n *need) spread() []cluster.Spread {
	if n.g.Spec == nil {
		return nil
	}
	return n.g.Spec.Spread
}

// among reports whether the group may use node i as far as its slots' nodes go.
func (n *need) among(i int) bool {
	if n.limited == nil {
		return true
	}
	_, ok := slices.BinarySearch(n.limited, i)
	return ok
}
