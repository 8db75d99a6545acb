package reconcile_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// scene is a cluster in memory with one job under test, as reconcile sees it.
type scene struct {
	t     *testing.T
	now   cluster.Time
	rev   cluster.Revision
	jobs  map[string]*cluster.Job
	slots map[string]*cluster.Slot
	tasks map[cluster.TaskID]*cluster.Task
	nodes map[cluster.NodeID]*cluster.Node

	answer   reconcile.Answer
	says     map[cluster.TaskID]reconcile.Saying
	space    map[cluster.SlotKey]string
	verdicts map[cluster.NodeID]reconcile.Verdict

	last  reconcile.Result // of the last decision
	notes notes
}

var _ reconcile.View = (*scene)(nil)

// saying is what is said of a task.
type saying = reconcile.Saying

// start is late enough that what happened hours ago has a time.
const start = 100 * time.Hour

const jobName = "j"

// newScene returns a scene with n active and ready nodes n1, n2, … and a job at version 1.
func newScene(t *testing.T, n int, edit func(*cluster.JobSpec)) *scene {
	s := &scene{
		t: t, now: cluster.Time{}.Add(start), rev: 100,
		jobs: map[string]*cluster.Job{}, slots: map[string]*cluster.Slot{}, tasks: map[cluster.TaskID]*cluster.Task{},
		nodes: map[cluster.NodeID]*cluster.Node{}, says: map[cluster.TaskID]reconcile.Saying{}, verdicts: map[cluster.NodeID]reconcile.Verdict{},
	}
	for i := range n {
		s.node(i + 1)
	}
	s.jobs[jobName] = &cluster.Job{Name: jobName, Created: s.now, CreatedRev: 1}
	s.version(func(spec *cluster.JobSpec) {
		*spec = cluster.JobSpec{Name: jobName, Task: cluster.TaskSpec{Command: []string{"x"}}}.WithDefaults()
		spec.MaxUnavailable = cluster.Amount{Count: 1}
		spec.Update.Monitor = 10 * time.Second
		spec.Update.ProgressDeadline = 0
		spec.HistoryLimit = 100
		spec.Restart = cluster.RestartSpec{Condition: cluster.RestartAny, Delay: time.Second, MaxDelay: 8 * time.Second}
		if edit != nil {
			edit(spec)
		}
	})
	return s
}

func (s *scene) node(i int) *cluster.Node {
	id := cluster.NodeID("n" + strconv.Itoa(i))
	n := s.nodes[id]
	if n == nil {
		n = &cluster.Node{ID: id, Spec: cluster.NodeSpec{Name: string(id), Availability: cluster.Active}, Status: cluster.NodeStatus{State: cluster.NodeReady}}
		s.nodes[id] = n
	}
	return n
}

func (s *scene) job() *cluster.Job { return s.jobs[jobName] }

// version makes the next version of the job. A version whose task section equals an earlier one takes over its name.
func (s *scene) version(edit func(*cluster.JobSpec)) {
	j := *s.job()
	c := &j.Control
	c.Version++
	c.Spec.Task.Env = maps.Clone(c.Spec.Task.Env)
	edit(&c.Spec)
	c.SpecVersion = c.Version
	for _, v := range c.Versions {
		if v.Restarts == c.Restarts && fmt.Sprint(v.Spec.Task) == fmt.Sprint(c.Spec.Task) {
			c.SpecVersion = v.SpecVersion
		}
	}
	c.Changed, c.ChangedRev, c.UpdateHold = s.now, s.rev, false
	c.Versions = append(slices.Clone(c.Versions), cluster.JobVersion{
		Version: c.Version, SpecVersion: c.SpecVersion, Restarts: c.Restarts, Spec: c.Spec, Created: s.now, Reason: "submitted",
	})
	s.jobs[jobName] = &j
}

// control changes what was asked of the job without making a version.
func (s *scene) control(edit func(*cluster.JobControl)) {
	j := *s.job()
	edit(&j.Control)
	s.jobs[jobName] = &j
}

