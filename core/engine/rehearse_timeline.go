package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Forecast is what would follow from what was tried.
type Forecast struct {
	Revision    cluster.Revision // of the state from which it goes
	Took        time.Duration    // made-up time until nothing moved any more, or to the limit
	Turns       int
	Settled     bool            // nothing moves any more; false: a limit ended the trying
	Events      []ForeseenEvent // in their order
	Slots       []ForeseenSlot  // whose task would be another, by job and slot
	Stalls      []ForeseenStall // those that were there, or that would be, by time
	Assumptions []string
}

// ForeseenKind is what an event of a forecast is.
type ForeseenKind string

// The kinds of foreseen event.
const (
	ForeseenCreate  ForeseenKind = "create"  // a task begins on a node
	ForeseenStop    ForeseenKind = "stop"    // a task is told to stop
	ForeseenUpdate  ForeseenKind = "update"  // a job's update begins, ends or pauses
	ForeseenVersion ForeseenKind = "version" // a job has a new version
	ForeseenDrained ForeseenKind = "drained" // a node is empty
	ForeseenWait    ForeseenKind = "stall"   // something waits, and still does in the end
)

// ForeseenEvent is one thing that would happen.
type ForeseenEvent struct {
	At   time.Duration // after the beginning
	Kind ForeseenKind
	Job  string
	Slot cluster.SlotKey
	Task cluster.TaskID // of a task that is there already; a new one's id would be another
	Node string         // name
	Text string         // why
	By   string
}

// SlotChange is what becomes of a slot.
type SlotChange string

// What can become of a slot whose task would be another.
const (
	SlotFilled   SlotChange = "create"  // it had no task, and has one
	SlotEmptied  SlotChange = "stop"    // it had a task, and has none
	SlotMoved    SlotChange = "move"    // its task would be on another node
	SlotReplaced SlotChange = "replace" // another task of the same node
)

// ForeseenSlot is a slot whose task would be another.
type ForeseenSlot struct {
	Job     string
	Slot    cluster.SlotKey
	Change  SlotChange
	From    string         // node's name; "" for a slot that had no task
	To      string         // "" for one that would have none
	Task    cluster.TaskID // that it had
	Waiting bool           // its next task would find no node
}

// ForeseenStall is something that waits.
type ForeseenStall struct {
	cluster.Stall
	Job    string
	At     time.Duration // when it begins; 0 with Before
	Until  time.Duration // when it ends; negative: it stands in the end
	Before bool          // it was there already
	Tasks  int           // that wait with it in the end, of a group
	Held   bool          // it holds a slot until its node is used again, which is as it should be
}

// Count returns how many slots would change in a way.
func (f *Forecast) Count(c SlotChange) int {
	n := 0
	for i := range f.Slots {
		if f.Slots[i].Change == c {
			n++
		}
	}
	return n
}

// Stalled returns what would wait in the end and does not wait now, but for slots that are only held.
func (f *Forecast) Stalled() []ForeseenStall {
	var out []ForeseenStall
	for _, s := range f.Stalls {
		if !s.Before && s.Until < 0 && !s.Held {
			out = append(out, s)
		}
	}
	return out
}

// begin notes how things are before anything is tried.
func (c *forecast) begin() {
	st := c.e.View()
	c.out.Revision = st.Revision
	c.before = standing(st)
	underway, silent, down := 0, 0, 0
	for t := range st.Tasks() {
		c.assign(st, t.ID)
		if !t.Dead() && (!t.Desired.State.Wanted() || t.Observed.State < cluster.Running) {
			underway++
		}
	}
	for n := range st.Nodes() {
		switch {
		case n.Spec.Decommissioned:
		case n.Status.State == cluster.NodeSilent:
			silent++
		case n.Status.State == cluster.NodeDown:
			down++
		}
	}
	for s := range st.Stalls() {
		c.stalled[s.Key()] = &ForeseenStall{Stall: *s, Before: true, Until: -1}
	}
	c.assume("a task starts and is healthy within %s, stops within %s, and runs until it is told to stop", nominalStart, nominalStop)
	if silent+down == 0 {
		c.assume("nodes stay as they are: none is silent or down")
	} else {
		c.assume("nodes stay as they are: %d silent, %d down", silent, down)
	}
	if underway > 0 {
		c.assume("what becomes of tasks that wait, start or stop already is included: %d", underway)
	}
	for _, name := range c.e.pluginNames {
		if p := c.e.plugins[name]; !p.up {
			c.assume("plugin %s is away: what it has said stays in use, what it has not judged stays unjudged", name)
		}
	}
}

