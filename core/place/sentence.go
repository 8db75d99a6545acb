package place

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Details are what Sentence can say beyond stored facts: amounts, holders, the nearest node. They hold for the moment for which they were computed.
type Details struct {
	Job     string
	Limit   int       // tasks of the job on one node; 0: no limit
	Lacks   []Lack    // by resource in the fixed order
	Ports   []Holders // in the fixed order
	Pools   []PoolUse // in the fixed order
	Nearest NodeReasons
	Found   bool     // whether there is a nearest node
	Exceeds string   // the resource of which more is wanted than any present node has; "": none
	Unheard bool     // no present node has any of it: its name may be wrong
	Units   []string // that nodes have, by name
	Clears  string   // what would let a task be placed
}

// Lack is a resource that nodes lack.
type Lack struct {
	Resource string
	Want     int64 // as in Resources.Amount
	Best     int64 // the most that is free on one of these nodes
	Largest  int64 // the most that one of these nodes has
}

// Holders are those who hold a port on the nodes that are counted under it.
type Holders struct {
	Port  string // the detail of the fact
	Tasks []cluster.TaskID
}

// PoolUse is how much of a pool is held, and by whom. Total is 0 if there is no such pool.
type PoolUse struct {
	Pool        string
	Want        int64
	Used, Total int64
	Holders     []cluster.TaskID // in the order of their addresses
}

// Describe computes the details of a stalled group.
func Describe(c Cluster, g Group) Details {
	v := newView(&c, g.Job)
	n := v.need(&g)
	out := Details{Job: g.Job, Limit: g.Reserve.MaxPerNode}
	var refusals []Reason
	var kinds []reason
	var st state
	indexes := c.considered(&g)
	sortByName(c.Nodes, indexes)
	for _, i := range indexes {
		v.fill(i, &st)
		r := n.first(i, &st)
		if r.stage < stageFilter || r.stage == stageLimit || r.pending {
			continue
		}
		if r.stage == stagePool {
			out.pool(&n.pools[r.sort])
			continue
		}
		full := n.amounts(i, &st, r)
		if r.stage == stageFilter {
			refusals = append(refusals, full)
			continue
		}
		out.lack(full)
		out.held(full)
		kinds = append(kinds, r)
	}
	slices.SortFunc(kinds, compareReasons)
	order := func(detail string) int {
		return slices.IndexFunc(kinds, func(r reason) bool { return r.detail == detail })
	}
	slices.SortFunc(out.Lacks, func(a, b Lack) int { return order(a.Resource) - order(b.Resource) })
	slices.SortFunc(out.Ports, func(a, b Holders) int { return order(a.Port) - order(b.Port) })
	out.Exceeds, _ = ExceedsEvery(c, g)
	out.hear(&c, indexes)
	if out.Nearest, out.Found = nearest(v, n); out.Found {
		out.Clears = clears(out.Nearest, refusals, g.Nodes != nil)
	} else if len(indexes) == 0 && g.Nodes == nil {
		out.Clears = "a node joins"
	}
	return out
}

// hear notes which units the nodes have, if none of them has the one of which more is wanted than any has.
func (d *Details) hear(c *Cluster, nodes []int) {
	if d.Exceeds == "" || d.Exceeds == "cpu" || d.Exceeds == "memory" {
		return
	}
	for _, i := range nodes {
		units := c.Nodes[i].Node.Description.Capacity.Units
		for _, name := range slices.Sorted(maps.Keys(units)) {
			if units[name] > 0 {
				d.Units = append(d.Units, name)
			}
		}
	}
	slices.Sort(d.Units)
	d.Units = slices.Compact(d.Units)
	d.Unheard = !slices.Contains(d.Units, d.Exceeds)
}

func (d *Details) lack(r Reason) {
	if r.kind.stage != stageResource {
		return
	}
	k := slices.IndexFunc(d.Lacks, func(l Lack) bool { return l.Resource == r.Detail })
	if k < 0 {
		d.Lacks = append(d.Lacks, Lack{Resource: r.Detail, Want: r.Want, Best: max(r.Free, 0), Largest: r.Has})
		return
	}
	d.Lacks[k].Best, d.Lacks[k].Largest = max(d.Lacks[k].Best, r.Free), max(d.Lacks[k].Largest, r.Has)
}

func (d *Details) held(r Reason) {
	if r.kind.stage != stagePort || r.Holder == "" {
		return
	}
	k := slices.IndexFunc(d.Ports, func(h Holders) bool { return h.Port == r.Detail })
	if k < 0 {
		k = len(d.Ports)
		d.Ports = append(d.Ports, Holders{Port: r.Detail})
	}
	d.Ports[k].Tasks = append(d.Ports[k].Tasks, r.Holder)
}

