package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// typed is an engine with three ready nodes, the plugin g, which serves type each, and a job log of that type; and what g is told of the job.
func typed(t *testing.T) (*Engine, PluginJob) {
	t.Helper()
	e := New(Config{Plugins: []string{"g"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2", "n3")
	out := step(e, 2, PluginUp{Name: "g", Session: 1, JobTypes: []string{"each"}})
	step(e, 2, PluginApplied{Name: "g", Session: 1, Revision: out.Plugins[0].Revision})
	out = step(e, 3, run("log", func(s *cluster.JobSpec) {
		s.Type, s.Count, s.Task.Resources, s.MaxUnavailable = "each", 0, cluster.Resources{}, cluster.Amount{Count: 3}
	}))
	return e, out.Plugins[0].AddJobs[0]
}

// each names a slot for each of the nodes with the given indexes.
func each(j PluginJob, session uint64, nodes ...uint32) PluginSlots {
	in := PluginSlots{Name: "g", Session: session, Revision: j.Revision, Job: j.Name, JobRevision: j.Revision}
	for _, i := range nodes {
		in.Upsert = append(in.Upsert, SlotAnswer{Key: cluster.SlotKey([]string{"n1", "n2", "n3"}[i]), Nodes: []uint32{i}})
	}
	return in
}

func slotKeys(e *Engine) []cluster.SlotKey {
	var out []cluster.SlotKey
	for _, s := range e.View().Slots("log") {
		if !s.Unwanted {
			out = append(out, s.Key)
		}
	}
	return out
}

func liveTasks(e *Engine) int {
	n := 0
	for x := range e.View().TasksOf("log") {
		if x.Desired.State.Wanted() && !x.Dead() {
			n++
		}
	}
	return n
}

func jobCodes(e *Engine) []cluster.Code {
	var out []cluster.Code
	for _, s := range e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: "log"}) {
		out = append(out, s.Code)
	}
	return out
}

// fresh says that all answers up to now hold.
func fresh(e *Engine, session uint64) Input {
	return PluginApplied{Name: "g", Session: session, Revision: e.View().Revision}
}

func TestSlotsOfAJobType(t *testing.T) {
	e, j := typed(t)
	if got := jobCodes(e); len(got) != 0 || len(slotKeys(e)) != 0 {
		t.Errorf("while the answer is on its way the job has stalls %v, slots %v", got, slotKeys(e))
	}
	step(e, 4, each(j, 1, 0, 1, 2), fresh(e, 1))
	if got := slotKeys(e); len(got) != 3 || liveTasks(e) != 3 || len(jobCodes(e)) != 0 {
		t.Fatalf("slots %v, %d tasks, stalls %v", got, liveTasks(e), jobCodes(e))
	}
	for x := range e.View().TasksOf("log") {
		if string(x.Placement.Node) != string(x.Slot) {
			t.Errorf("%s is on %s", x.ID, x.Placement.Node)
		}
	}
	step(e, 5, each(j, 1, 0, 2), fresh(e, 1))
	if got := liveTasks(e); got != 2 {
		t.Errorf("%d tasks after a slot was no longer named, want 2", got)
	}
}

func TestWithoutAFreshAnswerNothingIsRemoved(t *testing.T) {
	e, j := typed(t)
	step(e, 4, each(j, 1, 0, 1, 2), fresh(e, 1))
	out := step(e, 5, PluginUp{Name: "g", Session: 2, JobTypes: []string{"each"}})
	step(e, 6, each(j, 2, 0)) // it has not seen all nodes yet
	if got := liveTasks(e); got != 3 {
		t.Fatalf("%d tasks, want 3: the answer is not from a complete mirror", got)
	}
	step(e, 7, each(j, 2, 0, 1), PluginApplied{Name: "g", Session: 2, Revision: out.Plugins[0].Revision})
	if got := liveTasks(e); got != 2 {
		t.Errorf("%d tasks, want 2", got)
	}
}

func TestAnAnswerToAnOlderJobRemovesNothing(t *testing.T) {
	e, j := typed(t)
	step(e, 4, each(j, 1, 0, 1, 2), fresh(e, 1))
	step(e, 5, run("log", func(s *cluster.JobSpec) {
		s.Type, s.Count, s.Task.Resources, s.MaxUnavailable = "each", 0, cluster.Resources{}, cluster.Amount{Count: 3}
		s.Labels = map[string]string{"a": "b"}
	}))
	step(e, 6, each(j, 1, 0), fresh(e, 1)) // still about the job as it was
	if got := liveTasks(e); got != 3 {
		t.Errorf("%d tasks, want 3", got)
	}
}

func TestAFailureChangesNothing(t *testing.T) {
	e, j := typed(t)
	step(e, 4, each(j, 1, 0, 1), fresh(e, 1))
	failure := PluginSlots{Name: "g", Session: 1, Job: j.Name, JobRevision: j.Revision, Failure: &FailureAnswer{Code: cluster.CodePluginError, Message: "boom"}}
	for range 3 {
		step(e, 5, failure, fresh(e, 1))
	}
	if got := jobCodes(e); !slices.Equal(got, []cluster.Code{cluster.CodePluginError}) || liveTasks(e) != 2 || len(slotKeys(e)) != 2 {
		t.Errorf("stalls %v, %d tasks, slots %v", got, liveTasks(e), slotKeys(e))
	}
	x := slices.Collect(e.View().TasksOf("log"))[0]
	step(e, 6, AgentReports{Node: x.Placement.Node, Session: 1, Tasks: []TaskReport{{Task: x.ID, State: cluster.Failed}}})
	step(e, 6+time.Hour, AgentsHeard{})
	if got := liveTasks(e); got != 1 {
		t.Errorf("%d tasks, want 1: nothing is created meanwhile", got)
	}
	step(e, 7+time.Hour, each(j, 1, 0, 1), fresh(e, 1))
	if got := jobCodes(e); len(got) != 0 || liveTasks(e) != 2 {
		t.Errorf("after it answered: stalls %v, %d tasks", got, liveTasks(e))
	}
}

func TestSlotsOfNodesThatTakeNothingAreNotMade(t *testing.T) {
	for name, a := range map[string]cluster.Availability{"paused": cluster.Pause, "drained": cluster.Drain} {
		t.Run(name, func(t *testing.T) {
			e, j := typed(t)
			step(e, 4, command{op: SetAvailability{Nodes: []string{"n2"}, Availability: a}})
			step(e, 5, each(j, 1, 0, 1, 2), fresh(e, 1))
			if got := slotKeys(e); !slices.Equal(got, []cluster.SlotKey{"n1", "n3"}) {
				t.Fatalf("slots %v, want n1 and n3", got)
			}
			step(e, 6, command{op: SetAvailability{Nodes: []string{"n2"}, Availability: cluster.Active}}, fresh(e, 1))
			if got := liveTasks(e); got != 3 {
				t.Errorf("%d tasks once the node takes some, want 3", got)
			}
		})
	}
	t.Run("down", func(t *testing.T) {
		e, j := typed(t)
		step(e, 3*time.Hour+4, AgentsHeard{Nodes: []cluster.NodeID{"n1", "n3"}})
		step(e, 3*time.Hour+5, each(j, 1, 0, 1, 2), fresh(e, 1))
		if st := e.View().Node("n2").Status.State; st != cluster.NodeDown {
			t.Fatalf("n2 is %s", st)
		}
		if got := slotKeys(e); !slices.Equal(got, []cluster.SlotKey{"n1", "n3"}) {
			t.Errorf("slots %v, want n1 and n3", got)
		}
	})
}

func TestAPauseLeavesWhatRuns(t *testing.T) {
	e, j := typed(t)
	step(e, 4, each(j, 1, 0, 1, 2), fresh(e, 1))
	for x := range e.View().TasksOf("log") {
		step(e, 5, AgentReports{Node: x.Placement.Node, Session: 1, Tasks: []TaskReport{{Task: x.ID, State: cluster.Running, Healthy: true}}})
	}
	step(e, 6, command{op: SetAvailability{Nodes: []string{"n2"}, Availability: cluster.Pause}}, fresh(e, 1))
	if got := liveTasks(e); got != 3 {
		t.Errorf("%d tasks, want 3", got)
	}
	if got := e.View().Slot("log", "n2").Held; got != string(cluster.CodeNodePaused) {
		t.Errorf("slot n2 is held by %q", got)
	}
}

func TestAStallOfAJobTypeHoldsTheJob(t *testing.T) {
	e, j := typed(t)
	step(e, 4, each(j, 1, 0, 1), fresh(e, 1))
	in := each(j, 1)
	in.Stall = &StallAnswer{Code: "g.closed", Message: "not on Sundays"}
	step(e, 5, in, fresh(e, 1))
	if got := jobCodes(e); !slices.Equal(got, []cluster.Code{"g.closed"}) || liveTasks(e) != 2 {
		t.Errorf("stalls %v, %d tasks", got, liveTasks(e))
	}
}

func TestAnUnknownJobType(t *testing.T) {
	e := New(Config{Plugins: []string{"g"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, run("log", func(s *cluster.JobSpec) { s.Type, s.Count = "each", 0 }))
	if got := jobCodes(e); !slices.Equal(got, []cluster.Code{cluster.CodePluginPending}) {
		t.Errorf("while a plugin that has not started might serve it: stalls %v", got)
	}
	step(e, 3, PluginUp{Name: "g", Session: 1, JobTypes: []string{"other"}})
	if got := jobCodes(e); !slices.Equal(got, []cluster.Code{cluster.CodeUnknownJobType}) || len(slotKeys(e)) != 0 {
		t.Errorf("stalls %v, slots %v", got, slotKeys(e))
	}
}

// An index that a node had is given to the next that joins. What was said of the one is not said of the other.
func TestSlotsDoNotMoveToWhoeverHasTheIndexNext(t *testing.T) {
	for name, late := range map[string]bool{"said before": false, "on its way": true} {
		t.Run(name, func(t *testing.T) {
			e, j := typed(t)
			answer := each(j, 1, 0, 1, 2)
			if !late {
				step(e, 4, answer, fresh(e, 1))
			}
			step(e, 5, command{op: Decommission{Node: "n3", Force: true}})
			step(e, 6, command{op: RemoveNode{Node: "n3"}})
			join(e, 7, "n4")
			if late {
				step(e, 8, answer)
			}
			for _, s := range e.View().Slots("log") {
				if slices.Contains(s.Nodes, "n4") {
					t.Errorf("slot %s is limited to %v", s.Key, s.Nodes)
				}
			}
		})
	}
}

// Of two plugins that serve one type the first by name is asked, whichever came first, and the other says so as long as that lasts.
func TestTwoPluginsServeOneType(t *testing.T) {
	e, _ := typed(t)
	codes := func(plugin string) []string {
		var out []string
		for _, s := range e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectPlugin, ID: plugin}) {
			out = append(out, string(s.Code)+": "+s.Message)
		}
		return out
	}
	out := step(e, 4, PluginUp{Name: "a", Session: 1, JobTypes: []string{"each", "other"}})
	if len(out.Plugins) != 1 || out.Plugins[0].Plugin != "a" || len(out.Plugins[0].AddJobs) != 1 {
		t.Errorf("told %+v, want a to be asked about the job", out.Plugins)
	}
	want := []string{"job_type_taken: it is not asked about jobs of type each: plugin a serves that too, and is asked because its name comes first"}
	if got := codes("g"); !slices.Equal(got, want) {
		t.Errorf("g says %q, want %q", got, want)
	}
	step(e, 5, PluginUp{Name: "z", Session: 1, JobTypes: []string{"each"}})
	if got := codes("z"); !slices.Equal(got, want) {
		t.Errorf("z says %q, want %q", got, want)
	}
	step(e, 6, PluginDown{Name: "a", Session: 1, Code: cluster.CodePluginUnavailable, Message: "gone"})
	step(e, 7, PluginGone{Name: "a"})
	if got := codes("g"); len(got) != 0 {
		t.Errorf("g says %q when it is asked again", got)
	}
	if got := codes("z"); len(got) != 1 || !strings.Contains(got[0], "plugin g serves that too") {
		t.Errorf("z says %q", got)
	}
}
