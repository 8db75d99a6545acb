package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// causes returns what is wrong with the stalls of a cluster that had time to settle, in which every machine runs and speaks, takes tasks, and every plugin
// answers: each of them has to name a cause that is true.
func (w *World) causes(st *engine.State) []string {
	var out []string
	for s := range st.Stalls() {
		if why := w.untrue(st, s); why != "" {
			out = append(out, fmt.Sprintf("the stall %s (%s) is not true: %s", s.Key(), s.Message, why))
		}
	}
	return out
}

// untrue returns what is wrong with a stall; "" if nothing is.
func (w *World) untrue(st *engine.State, s *cluster.Stall) string {
	switch s.Subject.Kind {
	case cluster.SubjectGroup:
		return "" // CheckReasons counts
	case cluster.SubjectUpdate:
		if j := st.Job(s.Subject.ID); j == nil || j.Update.State != cluster.UpdatePaused {
			return "no update is paused"
		}
		return ""
	case cluster.SubjectSlot:
		return w.untrueSlot(st, s)
	case cluster.SubjectJob:
		j := st.Job(s.Subject.ID)
		if j != nil && s.Code == cluster.CodeWaitingForTurn {
			w.looked("causes: waiting_for_turn")
			if limit := j.Control.Spec.Parallelism; limit == 0 || taken(st, j.Name) < limit {
				return fmt.Sprintf("%d slots have a task and %d may", taken(st, j.Name), limit)
			}
			return ""
		}
	case cluster.SubjectTask, cluster.SubjectNode, cluster.SubjectPlugin, cluster.SubjectCluster:
	}
	return "nothing is left that it could wait for"
}

func (w *World) untrueSlot(st *engine.State, s *cluster.Stall) string {
	name, key, _ := strings.Cut(s.Subject.ID, "/")
	j, slot := st.Job(name), st.Slot(name, cluster.SlotKey(key))
	if j != nil && s.Code == CodeHeld {
		return untrueHold(st, j, key)
	}
	if j == nil || slot == nil {
		return "there is no such slot"
	}
	var up *cluster.Task
	waits := false
	for _, t := range st.SlotTasks(name, slot.Key) {
		if t.Up(st.Node(t.Placement.Node)) {
			up = t
		}
		waits = waits || t.Desired.State.Wanted() && !t.Dead() && !t.Placed()
	}
	w.looked("causes: " + string(s.Code))
	switch s.Code {
	case cluster.CodeRestartBudgetUsed:
		if r := j.Control.Spec.Restart; r.Attempts == 0 || len(slot.Restarts) < r.Attempts || up != nil {
			return fmt.Sprintf("%d of %d restarts were spent, up: %v", len(slot.Restarts), r.Attempts, up != nil)
		}
		return ""
	case cluster.CodeWaitingForBudget:
		return w.untrueBudget(st, j)
	case cluster.CodeWaitingForReplacement:
		if up == nil || !waits {
			return "no replacement waits"
		}
		return ""
	case cluster.CodeConstraint, cluster.CodeInsufficientResources, cluster.CodePortTaken, cluster.CodeOnePerNode, cluster.CodeNodeDown, cluster.CodeAddressPoolExhausted:
		return w.untrueRoom(st, j, slot, up)
	}
	return "nothing is left that it could wait for"
}

// taken counts the slots of a job that have a task which is not known to have ended.
func taken(st *engine.State, job string) int {
	n := 0
	for _, s := range st.Slots(job) {
		if !s.Unwanted && !s.Done && slices.ContainsFunc(st.SlotTasks(job, s.Key), func(t *cluster.Task) bool { return !t.Dead() }) {
			n++
		}
	}
	return n
}

// queues reports whether slots of a job wait for their turn, and it says so.
func queues(st *engine.State, job string) bool {
	return slices.ContainsFunc(st.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: job}), func(s *cluster.Stall) bool { return s.Code == cluster.CodeWaitingForTurn })
}

// untrueBudget checks that a job has as many slots that are not up as it allows.
func (w *World) untrueBudget(st *engine.State, j *cluster.Job) string {
	wanted, down := 0, 0
	for _, s := range st.Slots(j.Name) {
		if s.Unwanted || s.Done || s.Held != "" || w.excluded(st, s) {
			continue
		}
		wanted++
		if !slices.ContainsFunc(st.SlotTasks(j.Name, s.Key), func(t *cluster.Task) bool { return t.Up(st.Node(t.Placement.Node)) }) {
			down++
		}
	}
	if limit := j.Control.Spec.MaxUnavailable.Of(wanted); down < limit {
		return fmt.Sprintf("%d of %d slots are not up, and the job allows %d", down, wanted, limit)
	}
	return ""
}

// untrueRoom checks that a task of the job's newest version would fit nowhere, be it in the place of the one that stays.
func (w *World) untrueRoom(st *engine.State, j *cluster.Job, s *cluster.Slot, up *cluster.Task) string {
	if up == nil {
		return "no task stays for want of room for its replacement"
	}
	spec := &j.Control.Spec
	x := wish{job: j.Name, slot: s.Key, nodes: s.Nodes, need: cluster.Reserve{
		Resources: spec.Task.Resources, Ports: spec.Task.Ports, Addresses: spec.Task.Addresses, MaxPerNode: spec.MaxPerNode,
	}}
	if _, fits := w.truth(st, x, map[cluster.TaskID]bool{up.ID: true}); len(fits) > 0 {
		return fmt.Sprintf("the replacement fits on %v", fits)
	}
	return ""
}

// settledGlobal returns nodes on which a job that is to run everywhere has no slot, and says nothing about it.
func (w *World) settledGlobal(st *engine.State, j *cluster.Job) []string {
	var out []string
	spec := &j.Control.Spec
	if spec.Type != cluster.TypeGlobal && spec.Type != cluster.TypeGlobalBatch || j.Control.Stopped {
		return nil
	}
	for n := range st.Nodes() {
		if n.Spec.Decommissioned || !n.Usable() || w.refused(st, j.Name, n) {
			continue
		}
		w.looked("global slots")
		s := st.Slot(j.Name, cluster.SlotKey(n.ID))
		if s == nil {
			out = append(out, fmt.Sprintf("job %s has no slot on %s", j.Name, n.Spec.Name))
			continue
		}
		up := s.Done || queues(st, j.Name) || len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0
		for _, t := range st.SlotTasks(j.Name, s.Key) {
			up = up || t.Up(n) || len(st.TaskStalls(t)) > 0
		}
		if !up {
			out = append(out, fmt.Sprintf("slot %s is not up and nothing says why", s.ID()))
		}
	}
	return out
}

// mirrors returns what plugins still hold of what is no more.
func (w *World) mirrors(st *engine.State) []string {
	var out []string
	jobs, nodes := 0, 0
	for range st.Jobs() {
		jobs++
	}
	for range st.Nodes() {
		nodes++
	}
	for _, p := range w.plugins {
		for name := range p.jobs {
			if st.Job(name) == nil {
				out = append(out, fmt.Sprintf("plugin %s still serves job %s", p.def.Name, name))
			}
		}
		if len(p.classes) > jobs {
			out = append(out, fmt.Sprintf("plugin %s keeps %d classes for %d jobs", p.def.Name, len(p.classes), jobs))
		}
		if len(p.nodes) != nodes {
			out = append(out, fmt.Sprintf("plugin %s knows %d nodes of %d", p.def.Name, len(p.nodes), nodes))
		}
	}
	return out
}
