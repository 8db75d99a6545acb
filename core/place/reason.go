package place

import (
	"cmp"
	"strconv"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// stage orders what is looked at on a node. A node is counted under the first stage that refuses it, so who gets further is nearer to being placed.
type stage uint8

const (
	stageNone stage = iota
	stageDown
	stageSilent
	stagePaused
	stageDraining
	stageBlocked
	stageAbility
	stageFilter
	stageResource
	stagePort
	stageLimit
	stagePool
)

// The places of resources within their stage, units following by name; and of ports of any number after all that are named.
const (
	sortCPU = iota
	sortMemory
	sortUnit
	sortDynamic = 1 << 16
)

// DetailDynamic is the detail of port_taken where too few ports are free for those that are not named.
const DetailDynamic = "dynamic"

// reason is why a node is refused, as it is counted.
type reason struct {
	stage   stage
	source  string // "core", or the filter's name
	pending bool   // the filter has not judged the node
	sort    int    // within the stage and source
	code    cluster.Code
	detail  string
}

func compareReasons(a, b reason) int {
	pending := func(r reason) int {
		if r.pending {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.source, b.source), cmp.Compare(pending(a), pending(b)), cmp.Compare(a.sort, b.sort),
		cmp.Compare(a.code, b.code), cmp.Compare(a.detail, b.detail))
}

// first returns the first reason why node i cannot take what n needs; its stage is stageNone if it can.
func (n *need) first(i int, st *state) reason {
	var out reason
	n.reasons(i, st, func(r reason) bool {
		out = r
		return false
	})
	return out
}

// reasons yields every reason why node i cannot take what n needs, in the fixed order.
func (n *need) reasons(i int, st *state, yield func(reason) bool) {
	if !availability(st.base.Node, yield) {
		return
	}
	if st.base.Blocked != "" && !yield(core(stageBlocked, 0, cluster.CodeWaitingForAgent, st.base.Blocked)) {
		return
	}
	for k := range n.filters {
		if r := n.filters[k].refusal(i); r.stage != stageNone && !yield(r) {
			return
		}
	}
	if !n.lacks(st, yield) {
		return
	}
	for k, p := range n.statics {
		if k > 0 && p == n.statics[k-1] {
			continue
		}
		if _, taken := st.holder(p); taken || p == n.twice {
			if !yield(core(stagePort, int(p), cluster.CodePortTaken, strconv.Itoa(int(p)))) {
				return
			}
		}
	}
	if n.dynamic > 0 && !st.dynamicFree(n) && !yield(core(stagePort, sortDynamic, cluster.CodePortTaken, DetailDynamic)) {
		return
	}
	if limit := n.g.Reserve.MaxPerNode; limit > 0 && st.count(n) >= limit && !yield(core(stageLimit, 0, cluster.CodeOnePerNode, "")) {
		return
	}
	for k := range n.pools {
		if n.pools[k].short() && !yield(core(stagePool, k, cluster.CodeAddressPoolExhausted, n.pools[k].st.name)) {
			return
		}
	}
}

// lacks yields the resources that are not free, and reports whether to go on.
func (n *need) lacks(st *state, yield func(reason) bool) bool {
	if n.cpu > 0 && n.cpu > st.cpu && !yield(core(stageResource, sortCPU, cluster.CodeInsufficientResources, "cpu")) {
		return false
	}
	if n.mem > 0 && n.mem > st.mem && !yield(core(stageResource, sortMemory, cluster.CodeInsufficientResources, "memory")) {
		return false
	}
	for _, u := range n.units {
		if u.amount > st.unit(u.name) && !yield(core(stageResource, sortUnit, cluster.CodeInsufficientResources, u.name)) {
			return false
		}
	}
	return true
}

func core(s stage, sort int, code cluster.Code, detail string) reason {
	return reason{stage: s, source: cluster.SourceCore, sort: sort, code: code, detail: detail}
}

// availability yields why the node takes nothing new, as far as its heartbeats and its operator are concerned, and reports whether to go on.
func availability(n *cluster.Node, yield func(reason) bool) bool {
	if n.Usable() {
		return true
	}
	var byMonitor, byOperator reason
	switch {
	case n.Down():
		byMonitor = core(stageDown, 0, cluster.CodeNodeDown, "")
	case n.Status.State != cluster.NodeReady:
		byMonitor = core(stageSilent, 0, cluster.CodeNodeSilent, "")
	}
	switch n.Spec.Availability {
	case cluster.Active:
	case cluster.Drain:
		byOperator = core(stageDraining, 0, cluster.CodeNodeDraining, "")
	default:
		byOperator = core(stagePaused, 0, cluster.CodeNodePaused, "")
	}
	return (byMonitor.stage == stageNone || yield(byMonitor)) && (byOperator.stage == stageNone || yield(byOperator))
}

// refusal returns why the filter does not allow node i.
func (f *Filter) refusal(i int) reason {
	switch {
	case f.Pending.Get(i):
		code := f.Away
		if code == "" {
			code = cluster.CodePluginPending
		}
		return reason{stage: stageFilter, source: f.Name, pending: true, code: code, detail: f.Detail}
	case f.Allowed.Get(i):
		return reason{}
	case f.Reason == nil:
		return reason{stage: stageFilter, source: f.Name, code: cluster.CodeConstraint}
	}
	code, detail := f.Reason(i)
	if f.Name == cluster.SourceCore {
		return core(stageAbility, 0, code, detail)
	}
	return reason{stage: stageFilter, source: f.Name, code: code, detail: detail}
}
