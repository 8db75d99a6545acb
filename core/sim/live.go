package sim

import (
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// patience is how long something may wait, or a record differ from the truth, before somebody has to say why.
const patience = 5 * time.Second

// CheckLive checks what holds at any moment of a cluster that is observed from outside: that nothing waits in silence, that what is listed is what runs, that
// drains keep their deadlines and that what was deleted is named no more. It is to be called about once a second.
func (w *World) CheckLive() {
	if w.away > 0 {
		return
	}
	st := w.State().At(w.now.WallTime())
	w.checkSilence(st)
	w.checkListed(st)
	w.checkDeadlines(st)
	w.checkRemoved(st)
}

// since returns for how long, in the world's time, something has been so.
func (w *World) since(what string, is bool) time.Duration {
	at, ok := w.books.waits[what]
	switch {
	case !is:
		delete(w.books.waits, what)
		return 0
	case !ok:
		w.books.waits[what] = w.real
		return 0
	}
	return w.real - at
}

// checkSilence checks that what does not advance has a stall, and that what runs or has ended has none (V4).
func (w *World) checkSilence(st *engine.State) {
	live := map[string]bool{}
	for t := range st.Tasks() {
		n := st.Node(t.Placement.Node)
		stalls := st.TaskStalls(t)
		slot := cluster.Subject{Kind: cluster.SubjectSlot, ID: t.Job + "/" + string(t.Slot)}
		if t.Desired.State.Wanted() && !t.Dead() {
			live[slot.ID] = true
		}
		if (t.Dead() || t.Up(n)) && len(stalls) > 0 {
			w.failf("V4: %s runs or has ended, and is said to wait: %+v", t.ID, stalls)
		}
		waits := !t.Dead() && !t.Placed() && len(stalls) == 0 && len(st.StallsOf(slot)) == 0 && !w.answers() && len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: t.Job})) == 0
		if w.since("task "+string(t.ID), waits) > patience {
			w.failf("V4: %s waits in silence", t.ID)
		}
	}
	for j := range st.Jobs() {
		said := len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: j.Name})) > 0
		for _, s := range st.Slots(j.Name) {
			subject := cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()}
			waits := !s.Done && !s.Unwanted && !j.Control.Stopped && !live[s.ID()] && !said && len(st.StallsOf(subject)) == 0 && !w.excluded(st, s) && !w.answers()
			w.looked("slots")
			if w.since("slot "+s.ID(), waits) > patience {
				w.failf("V4: slot %s has no task, and nothing says why", s.ID())
			}
		}
	}
}

// answers reports whether some plugin still has to answer, so that there may be nothing to be said of a job yet.
func (w *World) answers() bool {
	for _, p := range w.plugins {
		if len(p.queue) > 0 && p.Delay > 0 {
			return true
		}
	}
	return false
}

// excluded reports whether a slot is limited to nodes all of which are refused: it is not wanted then and says nothing.
func (w *World) excluded(st *engine.State, s *cluster.Slot) bool {
	if len(s.Nodes) == 0 {
		return false
	}
	for _, id := range s.Nodes {
		if n := st.Node(id); n != nil && !n.Spec.Decommissioned && !w.refused(st, s.Job, n) {
			return false
		}
	}
	return true
}

// checkListed checks that what is listed as running are the processes alive on nodes that can be reached (V5).
func (w *World) checkListed(st *engine.State) {
	differ := map[cluster.TaskID]bool{}
	for _, a := range w.Agents {
		n := st.Node(a.Node)
		if a.Silent || a.Off || a.session == 0 || n == nil || n.Status.State != cluster.NodeReady || n.Spec.Decommissioned {
			continue
		}
		for t := range st.TasksOn(a.Node) {
			p := a.procs[t.ID]
			runs := p != nil && p.Alive() && !p.Stray && p.State == cluster.Running
			if !t.Dead() && runs != (t.Observed.State == cluster.Running) {
				differ[t.ID] = true
			}
			w.looked("listed tasks")
			if at, ok := w.books.differs[t.ID]; differ[t.ID] && ok && w.real-at > grown+2*a.Lag {
				w.failf("V5: %s is listed as %s on %s, and runs there: %v", t.ID, t.Observed.State, a.Name, runs)
			}
		}
	}
	for id := range w.books.differs {
		if !differ[id] {
			delete(w.books.differs, id)
		}
	}
	for id := range differ {
		if _, ok := w.books.differs[id]; !ok {
			w.books.differs[id] = w.real
		}
	}
}

// checkDeadlines checks that once a drain's deadline is over, everything on the node was told to stop.
func (w *World) checkDeadlines(st *engine.State) {
	for n := range st.Nodes() {
		if n.Spec.Availability != cluster.Drain || n.Spec.DrainDeadline == 0 || w.now.Sub(n.Spec.DrainSince) < n.Spec.DrainDeadline+grown {
			continue
		}
		w.looked("drain deadlines")
		for t := range st.TasksOn(n.ID) {
			if !t.Dead() && t.Desired.State.Wanted() && st.Job(t.Job) != nil {
				w.failf("drain: %s is still wanted on %s, whose deadline of %s is over since %s", t.ID, n.Spec.Name, n.Spec.DrainDeadline,
					w.now.Sub(n.Spec.DrainSince)-n.Spec.DrainDeadline)
			}
		}
	}
}

// checkRemoved checks that no record names a job that was removed later than 10 s after its tasks ended (V6).
func (w *World) checkRemoved(st *engine.State) {
	for name := range w.books.versions {
		if st.Job(name) == nil && w.books.removed[name] == nil {
			w.books.removed[name] = &removal{since: w.real}
		}
	}
	for j := range st.Jobs() {
		w.books.versions[j.Name] = j.Control.Version
		delete(w.books.removed, j.Name)
	}
	for name, r := range w.books.removed {
		for t := range st.TasksOf(name) {
			if a := w.agentOn(t.Placement.Node); !t.Dead() && (a == nil || a.Silent || a.Off || len(a.Procs()) > 0 && a.procs[t.ID] != nil && !a.procs[t.ID].State.Terminal()) {
				r.since = w.real
			}
		}
		if w.real-r.since < 10*time.Second {
			continue
		}
		w.looked("removed jobs")
		if named := names(st, name); named != "" {
			w.failf("V6: %s names job %s, which was removed", named, name)
		}
	}
}

func (w *World) agentOn(id cluster.NodeID) *Agent {
	for _, a := range w.Agents {
		if a.Node == id {
			return a
		}
	}
	return nil
}

// names returns a record that names a job.
func names(st *engine.State, job string) string {
	for t := range st.TasksOf(job) {
		return "task " + string(t.ID)
	}
	for _, s := range st.Slots(job) {
		return "slot " + s.ID()
	}
	for s := range st.Stalls() {
		if id := s.Subject.ID; id == job || strings.HasPrefix(id, job+"/") || strings.HasPrefix(id, job+"@") {
			return "stall " + s.Key()
		}
	}
	return ""
}
