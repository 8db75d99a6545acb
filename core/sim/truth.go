package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// This file finds out by brute force, node by node, what keeps a task from running: from the records, the plugins' own logic and the rules alone. It shares no
// code with the packages that it checks.

// counted is a reason under which nodes are counted.
type counted struct {
	source string
	code   cluster.Code
	detail string
}

// wish is what a task asks of a node.
type wish struct {
	job   string
	slot  cluster.SlotKey
	nodes []cluster.NodeID // empty: any
	need  cluster.Reserve
}

func wishOf(t *cluster.Task) wish {
	return wish{job: t.Job, slot: t.Slot, nodes: t.Nodes, need: t.Reserve}
}

// truth counts for each reason the nodes that it is the first to exclude, leaving aside some tasks. fits are the nodes that nothing excludes.
func (w *World) truth(st *engine.State, x wish, without map[cluster.TaskID]bool) (reasons map[counted]int, fits []cluster.NodeID) {
	reasons = map[counted]int{}
	f := w.judges(st.Job(x.job))
	short := w.short(st, x.need.Addresses, without)
	for n := range st.Nodes() {
		if n.Spec.Decommissioned || len(x.nodes) > 0 && !slices.Contains(x.nodes, n.ID) {
			continue
		}
		r := w.excludes(st, n, x, f, without)
		if r == (counted{}) && short != "" {
			r = counted{cluster.SourceCore, cluster.CodeAddressPoolExhausted, short}
		}
		if r == (counted{}) {
			fits = append(fits, n.ID)
		} else {
			reasons[r]++
		}
	}
	return reasons, fits
}

// excludes returns the first reason of a node of its own; pools belong to the cluster.
func (w *World) excludes(st *engine.State, n *cluster.Node, x wish, judges []judge, without map[cluster.TaskID]bool) counted {
	core := func(code cluster.Code, detail string) counted { return counted{cluster.SourceCore, code, detail} }
	switch {
	case n.Status.State == cluster.NodeDown:
		return core(cluster.CodeNodeDown, "")
	case n.Status.State != cluster.NodeReady:
		return core(cluster.CodeNodeSilent, "")
	case n.Spec.Availability == cluster.Drain:
		return core(cluster.CodeNodeDraining, "")
	case n.Spec.Availability != cluster.Active:
		return core(cluster.CodeNodePaused, "")
	}
	switch a := w.agentOn(n.ID); {
	case a == nil:
	case !a.spoke:
		return core(cluster.CodeWaitingForAgent, "its agent has not reported since the server started")
	case a.strays > 0:
		return core(cluster.CodeWaitingForAgent, "it still stops what it runs without a record")
	}
	for _, j := range judges {
		if s := j.refuses(n); s != nil {
			return counted{j.name, s.Code, cmp.Or(s.Detail, j.detail)}
		}
	}
	free, taken, same := n.Description.Capacity, map[uint16]bool{}, 0
	for t := range st.TasksOn(n.ID) {
		if t.Dead() || without[t.ID] {
			continue
		}
		free = free.Sub(t.Reserve.Resources)
		for _, p := range t.Placement.Ports {
			taken[p.Number] = true
		}
		if t.Job == x.job {
			same++
		}
	}
	if short := free.Lacking(x.need.Resources); len(short) > 0 {
		return core(cluster.CodeInsufficientResources, short[0])
	}
	if p := takenPort(taken, x.need.Ports); p != "" {
		return core(cluster.CodePortTaken, p)
	}
	limit := x.need.MaxPerNode
	if j := st.Job(x.job); j != nil {
		limit = j.Control.Spec.MaxPerNode
	}
	if limit > 0 && same >= limit {
		return core(cluster.CodeOnePerNode, "")
	}
	return counted{}
}

// short returns the first of the pools that are asked for which has too few addresses left; "" if none has.
func (w *World) short(st *engine.State, want []cluster.Address, without map[cluster.TaskID]bool) string {
	for _, a := range want {
		asked, held := 0, 0
		for _, b := range want {
			if b.Pool == a.Pool {
				asked++
			}
		}
		for _, h := range w.holdersOf(st) {
			if h.pool == a.Pool && !without[h.task] {
				held++
			}
		}
		if w.gives(a.Pool) < asked+held {
			return a.Pool
		}
	}
	return ""
}

// holding is an address of a pool that a task has.
type holding struct {
	task cluster.TaskID
	pool string
}

// holdersOf returns which addresses are held in a state. All tasks are looked at once for each.
func (w *World) holdersOf(st *engine.State) []holding {
	if w.holdIn == st {
		return w.holders
	}
	w.holdIn, w.holders = st, nil
	for t := range st.Tasks() {
		for _, g := range t.Placement.Addresses {
			if !t.Dead() {
				w.holders = append(w.holders, holding{t.ID, g.Pool})
			}
		}
	}
	return w.holders
}

