package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// started checks the rule of one process per slot at the moment in which it could be broken: nothing is started while another process of the slot is alive,
// except beside one on a node that counts as lost, or for a job that starts first.
func (w *World) started(a *Agent, p *Proc) {
	job, slot, _, err := p.Task.Parts()
	if err != nil {
		panic(err)
	}
	st := w.State()
	if n := st.Node(a.Node); n == nil || n.Spec.Decommissioned || n.Down() {
		return // declared gone while it runs, which makes second copies, or cut off; what was on its way to it cannot be called back
	}
	others := 0
	for _, b := range w.Agents {
		n := st.Node(b.Node)
		if n == nil || n.Down() || b.Off {
			continue
		}
		for _, q := range b.Procs() {
			j, s, _, _ := q.Task.Parts()
			if q == p || !q.Alive() || j != job || s != slot || w.excused(st, q) {
				continue
			}
			others++
		}
	}
	allowed := 0
	if w.books.first[p.Task] { // as its job was when it was made: what is on its way to the agent cannot be called back
		allowed = 1
	}
	if others > allowed {
		w.failf("V1: %s starts on %s beside %d others of its slot", p.Task, a.Name, others)
	}
	w.checkRoom(a)
}

// excused reports whether a process is one that the cluster has lost sight of: its record says that it ended, or there is none, or it is lost.
func (w *World) excused(st *engine.State, p *Proc) bool {
	t := st.Task(p.Task)
	return t == nil || t.Dead() || t.ConditionOn(st.Node(t.Placement.Node)).State != cluster.OK || w.returned[p.Task]
}

// checkRoom checks that what runs on a node fits on it.
func (w *World) checkRoom(a *Agent) {
	var sum cluster.Resources
	for _, p := range a.Procs() {
		if p.Alive() && w.State().Task(p.Task) != nil {
			sum = sum.Add(p.reserve)
		}
	}
	if !a.desc.Capacity.Fits(sum) {
		w.failf("V2: %s runs %+v and has %+v: %s", a.Name, sum, a.desc.Capacity, a.alive())
	}
}

// checkIndexes checks what a state keeps about its tasks against the tasks.
func (w *World) checkIndexes(st *engine.State) {
	phases, kept := map[cluster.Phase]int{}, st.Phases()
	open := map[cluster.TaskID]bool{}
	for t := range st.Unsettled() {
		open[t.ID] = true
	}
	among := 0
	for t := range st.Tasks() {
		n := st.Node(t.Placement.Node)
		phases[cluster.PhaseOf(t, n, len(st.TaskStalls(t)) > 0)]++
		if !t.Dead() && (!t.Desired.State.Wanted() || t.Observed.State != cluster.Running || !t.Observed.Healthy) {
			if among++; !open[t.ID] {
				w.failf("index: something is still to come of %s, which is left out", t.ID)
			}
		}
	}
	if among != len(open) {
		w.failf("index: something is still to come of %d tasks, and %d are listed", among, len(open))
	}
	if !maps.Equal(phases, kept) {
		w.failf("index: tasks are in the phases %v, and are counted as %v", phases, kept)
	}
	rest := st.Rest()
	for j := range st.Jobs() {
		w.checkSlotCounts(st, j)
		if !w.behind && rest.Of(j.Name) {
			w.checkRest(st, j)
		}
	}
	w.looked("indexes")
}

// checkRest checks that a job which is said to be at rest has nothing but slots that are done, or up by one task that runs.
func (w *World) checkRest(st *engine.State, j *cluster.Job) {
	w.looked("jobs at rest")
	for _, s := range st.Slots(j.Name) {
		up, other := 0, 0
		for _, t := range st.SlotTasks(j.Name, s.Key) {
			switch n := st.Node(t.Placement.Node); {
			case t.Up(n) && t.Desired.State.Wanted() && t.SpecVersion == s.SpecVersion:
				up++
			case !t.Dead() || len(st.TaskStalls(t)) > 0:
				other++
			}
		}
		want := 0
		if !s.Unwanted && !s.Done {
			want = 1
		}
		if up != want || other != 0 || s.Held != "" || len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0 {
			w.failf("index: job %s is said to be at rest, and slot %s has %d tasks that are up, %d others that are alive and is held for %q", j.Name, s.Key, up, other, s.Held)
		}
	}
}

func (w *World) checkSlotCounts(st *engine.State, j *cluster.Job) {
	var want engine.SlotCounts
	var open []cluster.SlotKey
	job, stale := j.Name, 0
	for _, s := range st.Slots(job) {
		want.Slots++
		if len(s.Nodes) > 0 {
			want.Limited++
		}
		if len(s.Nodes) == 1 {
			want.Pinned++
		}
		if !s.Unwanted && len(s.Nodes) > 0 {
			want.WantedLimited++
		}
		if !s.Unwanted && s.Held != "" {
			want.Held++
		}
		if !s.Unwanted && !s.Done && s.SpecVersion != j.Control.SpecVersion {
			stale++
		}
		switch {
		case s.Unwanted:
			continue
		case s.Done:
			want.Done++
			if s.Failed {
				want.Failed++
			}
		case !s.UpSince.IsZero():
			want.Up++
		case len(s.Nodes) > 0:
			want.Open++
			open = append(open, s.Key)
		}
		want.Wanted++
	}
	if got := st.SlotCounts(job); got != want {
		w.failf("index: the slots of %s are %+v, and are counted as %+v", job, want, got)
	}
	if got := st.StaleSlots(job, j.Control.SpecVersion); got != stale {
		w.failf("index: %d slots of %s are stale, and are counted as %d", stale, job, got)
	}
	slices.Sort(open)
	if got := slices.Collect(st.OpenSlots(job)); !slices.Equal(got, open) {
		w.failf("index: open slots of %s are %q, and %q are listed", job, open, got)
	}
}

// checkTurn checks what a turn changed.
func (w *World) checkTurn(t engine.Turn) {
	w.checkIndexes(t.State)
	for _, c := range t.Changes {
		switch c := c.Change.(type) {
		case cluster.SetPlacement:
			if n := t.State.Node(c.Placement.Node); n == nil || !n.Usable() {
				w.failf("V3: %s was placed on %s, which takes nothing new", c.Task, c.Placement.Node)
			}
		case cluster.SetNodeStatus:
			if old := t.Before.Node(c.Node); c.Status.State != cluster.NodeDown || old != nil && old.Status.State == cluster.NodeDown {
				break // what else is noted of a node that is down says nothing new
			}
			w.looked("nodes down")
			if a := w.agentOn(c.Node); a != nil && w.real-a.heard < w.cfg.Heartbeat && a.session != 0 {
				w.failf("monitor: %s is said to be down, and was heard of %s ago", a.Name, w.real-a.heard)
			}
			for x := range t.State.TasksOn(c.Node) { // what is replaced may be alive there, and also after the node's return until its agent is told
				w.returned[x.ID] = true
			}
		}
	}
}

// alive lists what runs on a node.
func (a *Agent) alive() string {
	var out []string
	for _, p := range a.Procs() {
		if p.Alive() {
			out = append(out, fmt.Sprintf("%s %s stray %v stopping %v", p.Task, p.State, p.Stray, p.stopping))
		}
	}
	return strings.Join(out, ", ")
}