// env edits the task section, so that all slots are stale.
func env(v string) func(*cluster.JobSpec) {
	return func(spec *cluster.JobSpec) { spec.Task.Env = map[string]string{"V": v} }
}

// restart is what job restart does.
func (s *scene) restart() {
	j := *s.job()
	j.Control.Restarts++
	s.jobs[jobName] = &j
	s.version(func(*cluster.JobSpec) {})
}

func (s *scene) Job(name string) *cluster.Job { return s.jobs[name] }

func (s *scene) Slots(job string) []*cluster.Slot {
	var out []*cluster.Slot
	for _, v := range s.slots {
		if v.Job == job {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Slot) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return out
}

func (s *scene) Slot(job string, key cluster.SlotKey) *cluster.Slot {
	return s.slots[job+"/"+string(key)]
}

func (s *scene) SlotTasks(job string, key cluster.SlotKey) []*cluster.Task {
	out := slices.Collect(s.find(func(t *cluster.Task) bool { return t.Job == job && t.Slot == key }))
	slices.SortFunc(out, func(a, b *cluster.Task) int { return cmp.Compare(a.CreatedRev, b.CreatedRev) })
	return out
}

func (s *scene) find(ok func(*cluster.Task) bool) iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
			if ok(s.tasks[id]) && !yield(s.tasks[id]) {
				return
			}
		}
	}
}

func (s *scene) TasksOf(job string) iter.Seq[*cluster.Task] {
	return s.find(func(t *cluster.Task) bool { return t.Job == job })
}

func (s *scene) TasksOn(node cluster.NodeID) iter.Seq[*cluster.Task] {
	return s.find(func(t *cluster.Task) bool { return t.Placement.Node == node })
}

func (s *scene) Node(id cluster.NodeID) *cluster.Node { return s.nodes[id] }

func (s *scene) Verdict(_ *cluster.Job, node cluster.NodeID) reconcile.Verdict {
	return s.verdicts[node]
}

func (s *scene) Answer(_ *cluster.Job, of []cluster.SlotKey) reconcile.Answer {
	out := s.answer
	if of != nil {
		out.Slots = slices.DeleteFunc(slices.Clone(out.Slots), func(w reconcile.WantedSlot) bool { return !slices.Contains(of, w.Key) })
	}
	return out
}

func (s *scene) Says(t *cluster.Task) reconcile.Saying { return s.says[t.ID] }

// Fits finds room somewhere, unless the scene says that a slot's next task has none, or only where the old one was.
func (s *scene) Fits(_ *cluster.Job, slot *cluster.Slot, leaving *cluster.Task, _ []reconcile.Claim) reconcile.Fit {
	switch space := s.space[slot.Key]; {
	case space == noRoom, space == inPlace && leaving == nil:
		return reconcile.Fit{Code: cluster.CodeInsufficientResources, Why: "no room"}
	case leaving != nil:
		return reconcile.Fit{Node: leaving.Placement.Node}
	}
	return reconcile.Fit{Node: "elsewhere"}
}

// Better finds the node with the fewest tasks of the job, as will be once those that leave have left, if it has fewer than the task's own will have then.
func (s *scene) Better(j *cluster.Job, slot *cluster.Slot, t *cluster.Task, also []reconcile.Claim, leaving map[cluster.NodeID]int) cluster.NodeID {
	counts := map[cluster.NodeID]int{}
	for _, c := range also {
		counts[c.Node]++
	}
	for x := range s.TasksOf(j.Name) {
		if x.ID != t.ID && x.Placed() && !x.Dead() {
			counts[x.Placement.Node]++
		}
	}
	for id, n := range leaving {
		counts[id] -= n
	}
	for _, v := range s.slots {
		if v.Claim != "" && !slices.ContainsFunc(s.SlotTasks(v.Job, v.Key), func(x *cluster.Task) bool { return x.Placed() && x.Desired.State.Wanted() && !x.Dead() }) {
			counts[v.Claim]++
		}
	}
	best := t.Placement.Node
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		if s.space[slot.Key] != noRoom && s.nodes[id].Usable() && !s.verdicts[id].Refused && counts[id] < counts[best] {
			best = id
		}
	}
	if best == t.Placement.Node {
		return ""
	}
	return best
}