// gives returns how many addresses a pool gives in all; 0 if there is none of this name.
func (w *World) gives(pool string) int {
	i := slices.IndexFunc(w.cfg.Pools, func(p engine.Pool) bool { return p.Name == pool })
	if i < 0 {
		return 0
	}
	p := netip.MustParsePrefix(w.cfg.Pools[i].CIDR)
	return 1<<(p.Addr().BitLen()-p.Bits()) - 2 // without the one of the network and the one of all of it
}

// takenPort returns the lowest port that is asked for and taken; "" if all can be given.
func takenPort(taken map[uint16]bool, ports []cluster.Port) string {
	var statics []uint16
	for _, p := range ports {
		if p.Static > 0 {
			statics = append(statics, p.Static)
		}
	}
	slices.Sort(statics)
	for _, p := range statics {
		if taken[p] {
			return strconv.Itoa(int(p))
		}
	}
	return ""
}

// judge is one filter's verdict of a job.
type judge struct {
	name    string
	detail  string
	refuses func(n *cluster.Node) *sdk.Stall
}

// judges asks the filters' own logic about a job, in the order of their names.
func (w *World) judges(j *cluster.Job) []judge {
	if j == nil {
		return nil
	}
	var out []judge
	for _, p := range w.plugins {
		if p.def.Filter == nil {
			continue
		}
		s := &j.Control.Spec
		m, err := p.def.Filter.Compile(context.Background(), sdk.CompileRequest{JobType: s.Type, Labels: s.Labels, Settings: sdk.Settings(s.Settings(p.def.Name))})
		switch {
		case err != nil:
			out = append(out, judge{p.def.Name, stallIn(err).Message, func(*cluster.Node) *sdk.Stall { return stallIn(err) }})
		case m != nil:
			out = append(out, judge{p.def.Name, "", func(n *cluster.Node) *sdk.Stall {
				if err := m.Match(n); err != nil {
					return stallIn(err)
				}
				return nil
			}})
		}
	}
	slices.SortFunc(out, func(a, b judge) int { return cmp.Compare(a.name, b.name) })
	return out
}

func stallIn(err error) *sdk.Stall {
	var s *sdk.Stall
	if !errors.As(err, &s) {
		panic(fmt.Sprintf("a plugin's own failure: %v", err))
	}
	return s
}

// refused reports whether a filter refuses a job's tasks on a node.
func (w *World) refused(st *engine.State, job string, n *cluster.Node) bool {
	return slices.ContainsFunc(w.judges(st.Job(job)), func(j judge) bool { return j.refuses(n) != nil })
}

// still reports whether all plugins have answered all that they were told, and the engine has nothing to take or to decide: then what it says must be true.
func (w *World) still() bool {
	if w.away > 0 || len(w.inputs) > 0 || w.wake > 0 && w.wake <= w.now.Engine+1 {
		return false
	}
	for _, p := range w.plugins {
		if p.Dead || len(p.queue) > 0 || p.Faulty != Sound || p.owes {
			return false
		}
	}
	for _, s := range allSlots(w.State()) {
		if s.Claim != "" {
			return false // room is kept: what others find free is less than what there is
		}
	}
	return true
}

// CheckReasons compares what is said of each waiting task with what is true.
func (w *World) CheckReasons() {
	if !w.still() {
		return
	}
	st := w.State()
	seen := map[string]bool{}
	for t := range st.Tasks() {
		key := engine.GroupKey(t)
		if t.Placed() || t.Dead() || seen[key] {
			continue
		}
		seen[key] = true
		if s := st.Slot(t.Job, t.Slot); s == nil || s.Held != "" {
			continue
		}
		w.checkReason(st, t)
	}
}

func (w *World) checkReason(st *engine.State, t *cluster.Task) {
	w.looked("reasons of waiting tasks")
	want, fits := w.truth(st, wishOf(t), nil)
	if len(fits) > 0 {
		w.failf("V4: %s waits, and fits on %v", t.ID, fits)
		return
	}
	stalls := st.StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: engine.GroupKey(t)})
	if len(stalls) != 1 {
		w.failf("V4: %s waits with %d stalls, want one", t.ID, len(stalls))
		return
	}
	got := map[counted]int{}
	for _, x := range stalls[0].Facts.Excluded {
		got[counted{x.Source, x.Code, x.Detail}] += x.Count
	}
	if !maps.Equal(want, got) {
		w.failf("V4: of %s is said %v, and true is %v", t.ID, got, want)
	}
}