// standing returns by slot the task that it has: wanted, placed and not dead; the newest of several.
func standing(s *State) map[string]cluster.Task {
	out := map[string]cluster.Task{}
	for t := range s.Tasks() {
		if t.Dead() || !t.Placed() || !t.Desired.State.Wanted() {
			continue
		}
		key := t.Job + "/" + string(t.Slot)
		if old, ok := out[key]; !ok || old.CreatedRev < t.CreatedRev {
			out[key] = *t
		}
	}
	return out
}

// note writes down what a turn does.
func (c *forecast) note(t Turn) {
	for _, a := range t.Changes {
		switch x := a.Change.(type) {
		case cluster.PutStall:
			c.noteStall(x.Stall)
		case cluster.RemoveStall:
			if s := c.stalled[x.Key]; s != nil && s.Until < 0 {
				s.Until = c.elapsed()
			}
		default:
			if e := c.event(t, a.Change); e != nil {
				e.At = c.elapsed()
				c.out.Events = append(c.out.Events, *e)
			}
		}
	}
	if len(t.Changes) > 0 {
		c.out.Took = c.elapsed()
	}
}

func (c *forecast) elapsed() time.Duration { return c.now.Engine - c.began.Engine }

func (c *forecast) noteStall(s *cluster.Stall) {
	if s.Subject.Kind == cluster.SubjectPlugin {
		return // that it cannot be asked here is assumed, and follows from nothing that is tried
	}
	old := c.stalled[s.Key()]
	if old == nil || old.Until >= 0 {
		c.stalled[s.Key()] = &ForeseenStall{Stall: *s, At: c.elapsed(), Until: -1, Before: old != nil && old.Before}
		return
	}
	old.Stall = *s
}

func (c *forecast) event(t Turn, change cluster.Change) *ForeseenEvent {
	switch x := change.(type) {
	case cluster.SetPlacement:
		task := t.State.Task(x.Task)
		return &ForeseenEvent{
			Kind: ForeseenCreate, Job: task.Job, Slot: task.Slot, Node: nameOf(t.State, x.Placement.Node), Text: fmt.Sprintf("%s, version %d", task.Why, task.JobVersion),
		}
	case cluster.SetDesired:
		task := t.Before.Task(x.Task)
		if task == nil || x.Desired.State.Wanted() || !task.Desired.State.Wanted() || task.Dead() {
			return nil
		}
		return &ForeseenEvent{
			Kind: ForeseenStop, Job: task.Job, Slot: task.Slot, Task: task.ID, Node: nameOf(t.State, task.Placement.Node), Text: x.Desired.Reason, By: x.Desired.By,
		}
	case cluster.SetUpdate:
		if old := t.Before.Job(x.Job); x.Update.State == cluster.UpdateNone || old != nil && old.Update.State == x.Update.State && old.Update.To == x.Update.To {
			return nil
		}
		text := fmt.Sprintf("%s, version %d to %d", x.Update.State, x.Update.From, x.Update.To)
		if x.Update.Message != "" {
			text += ": " + x.Update.Message
		}
		return &ForeseenEvent{Kind: ForeseenUpdate, Job: x.Job, Text: text}
	case cluster.PutJob:
		j := x.Job
		if old := t.Before.Job(j.Name); old != nil && old.Control.Version == j.Control.Version {
			return nil
		}
		return &ForeseenEvent{Kind: ForeseenVersion, Job: j.Name, Text: fmt.Sprintf("version %d: %s", j.Control.Version, j.Control.Versions[len(j.Control.Versions)-1].Reason)}
	case cluster.SetDrain:
		if x.Drain.State == cluster.Drained {
			return &ForeseenEvent{Kind: ForeseenDrained, Node: nameOf(t.State, x.Node)}
		}
	}
	return nil
}