// What a scene says of the room for a slot's next task.
const (
	noRoom  = "none"
	inPlace = "in place"
)

// decide decides about the job and applies what was decided.
func (s *scene) decide() reconcile.Result {
	s.t.Helper()
	s.rev++
	s.last = s.decideBoth()
	for _, c := range s.last.Changes {
		s.apply(c)
	}
	return s.last
}

// apply makes a change by the rules to which the engine holds it.
func (s *scene) apply(c cluster.Change) {
	s.t.Helper()
	if err := cluster.Check(cluster.AuthorReconcile, c); err != nil {
		s.t.Fatal(err)
	}
	switch c := c.(type) {
	case cluster.AddTask:
		if s.tasks[c.Task.ID] != nil {
			s.t.Fatalf("task %s exists already", c.Task.ID)
		}
		s.tasks[c.Task.ID] = c.Task
	case cluster.SetDesired:
		t := s.edit(c.Task)
		if !t.Desired.State.Before(c.Desired.State) {
			s.t.Fatalf("task %s goes from %s to %s", t.ID, t.Desired.State, c.Desired.State)
		}
		t.Desired = c.Desired
	case cluster.RemoveTask:
		s.edit(c.Task)
		delete(s.tasks, c.Task)
	case cluster.PutSlot:
		s.slots[c.Slot.ID()] = c.Slot
	case cluster.RemoveSlot:
		delete(s.slots, c.Job+"/"+string(c.Key))
	case cluster.SetUpdate:
		j := *s.jobs[c.Job]
		j.Update = c.Update
		s.jobs[c.Job] = &j
	case cluster.SetRebalance:
		j := *s.jobs[c.Job]
		j.Rebalance = c.Rebalance
		s.jobs[c.Job] = &j
	case cluster.SetDrain:
		n := *s.nodes[c.Node]
		n.Drain = c.Drain
		s.nodes[c.Node] = &n
	default:
		s.t.Fatalf("reconcile makes no %T", c)
	}
}

// edit returns a task that may be changed: it replaces the one that decisions have seen.
func (s *scene) edit(id cluster.TaskID) *cluster.Task {
	s.t.Helper()
	t := s.tasks[id]
	if t == nil {
		s.t.Fatalf("no task %s", id)
	}
	c := *t
	s.tasks[id] = &c
	return &c
}

// pass lets time go by.
func (s *scene) pass(d time.Duration) { s.now = s.now.Add(d) }

// of returns the newest task of a slot.
func (s *scene) of(key cluster.SlotKey) *cluster.Task {
	s.t.Helper()
	all := s.SlotTasks(jobName, key)
	if len(all) == 0 {
		s.t.Fatalf("slot %s has no task", key)
	}
	return all[len(all)-1]
}

func (s *scene) slot(key cluster.SlotKey) *cluster.Slot {
	s.t.Helper()
	v := s.slots[jobName+"/"+string(key)]
	if v == nil {
		s.t.Fatalf("no slot %s", key)
	}
	return v
}

// observe has the newest task of a slot placed, if it is not, and seen in a state.
func (s *scene) observe(key cluster.SlotKey, state cluster.ObservedState) {
	s.t.Helper()
	s.see(s.of(key).ID, state)
}

// see has a task placed, if it is not, and seen in a state.
func (s *scene) see(id cluster.TaskID, state cluster.ObservedState) {
	s.t.Helper()
	t := s.edit(id)
	if !t.Placed() {
		t.Placement = cluster.Placement{Node: s.room(t), Since: s.now}
		if !t.Placed() {
			s.t.Fatalf("no node for %s", t.ID)
		}
	}
	t.Observed = cluster.Observed{State: state, Healthy: state == cluster.Running, At: s.now}
	if state == cluster.Failed {
		t.Observed.Err, t.Observed.ExitCode = "exit code 1", 1
	}
}

