package sim

import (
	"fmt"

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
	if j := st.Job(job); j != nil && j.Control.Spec.Update.Order == cluster.StartFirst {
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
		w.failf("V2: %s runs %+v and has %+v", a.Name, sum, a.desc.Capacity)
	}
}

// checkTurn checks what a turn changed.
func (w *World) checkTurn(t engine.Turn) {
	for _, c := range t.Changes {
		switch c := c.Change.(type) {
		case cluster.SetPlacement:
			if n := t.State.Node(c.Placement.Node); n == nil || !n.Usable() {
				w.failf("V3: %s was placed on %s, which takes nothing new", c.Task, c.Placement.Node)
			}
		case cluster.SetNodeStatus:
			if c.Status.State != cluster.NodeDown {
				break
			}
			for x := range t.State.TasksOn(c.Node) { // what is replaced may be alive there, and also after the node's return until its agent is told
				w.returned[x.ID] = true
			}
		}
	}
}

// Settled returns what is wrong with a cluster that had time to settle: slots that are neither up nor explained, and processes that nothing wants.
func (w *World) Settled() []string {
	var out []string
	st := w.State().At(w.now.WallTime())
	alive := map[cluster.TaskID]bool{}
	for _, a := range w.Agents {
		for _, p := range a.Procs() {
			if p.Alive() {
				alive[p.Task] = true
			}
		}
	}
	for t := range st.Tasks() {
		n := st.Node(t.Placement.Node)
		phase := cluster.PhaseOf(t, n, len(st.TaskStalls(t)) > 0)
		switch {
		case phase == cluster.PhaseRunning && !alive[t.ID]:
			out = append(out, fmt.Sprintf("%s is said to run and does not", t.ID))
		case phase == cluster.PhasePending:
			out = append(out, fmt.Sprintf("%s waits in silence", t.ID))
		case phase == cluster.PhaseStopping && n.Status.State == cluster.NodeReady, phase == cluster.PhaseStarting:
			out = append(out, fmt.Sprintf("%s is still %s", t.ID, phase))
		}
		if phase == cluster.PhaseRunning {
			delete(alive, t.ID)
		}
	}
	for id := range alive {
		out = append(out, fmt.Sprintf("%s runs and nothing wants it (record %+v)", id, st.Task(id)))
	}
	for j := range st.Jobs() {
		out = append(out, w.settledJob(st, j)...)
		out = append(out, settledUpdate(st, j)...)
	}
	return append(out, leftBehind(st)...)
}

func (w *World) settledJob(st *engine.State, j *cluster.Job) []string {
	var out []string
	wanted := 0
	for _, s := range st.Slots(j.Name) {
		live, explained := 0, len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0 || s.Done
		up := 0
		for _, t := range st.SlotTasks(j.Name, s.Key) {
			if t.Up(st.Node(t.Placement.Node)) {
				up++
			}
			if t.Desired.State.Wanted() && !t.Dead() {
				live++
				explained = explained || len(st.TaskStalls(t)) > 0
			}
		}
		if !s.Unwanted {
			wanted++
		}
		switch {
		case j.Control.Stopped || s.Unwanted:
			if live > 0 {
				out = append(out, fmt.Sprintf("slot %s is unwanted and has %d tasks", s.ID(), live))
			}
		case up == 0 && !explained && j.Control.Spec.Numbered():
			out = append(out, fmt.Sprintf("slot %s is not up and nothing says why", s.ID()))
		case up > 1:
			out = append(out, fmt.Sprintf("slot %s has %d tasks up", s.ID(), up))
		}
	}
	if j.Control.Spec.Numbered() && !j.Control.Stopped && wanted != j.Control.Spec.Count {
		out = append(out, fmt.Sprintf("job %s has %d slots, want %d", j.Name, wanted, j.Control.Spec.Count))
	}
	return out
}

func (w *World) failf(format string, args ...any) {
	w.Failures = append(w.Failures, fmt.Sprintf("%s: ", w.now.Engine)+fmt.Sprintf(format, args...))
	w.tracef("FAILURE "+format, args...)
}