// pool adds a pool that has too few addresses left, once.
func (d *Details) pool(p *poolNeed) {
	if slices.ContainsFunc(d.Pools, func(u PoolUse) bool { return u.Pool == p.st.name }) {
		return
	}
	use := PoolUse{Pool: p.st.name, Want: p.count}
	if pool := p.st.pool; pool != nil {
		use.Total = pool.Total()
		use.Used = use.Total - max(0, p.st.left)
		for _, a := range slices.SortedFunc(maps.Keys(pool.Taken), netip.Addr.Compare) {
			use.Holders = append(use.Holders, pool.Taken[a])
		}
	}
	d.Pools = append(d.Pools, use)
}

// fewTexts is how many things of one kind a sentence names before it counts the others.
const fewTexts = 3

// clears says what would let a task be placed: what would free the nearest node, or another node that meets what others fail.
func clears(nearest NodeReasons, refusals []Reason, limited bool) string {
	var here, joins, meets []string
	for k := range nearest.Reasons {
		here = append(here, nearest.Reasons[k].Clears)
	}
	out := strings.Join(here, " and ")
	if limited {
		return out
	}
	for k := range refusals {
		r := &refusals[k]
		switch text := r.Clears; {
		case r.byFilter && !slices.Contains(joins, text) && !slices.Contains(here, text):
			joins = append(joins, text)
		case !r.byFilter && r.Detail != "" && !slices.Contains(meets, r.Detail):
			meets = append(meets, r.Detail)
		}
	}
	if len(meets) > 0 {
		joins = append(joins, "a node joins that meets "+strings.Join(meets[:min(len(meets), fewTexts)], " and "))
	}
	if len(joins) == 0 && len(refusals) == 0 && !nearest.Reasons[0].kind.pending && nearest.Reasons[0].kind.stage != stagePool {
		joins = append(joins, "a node with room for it joins")
	}
	for _, text := range joins[:min(len(joins), fewTexts)] {
		out += ", or " + text
	}
	return out
}

// clears says what would end r on the node, for what the core itself knows.
func (r *Reason) clears(n *need, st *state) string {
	name := st.base.Node.Spec.Name
	switch r.kind.stage {
	case stageDown:
		return name + " comes back"
	case stageSilent:
		return name + " is heard of again"
	case stagePaused, stageDraining:
		return name + " is activated"
	case stageBlocked:
		return name + " is no longer blocked"
	case stageAbility:
		return r.clearsAbility(name)
	case stageFilter:
		switch {
		case r.kind.pending && r.Code == cluster.CodePluginPending:
			return r.Source + " has judged " + name
		case r.kind.pending:
			return r.Source + " answers again"
		case r.Code == cluster.CodeConstraint && r.Detail != "":
			return name + " meets " + r.Detail
		}
		return r.Source + " allows " + name
	case stageResource:
		if r.Want > r.Has {
			return fmt.Sprintf("%s has at least %s %s", name, amountText(r.Detail, r.Want), r.Detail)
		}
		return fmt.Sprintf("%s more %s is free on %s", amountText(r.Detail, r.Want-r.Free), r.Detail, name)
	case stagePort:
		switch {
		case r.kind.sort == sortDynamic:
			return "ports are freed on " + name
		case n.twice != 0 && r.Holder == "":
			return "the job names port " + r.Detail + " once"
		}
		return "port " + r.Detail + " is freed on " + name
	case stageLimit:
		return "a task of " + n.g.Job + " leaves " + name
	case stagePool:
		if r.Has == 0 {
			return "pool " + r.Detail + " is configured"
		}
		return "an address of pool " + r.Detail + " is freed"
	}
	return ""
}