// room returns the usable node with the fewest tasks, by a simple rule of its own, or "".
func (s *scene) room(t *cluster.Task) cluster.NodeID {
	best, least := cluster.NodeID(""), 0
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[id]
		if !n.Usable() || s.verdicts[id].Refused || len(t.Nodes) > 0 && !slices.Contains(t.Nodes, id) {
			continue
		}
		count := 0
		for x := range s.TasksOn(id) {
			if !x.Dead() {
				count++
			}
		}
		if best == "" || count < least {
			best, least = id, count
		}
	}
	return best
}

// run decides, starts what waits and stops what is told to stop, until nothing changes.
func (s *scene) run() {
	s.t.Helper()
	for range 1000 {
		s.decide()
		if !s.act() && len(s.last.Changes) == 0 {
			return
		}
	}
	s.t.Fatal("it never settles")
}

// act has every agent do what it is told: waiting tasks run, stopping tasks stop, on nodes that are not down.
func (s *scene) act() bool {
	s.t.Helper()
	acted := false
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		n := s.nodes[t.Placement.Node]
		switch {
		case t.Dead() || n != nil && n.Down() || n == nil && s.room(t) == "":
		case t.Desired.State.Wanted() && (t.Observed.State != cluster.Running || !t.Observed.Healthy):
			s.see(id, cluster.Running)
			acted = true
		case !t.Desired.State.Wanted():
			s.see(id, cluster.Stopped)
			acted = true
		}
	}
	return acted
}

// told returns what the last decision did, one word or two for each task or slot, sorted.
func (s *scene) told() string { return strings.Join(describe(s.last, nil), ", ") }

// stalls returns the codes of the stalls of a subject in the last decision, sorted.
func (s *scene) stalls(kind cluster.SubjectKind, id string) []cluster.Code {
	var out []cluster.Code
	for _, st := range s.last.Stalls {
		if st.Subject == (cluster.Subject{Kind: kind, ID: id}) {
			out = append(out, st.Code)
		}
	}
	slices.Sort(out)
	return out
}

func (s *scene) slotStalls(key cluster.SlotKey) []cluster.Code {
	return s.stalls(cluster.SubjectSlot, jobName+"/"+string(key))
}

// message returns the text of a slot's stall in the last decision.
func (s *scene) message(key cluster.SlotKey, code cluster.Code) string {
	return s.stall(key, code).Message
}

// stall returns a slot's stall of a code, or an empty one.
func (s *scene) stall(key cluster.SlotKey, code cluster.Code) cluster.Stall {
	for _, st := range s.last.Stalls {
		if st.Subject.ID == jobName+"/"+string(key) && st.Code == code {
			return st
		}
	}
	return cluster.Stall{}
}

// describe names what a decision did to tasks and slots. names gives tasks shorter names; without it they are called by slot.
func describe(r reconcile.Result, names map[cluster.TaskID]string) []string {
	name := func(id cluster.TaskID) string {
		if n, ok := names[id]; ok {
			return n
		}
		_, key, _, err := id.Parts()
		if err != nil {
			panic(err)
		}
		return string(key)
	}
	removed := map[cluster.TaskID]bool{}
	told := map[cluster.TaskID]bool{}
	for _, c := range r.Changes {
		switch c := c.(type) {
		case cluster.RemoveTask:
			removed[c.Task] = true
		case cluster.SetDesired:
			told[c.Task] = true
		}
	}
	var out []string
	for _, c := range r.Changes {
		switch c := c.(type) {
		case cluster.AddTask:
			out = append(out, "new "+name(c.Task.ID))
		case cluster.SetDesired:
			switch {
			case removed[c.Task]:
				out = append(out, "cancel "+name(c.Task))
			case c.Desired.State == cluster.DesiredRemove:
				out = append(out, "remove "+name(c.Task))
			default:
				out = append(out, "stop "+name(c.Task))
			}
		case cluster.RemoveTask:
			if !told[c.Task] {
				out = append(out, "drop "+name(c.Task))
			}
		case cluster.RemoveSlot:
			out = append(out, "drop slot "+string(c.Key))
		}
	}
	slices.Sort(out)
	return out
}
