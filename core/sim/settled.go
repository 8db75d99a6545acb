package sim

import (
	"fmt"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

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
		out = append(out, w.settledRebalance(st, j)...)
		out = append(out, w.settledRacks(st, j)...)
		out = append(out, w.settledGlobal(st, j)...)
	}
	out = append(out, w.causes(st)...)
	out = append(out, w.mirrors(st)...)
	return append(out, leftBehind(st)...)
}

func (w *World) settledJob(st *engine.State, j *cluster.Job) []string {
	var out []string
	wanted := 0
	for _, s := range st.Slots(j.Name) {
		live, explained := 0, len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0 || s.Done || queues(st, j.Name)
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

// settledUpdate returns what is wrong with a job's update that had time to end: one that goes on has to wait for something that says so.
func settledUpdate(st *engine.State, j *cluster.Job) []string {
	var out, old []string
	stalled := false
	for _, s := range st.Slots(j.Name) {
		stalled = stalled || len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0
		for _, t := range st.SlotTasks(j.Name, s.Key) {
			if !t.Desired.State.Wanted() || t.Dead() {
				continue
			}
			stalled = stalled || len(st.TaskStalls(t)) > 0
			ended := j.Update.State == cluster.UpdateCompleted || j.Update.State == cluster.UpdateRolledBack
			if ended && !s.Unwanted && !s.Done && s.Held == "" && t.SpecVersion != j.Control.SpecVersion && j.Control.Spec.Numbered() {
				old = append(old, fmt.Sprintf("%s runs version %d after the update to %d ended", t.ID, t.JobVersion, j.Update.To))
			}
		}
	}
	if stalled || j.Control.Stopped {
		return nil
	}
	if j.Update.State == cluster.Updating {
		out = append(out, fmt.Sprintf("the update of %s goes on and waits for nothing: %+v", j.Name, j.Update))
	}
	return append(out, old...)
}

// leftBehind returns records and stalls that name what is no more.
func leftBehind(st *engine.State) []string {
	var out []string
	groups := map[string]bool{}
	for t := range st.Tasks() {
		if st.Job(t.Job) == nil || st.Slot(t.Job, t.Slot) == nil {
			out = append(out, fmt.Sprintf("%s belongs to no slot", t.ID))
		}
		if t.Placed() && st.Node(t.Placement.Node) == nil {
			out = append(out, fmt.Sprintf("%s names node %s, which is no more", t.ID, t.Placement.Node))
		}
		if s := st.Slot(t.Job, t.Slot); s != nil && s.Held == "" && !s.Unwanted && !t.Placed() && !slices.Equal(s.Nodes, t.Nodes) {
			out = append(out, fmt.Sprintf("%s waits for %v, and its slot may have %v", t.ID, t.Nodes, s.Nodes))
		}
		if !t.Placed() && t.Dead() {
			out = append(out, fmt.Sprintf("%s was never placed and is kept", t.ID))
		}
		if !t.Placed() {
			groups[engine.GroupKey(t)] = true
		}
	}
	slots := map[string]bool{}
	for j := range st.Jobs() {
		for _, s := range st.Slots(j.Name) {
			slots[s.ID()] = true
		}
		if rack := j.Control.Spec.Labels["hold"]; j.Control.Spec.Type == TypeRack && inRacks(st.Nodes())[rack] != nil {
			slots[j.Name+"/"+rack] = true // held before it ever was, and named by its plugin
		}
	}
	for s := range st.Stalls() {
		there := true
		switch s.Subject.Kind {
		case cluster.SubjectJob, cluster.SubjectUpdate:
			there = st.Job(s.Subject.ID) != nil
		case cluster.SubjectSlot:
			there = slots[s.Subject.ID]
		case cluster.SubjectGroup:
			there = groups[s.Subject.ID]
		case cluster.SubjectTask:
			there = st.Task(cluster.TaskID(s.Subject.ID)) != nil
		case cluster.SubjectNode:
			there = st.Node(cluster.NodeID(s.Subject.ID)) != nil
		case cluster.SubjectPlugin, cluster.SubjectCluster:
		}
		if !there {
			out = append(out, "the stall "+s.Key()+" names what is no more")
		}
	}
	return out
}