func nameOf(s *State, id cluster.NodeID) string {
	if n := s.Node(id); n != nil {
		return n.Spec.Name
	}
	return string(id)
}

// finish compares how things stand in the end with how they stood.
func (c *forecast) finish() {
	st := c.e.View()
	after := standing(st)
	keys := maps.Clone(after)
	maps.Copy(keys, c.before)
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b string) int {
		x, y := keys[a], keys[b]
		return cmp.Or(cmp.Compare(x.Job, y.Job), compareKeys(x.Slot, y.Slot))
	}) {
		was, had := c.before[key]
		is, has := after[key]
		if had && has && was.ID == is.ID {
			continue
		}
		s := ForeseenSlot{Job: keys[key].Job, Slot: keys[key].Slot, Change: SlotMoved}
		if had {
			s.Task, s.From = was.ID, nameOf(st, was.Placement.Node)
		}
		if has {
			s.To = nameOf(st, is.Placement.Node)
		}
		switch {
		case !had:
			s.Change = SlotFilled
		case !has:
			s.Change, s.Waiting = SlotEmptied, slices.ContainsFunc(st.SlotTasks(s.Job, s.Slot), waiting)
		case was.Placement.Node == is.Placement.Node:
			s.Change = SlotReplaced
		}
		c.out.Slots = append(c.out.Slots, s)
	}
	c.finishStalls()
	if !c.out.Settled {
		c.assume("the trying ended after %s of made-up time and %d turns, while something still moved", c.elapsed(), c.out.Turns)
	}
}

// finishStalls explains what waits in the end.
func (c *forecast) finishStalls() {
	for _, key := range slices.Sorted(maps.Keys(c.stalled)) {
		s := c.stalled[key]
		s.Job = s.Subject.Job()
		if s.Until < 0 {
			switch s.Subject.Kind {
			case cluster.SubjectGroup:
				c.explain(s)
			case cluster.SubjectSlot:
				switch s.Code {
				case cluster.CodeNodeDraining, cluster.CodeNodePaused, cluster.CodeNodeDown, cluster.CodeNodeSilent:
					s.Held = true
				}
			}
		}
		c.out.Stalls = append(c.out.Stalls, *s)
		if s.Until < 0 && !s.Before && !s.Held {
			c.out.Events = append(c.out.Events, ForeseenEvent{At: s.At, Kind: ForeseenWait, Job: s.Job, Text: cmp.Or(s.Message, string(s.Code)), By: s.Source})
		}
	}
	byTime := func(a, b ForeseenStall) int { return cmp.Compare(a.At, b.At) }
	slices.SortStableFunc(c.out.Stalls, byTime)
	slices.SortStableFunc(c.out.Events, func(a, b ForeseenEvent) int { return cmp.Compare(a.At, b.At) })
}

// explain says with amounts and names why a group waits.
func (c *forecast) explain(s *ForeseenStall) {
	g := c.e.groups[s.Subject.ID]
	if g == nil {
		return
	}
	s.Tasks = len(g.tasks)
	v, err := c.e.why(Why{Task: g.sorted()[0].ID})
	if why, ok := v.(WhyResult); ok && err == nil {
		s.Message, s.Clears = cmp.Or(why.Sentence, s.Message), cmp.Or(why.Clears, s.Clears)
	}
}
