package sim

import (
	"fmt"
	"reflect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// wrote is what a turn's changes say that they wrote: for each section of each record, by whom.
type wrote map[string]cluster.Author

func (m wrote) add(by cluster.Author, kind, id, section string) { m[kind+" "+id+" "+section] = by }

// owners are the sole writers of sections. The empty section is the record as a whole: that it was made or dropped.
var owners = map[string]cluster.Author{
	"node made": cluster.AuthorOperator, "node dropped": cluster.AuthorOperator, "node spec": cluster.AuthorOperator, "node description": cluster.AuthorAgent,
	"node status": cluster.AuthorMonitor, "node drain": cluster.AuthorReconcile, "job made": cluster.AuthorOperator, "job dropped": cluster.AuthorOperator,
	"job control": cluster.AuthorOperator, "job update": cluster.AuthorReconcile, "slot": cluster.AuthorReconcile, "task made": cluster.AuthorReconcile,
	"task dropped": cluster.AuthorReconcile, "task desired": cluster.AuthorReconcile, "task placement": cluster.AuthorPlace, "task observed": cluster.AuthorAgent,
	"task condition": cluster.AuthorMonitor,
}

// said returns what the changes of a turn say that they wrote.
func said(t engine.Turn) wrote {
	m := wrote{}
	for _, c := range t.Changes {
		switch x := c.Change.(type) {
		case cluster.AddNode:
			m.add(c.By, "node", string(x.Node.ID), "made")
		case cluster.RemoveNode:
			m.add(c.By, "node", string(x.Node), "dropped")
		case cluster.SetNodeSpec:
			m.add(c.By, "node", string(x.Node), "spec")
		case cluster.SetNodeDescription:
			m.add(c.By, "node", string(x.Node), "description")
		case cluster.SetNodeStatus:
			m.add(c.By, "node", string(x.Node), "status")
		case cluster.SetDrain:
			m.add(c.By, "node", string(x.Node), "drain")
		case cluster.PutJob:
			m.add(c.By, "job", x.Job.Name, "control")
			m.add(c.By, "job", x.Job.Name, "made")
		case cluster.RemoveJob:
			m.add(c.By, "job", x.Job, "dropped")
		case cluster.SetUpdate:
			m.add(c.By, "job", x.Job, "update")
		case cluster.AddTask:
			m.add(c.By, "task", string(x.Task.ID), "made")
		case cluster.RemoveTask:
			m.add(c.By, "task", string(x.Task), "dropped")
		case cluster.SetDesired:
			m.add(c.By, "task", string(x.Task), "desired")
		case cluster.SetPlacement:
			m.add(c.By, "task", string(x.Task), "placement")
		case cluster.SetObserved:
			m.add(c.By, "task", string(x.Task), "observed")
		case cluster.SetCondition:
			m.add(c.By, "task", string(x.Task), "condition")
		}
	}
	return m
}

// checkWriters compares each section of each record with what it was before the turn: it may differ only by a change of its one writer, and only forward.
func (w *World) checkWriters(t engine.Turn) {
	m := said(t)
	differs := func(kind, id, section string, before, after any) {
		if reflect.DeepEqual(before, after) {
			return
		}
		if by, ok := m[kind+" "+id+" "+section]; !ok || by != owners[kind+" "+section] {
			w.failf("one writer: the %s of %s %s changed, and its writer %q did not say so but %q", section, kind, id, owners[kind+" "+section], by)
		}
	}
	for n := range t.State.Nodes() {
		old := t.Before.Node(n.ID)
		if old == nil {
			differs("node", string(n.ID), "made", false, true)
			continue
		}
		if old == n {
			continue
		}
		id := string(n.ID)
		differs("node", id, "spec", old.Spec, n.Spec)
		differs("node", id, "description", old.Description, n.Description)
		differs("node", id, "status", old.Status, n.Status)
		differs("node", id, "drain", old.Drain, n.Drain)
		w.forward(old.Spec.Decommissioned && !n.Spec.Decommissioned, "node %s is not decommissioned any more", n.ID)
	}
	for n := range t.Before.Nodes() {
		differs("node", string(n.ID), "dropped", true, t.State.Node(n.ID) != nil)
	}
	w.checkJobWriters(t, differs)
	w.checkTaskWriters(t, differs)
}

func (w *World) checkJobWriters(t engine.Turn, differs func(kind, id, section string, before, after any)) {
	for j := range t.State.Jobs() {
		old := t.Before.Job(j.Name)
		if old == nil {
			differs("job", j.Name, "made", false, true)
			continue
		}
		if old == j {
			continue
		}
		differs("job", j.Name, "control", old.Control, j.Control)
		if j.CreatedRev == old.CreatedRev {
			differs("job", j.Name, "update", old.Update, j.Update)
			w.forward(j.Control.Version < old.Control.Version, "job %s went from version %d to %d", j.Name, old.Control.Version, j.Control.Version)
		}
	}
	for j := range t.Before.Jobs() {
		differs("job", j.Name, "dropped", true, t.State.Job(j.Name) != nil)
	}
}

func (w *World) checkTaskWriters(t engine.Turn, differs func(kind, id, section string, before, after any)) {
	for x := range t.State.Tasks() {
		old, id := t.Before.Task(x.ID), string(x.ID)
		if old == x {
			continue
		}
		if old == nil {
			differs("task", id, "made", false, true)
			w.forward(w.books.ids[x.ID], "the id of task %s is used again", x.ID)
			w.books.ids[x.ID] = true
			continue
		}
		differs("task", id, "desired", old.Desired, x.Desired)
		differs("task", id, "placement", old.Placement, x.Placement)
		differs("task", id, "observed", old.Observed, x.Observed)
		differs("task", id, "condition", old.Condition, x.Condition)
		a, b := *old, *x
		for _, c := range [...]*cluster.Task{&a, &b} {
			c.Desired, c.Placement, c.Observed, c.Condition = cluster.Desired{}, cluster.Placement{}, cluster.Observed{}, cluster.Condition{}
		}
		w.forward(!reflect.DeepEqual(a, b), "what task %s is was changed", x.ID)
		w.forward(x.Desired.State.Before(old.Desired.State), "task %s was wanted at %s and is at %s", x.ID, old.Desired.State, x.Desired.State)
		w.forward(x.Observed.State < old.Observed.State || old.Observed.State.Terminal() && x.Observed != old.Observed, "task %s was observed %s and is %s", x.ID,
			old.Observed.State, x.Observed.State)
		w.forward(old.Placed() && !reflect.DeepEqual(old.Placement, x.Placement), "task %s was placed twice", x.ID)
		w.forward(old.Condition.State == cluster.Gone && x.Condition != old.Condition, "task %s was gone and is %s", x.ID, x.Condition.State)
	}
	for x := range t.Before.Tasks() {
		if t.State.Task(x.ID) == nil {
			differs("task", string(x.ID), "dropped", true, false)
		}
	}
}

// forward records a failure if what moves only forward went back.
func (w *World) forward(back bool, format string, args ...any) {
	w.looked("steps forward")
	if back {
		w.failf("only forward: %s", fmt.Sprintf(format, args...))
	}
}