// Sentence says for people why no node can run a task. Without details (the zero value) it says what the facts alone say.
func Sentence(f cluster.Facts, d Details) string {
	var b strings.Builder
	if f.Nodes == 0 {
		b.WriteString("no node can run it (there is none)")
	} else {
		parts := make([]string, len(f.Excluded))
		for k := range f.Excluded {
			parts[k] = d.phrase(&f.Excluded[k])
		}
		fmt.Fprintf(&b, "no node can run it (%s: %s)", plural(f.Nodes, "node", "nodes"), strings.Join(parts, ", "))
	}
	switch {
	case d.Unheard && len(d.Units) > 0:
		fmt.Fprintf(&b, ". It wants %s, and no node has any; what nodes have is %s", d.Exceeds, strings.Join(d.Units, ", "))
	case d.Unheard:
		fmt.Fprintf(&b, ". It wants %s, and no node has any", d.Exceeds)
	case d.Exceeds != "":
		fmt.Fprintf(&b, ". It wants more %s than any node has", d.Exceeds)
	}
	if d.Found {
		b.WriteString(". Nearest: " + d.Nearest.Name)
	}
	if d.Clears != "" {
		b.WriteString(". Clears when: " + d.Clears)
	}
	return b.String() + "."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// phrase says what one exclusion means.
func (d *Details) phrase(e *cluster.Exclusion) string {
	n := e.Count
	switch {
	case e.Code == cluster.CodePluginPending:
		return fmt.Sprintf("%d not yet judged by %s", n, e.Source)
	case e.Source != cluster.SourceCore && e.Code == cluster.CodeConstraint:
		return plural(n, "fails", "fail") + " " + orElse(e.Detail, e.Source)
	case e.Source != cluster.SourceCore && strings.HasPrefix(string(e.Code), "plugin_"):
		return fmt.Sprintf("%d not judged by %s (%s)", n, e.Source, joinNonEmpty(": ", string(e.Code), e.Detail))
	case e.Source != cluster.SourceCore:
		return fmt.Sprintf("%d refused by %s (%s)", n, e.Source, orElse(e.Detail, string(e.Code)))
	}
	switch e.Code {
	case cluster.CodeNodeDown:
		return fmt.Sprintf("%d down", n)
	case cluster.CodeNodeSilent:
		return fmt.Sprintf("%d silent", n)
	case cluster.CodeNodePaused:
		return fmt.Sprintf("%d paused", n)
	case cluster.CodeNodeDraining:
		return fmt.Sprintf("%d draining", n)
	case cluster.CodeWaitingForAgent:
		return fmt.Sprintf("%d blocked (%s)", n, e.Detail)
	case cluster.CodeNoDriver:
		return plural(n, "lacks", "lack") + " the driver " + e.Detail
	case cluster.CodeNoSecrets:
		return fmt.Sprintf("%d cannot keep secrets in memory", n)
	case cluster.CodeInsufficientResources:
		return plural(n, "lacks", "lack") + " " + e.Detail + d.lackText(e.Detail)
	case cluster.CodePortTaken:
		if e.Detail == DetailDynamic {
			return plural(n, "has", "have") + " too few free ports"
		}
		return plural(n, "has", "have") + " port " + e.Detail + " taken" + d.holdersText(e.Detail)
	case cluster.CodeOnePerNode:
		if d.Limit > 1 {
			return plural(n, "has", "have") + fmt.Sprintf(" %d tasks of %s already", d.Limit, d.Job)
		}
		return plural(n, "has", "have") + " a task of " + orElse(d.Job, "the job") + " already"
	case cluster.CodeAddressPoolExhausted:
		return plural(n, "finds", "find") + d.poolText(e.Detail)
	}
	return fmt.Sprintf("%d %s", n, joinNonEmpty(" ", string(e.Code), e.Detail))
}

func (d *Details) lackText(resource string) string {
	for _, l := range d.Lacks {
		if l.Resource == resource {
			return fmt.Sprintf(" (want %s, best free %s)", amountText(resource, l.Want), amountText(resource, l.Best))
		}
	}
	return ""
}

func (d *Details) holdersText(port string) string {
	for _, h := range d.Ports {
		if h.Port != port {
			continue
		}
		return byWhom(h.Tasks)
	}
	return ""
}

// byWhom names the first of those who hold something.
func byWhom(tasks []cluster.TaskID) string {
	var names []string
	for _, id := range tasks[:min(len(tasks), fewTexts)] {
		names = append(names, shortID(id))
	}
	out := " by " + strings.Join(names, ", ")
	if more := len(tasks) - len(names); more > 0 {
		out += " and " + plural(more, "other", "others")
	}
	return out
}

func (d *Details) poolText(pool string) string {
	for _, u := range d.Pools {
		switch {
		case u.Pool != pool:
		case u.Total == 0:
			return " no pool " + pool
		case len(u.Holders) == 0:
			return fmt.Sprintf(" too few addresses in pool %s (want %d, %d of %d used)", pool, u.Want, u.Used, u.Total)
		default:
			return fmt.Sprintf(" too few addresses in pool %s (want %d, %d of %d used%s)", pool, u.Want, u.Used, u.Total, ","+byWhom(u.Holders))
		}
	}
	return " too few addresses in pool " + pool
}

// shortID returns JOB/SLOT of a task, which is what people know it by.
func shortID(id cluster.TaskID) string {
	job, slot, _, err := id.Parts()
	if err != nil {
		return string(id)
	}
	return job + "/" + string(slot)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func joinNonEmpty(sep string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), sep)
}
