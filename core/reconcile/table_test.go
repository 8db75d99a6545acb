package reconcile_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

//go:embed testdata/table.txt
var table string

// TestTable decides about one slot, s, in every combination of what is wanted of it, the state of its tasks a and b, and what is said about a.
func TestTable(t *testing.T) {
	covered := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		left, want, ok := strings.Cut(line, "=>")
		f := strings.Fields(left)
		if !ok || len(f) != 3 {
			t.Fatalf("%q: want STATUS TASKS CAUSES => WHAT", line)
		}
		for _, status := range list(f[0], statuses) {
			for _, tasks := range list(f[1], taskStates) {
				for _, cause := range list(f[2], causes) {
					name := status + "/" + tasks + "/" + cause
					if covered[name] {
						t.Fatalf("%q: %s has an earlier line", line, name)
					}
					covered[name] = true
					t.Run(name, func(t *testing.T) { tableCase(t, status, tasks, cause, strings.TrimSpace(want)) })
				}
			}
		}
	}
	for _, status := range statuses {
		for _, tasks := range taskStates {
			for _, cause := range causes {
				if name := status + "/" + tasks + "/" + cause; !covered[name] {
					t.Errorf("no line for %s", name)
				}
			}
		}
	}
}

var (
	statuses   = []string{"wanted", "held", "excluded", "unwanted"}
	causes     = []string{"nothing", "drain", "drift", "update", "keep", "forced"}
	taskStates = []string{
		"none", "waiting", "placed", "starting", "up", "unhealthy", "stopping", "failed", "complete", "rejected", "finished", "stopped", "cancelled",
		"lost", "lost+waiting", "lost+starting", "lost+up", "returned+waiting", "returned+starting", "up+up", "gone", "unknown",
	}
)

func list(words string, all []string) []string {
	if words == "*" {
		return all
	}
	out := strings.Split(words, ",")
	for _, w := range out {
		if !slices.Contains(all, w) {
			panic("no such word: " + w)
		}
	}
	return out
}

func tableCase(t *testing.T, status, tasks, cause, want string) {
	s := newScene(t, 3, func(spec *cluster.JobSpec) { spec.Type = "test" })
	c := tableScene{scene: s, names: map[cluster.TaskID]string{cluster.NewTaskID(jobName, "s", s.rev+1): "c"}}
	c.slot = &cluster.Slot{Job: jobName, Key: "s", Created: 50, Version: 1, SpecVersion: 1, SpentFor: 1, Ends: tasks == "finished"}
	s.slots["j/s"] = c.slot
	states := strings.Split(tasks, "+")
	if states[0] != "none" {
		c.add("a", 1, states[0], cause)
	}
	if len(states) == 2 {
		c.add("b", 2, states[1], "")
	}
	c.status(status, cause)
	if cause == "update" {
		s.version(env("2"))
	}
	s.decide()
	got := describe(s.last, c.names)
	for i, w := range got {
		got[i] = strings.Replace(w, "drop slot s", "drop slot", 1)
	}
	if s.slots["j/s"] != nil && s.slots["j/s"].Done {
		got = append(got, "done")
	}
	for _, st := range s.last.Stalls {
		if st.Subject.Kind != cluster.SubjectUpdate {
			got = append(got, "!"+string(st.Code))
		}
	}
	slices.Sort(got)
	if out := strings.Join(got, " "); out != strings.Join(sortedWords(want), " ") {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
}

func sortedWords(want string) []string {
	var out []string
	for w := range strings.SplitSeq(want, ",") {
		if w = strings.TrimSpace(w); w != "-" {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}

// tableScene is a scene with one slot whose tasks have short names.
type tableScene struct {
	*scene
	slot  *cluster.Slot
	names map[cluster.TaskID]string
}

// add gives the slot a task in a state, on the node with the given number, and says something about it. Whatever ended did so long ago.
func (c *tableScene) add(name string, node int, state, cause string) {
	s := c.scene
	rev := cluster.Revision(50 + node)
	t := &cluster.Task{
		ID: cluster.NewTaskID(jobName, "s", rev), Job: jobName, Slot: "s", JobVersion: 1, SpecVersion: 1, CreatedRev: rev, Created: s.now,
		Desired: cluster.Desired{State: cluster.DesiredRunning, Grace: -1}, Condition: cluster.Condition{State: cluster.OK},
	}
	n := s.node(node)
	long := cluster.Time{}.Add(start - time.Hour)
	if state != "waiting" && state != "cancelled" {
		t.Placement = cluster.Placement{Node: n.ID, Since: long}
	}
	observed := map[string]cluster.ObservedState{
		"starting": cluster.Starting, "up": cluster.Running, "unhealthy": cluster.Running, "stopping": cluster.Running, "failed": cluster.Failed,
		"complete": cluster.Complete, "rejected": cluster.Rejected, "finished": cluster.Complete, "stopped": cluster.Stopped, "lost": cluster.Running,
		"returned": cluster.Running, "gone": cluster.Running, "unknown": cluster.Failed,
	}
	t.Observed = cluster.Observed{State: observed[state], At: long}
	t.Observed.Healthy = t.Observed.State == cluster.Running && state != "unhealthy"
	switch state {
	case "stopping", "stopped", "cancelled":
		t.Desired.State = cluster.DesiredShutdown
	case "finished":
		t.Desired.State = cluster.DesiredComplete
	case "lost":
		n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: long}
	case "gone":
		n.Status, n.Spec.Decommissioned = cluster.NodeStatus{State: cluster.NodeDown, Since: long}, true
		t.Condition = cluster.Condition{State: cluster.Gone, Since: long}
	case "unknown":
		t.Observed.Unknown = true
	}
	s.tasks[t.ID] = t
	c.names[t.ID] = name
	if t.Placed() {
		c.say(t, n, cause)
	}
}

// say has a drainer or a filter speak of a task, and drains its node if a drainer does.
func (c *tableScene) say(t *cluster.Task, n *cluster.Node, cause string) {
	tr := cluster.Transition{Task: t.ID, To: cluster.DesiredShutdown, Cause: cluster.CauseDrain, By: "test", Reason: "said so", Grace: -1}
	var say reconcile.Saying
	switch cause {
	case "drift":
		c.verdicts[n.ID] = reconcile.Verdict{Refused: true, Evicts: true, By: "filter", Detail: "node.labels.disk == ssd"}
		return
	case "drain":
		tr.Strength = cluster.Voluntary
	case "keep":
		tr.Strength = cluster.Keep
		say.Stalls = []cluster.Stall{{Source: "test", Code: "keep"}}
	case "forced":
		tr.Strength = cluster.Forced
	default:
		return
	}
	n.Spec.Availability = cluster.Drain
	say.Transition = tr
	c.says[t.ID] = say
}

// status has the job's type answer so that the slot is wanted, held, excluded or unwanted.
func (c *tableScene) status(status, cause string) {
	c.answer = reconcile.Answer{Known: true, Fresh: true}
	w := reconcile.WantedSlot{Key: "s", Ends: c.slot.Ends}
	switch status {
	case "held":
		w.Stall = &cluster.Stall{Source: "test", Code: "hold"}
	case "excluded":
		w.Nodes = []cluster.NodeID{"n1", "n2"}
		for _, id := range w.Nodes {
			c.verdicts[id] = reconcile.Verdict{Refused: true, Evicts: cause == "drift" && id == "n1", By: "filter"}
		}
	case "unwanted":
		return
	}
	c.answer.Slots = []reconcile.WantedSlot{w}
}
