package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// allow is a verdict on a class: of n nodes those given are allowed, and the others refused in a way that evicts.
func allow(c Class, n uint32, nodes ...uint32) ClassVerdict {
	full := &FullVerdict{Allowed: []byte{0}, Rejections: []Rejection{{Code: cluster.CodeConstraint, Detail: "node.labels.disk == ssd", Evicts: true}}}
	for i := range n {
		full.Nodes, full.Reasons = append(full.Nodes, i), append(full.Reasons, 0)
	}
	for _, i := range nodes {
		full.Allowed[0] |= 1 << i
		at := 0
		for k, x := range full.Nodes {
			if x == i {
				at = k
			}
		}
		full.Nodes, full.Reasons = append(full.Nodes[:at], full.Nodes[at+1:]...), full.Reasons[1:]
	}
	return ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Full: full}
}

func verdicts(session uint64, rev cluster.Revision, v ...ClassVerdict) Input {
	return PluginVerdicts{Name: "f", Session: session, Revision: rev, Classes: v}
}

func applied(session uint64, rev cluster.Revision) Input {
	return PluginApplied{Name: "f", Session: session, Revision: rev}
}

func up(session uint64) Input {
	return PluginUp{Name: "f", Session: session, Filter: true, Watches: cluster.Mask(cluster.FieldLabels)}
}

// filtered is an engine with three ready nodes and the filter f, which has seen them.
func filtered(t *testing.T) *Engine {
	t.Helper()
	e := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2", "n3")
	out := step(e, 2, up(1))
	step(e, 2, applied(1, out.Plugins[0].Revision))
	return e
}

func label(node string) Input {
	return command{op: LabelNode{Node: node, Set: map[string]string{"disk": "ssd"}}}
}

func wanted(t *testing.T, e *Engine, job string) bool {
	t.Helper()
	for x := range e.View().TasksOf(job) {
		if x.Placed() && !x.Desired.State.Wanted() {
			return false
		}
	}
	return true
}

func TestAPluginThatNeverDescribedItselfMayBeAFilter(t *testing.T) {
	e := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, run("web", nil))
	step(e, 3, PluginDown{Name: "f", Code: cluster.CodePluginUnavailable, Message: "no such file"})
	if placed(e, "web") != "" {
		t.Fatal("placed before anybody could object")
	}
	if got := groupStall(t, e, "web"); got.Code != cluster.CodePluginUnavailable || got.Facts.Nodes != 1 {
		t.Errorf("stall %+v", got)
	}
	step(e, 4, PluginUp{Name: "f", Session: 1, Drainer: true}) // it is no filter
	if placed(e, "web") != "n1" {
		t.Error("not placed once it said what it is")
	}
}

func TestAVerdictOlderThanTheNodeDoesNotPlace(t *testing.T) {
	e := filtered(t)
	told := step(e, 3, run("web", nil)).Plugins[0]
	c := told.AddClasses[0]
	old := e.View().Revision
	changed := step(e, 4, label("n1")).Plugins[0].Revision
	step(e, 5, verdicts(1, old, allow(c, 3, 0))) // said before the filter saw the change
	if placed(e, "web") != "" {
		t.Fatal("placed by a verdict older than its node")
	}
	step(e, 6, verdicts(1, changed, allow(c, 3, 0)), applied(1, changed))
	if placed(e, "web") != "n1" {
		t.Error("not placed by a verdict that counts")
	}
}

// placedOnN1 returns a filtered engine with job web running on n1, and its class.
func placedOnN1(t *testing.T) (*Engine, Class) {
	t.Helper()
	e := filtered(t)
	c := step(e, 3, run("web", nil)).Plugins[0].AddClasses[0]
	step(e, 4, verdicts(1, e.View().Revision, allow(c, 3, 0)))
	if placed(e, "web") != "n1" {
		t.Fatalf("placed on %q", placed(e, "web"))
	}
	step(e, 5, AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: one(t, e, "web").ID, State: cluster.Running, Healthy: true}}})
	return e, c
}

func TestAVerdictOlderThanTheNodeDoesNotEvict(t *testing.T) {
	e, c := placedOnN1(t)
	old := e.View().Revision
	changed := step(e, 6, label("n1")).Plugins[0].Revision
	step(e, 7, verdicts(1, old, allow(c, 3, 1)))
	if !wanted(t, e, "web") {
		t.Fatal("evicted by a verdict older than its node")
	}
	step(e, 4+5*time.Second, verdicts(1, changed, allow(c, 3, 1)), applied(1, changed)) // it has kept still for long enough
	if wanted(t, e, "web") {
		t.Error("not evicted by a verdict that counts")
	}
}

func TestVerdictsStayWhileThePluginIsAway(t *testing.T) {
	e, _ := placedOnN1(t)
	step(e, 6, PluginDown{Name: "f", Session: 1, Code: cluster.CodePluginUnavailable, Message: "killed"})
	if !wanted(t, e, "web") {
		t.Fatal("a plugin's absence evicted a task")
	}
	step(e, 7, run("api", nil)) // of the same class, which is judged
	if placed(e, "api") != "n1" {
		t.Errorf("placed on %q, want n1 by the verdict that counts", placed(e, "api"))
	}
	step(e, 8, run("other", func(s *cluster.JobSpec) { s.Labels = map[string]string{"a": "b"} })) // of a class that nobody judged
	if placed(e, "other") != "" {
		t.Error("a class that nobody judged was placed")
	}
	step(e, 9, label("n1")) // and now n1 is not judged any more
	step(e, 10, run("third", nil))
	if placed(e, "third") != "" || !wanted(t, e, "web") {
		t.Errorf("third is on %q; web is wanted: %v", placed(e, "third"), wanted(t, e, "web"))
	}
}

func TestANewSessionKeepsVerdictsUntilItAnswers(t *testing.T) {
	e, _ := placedOnN1(t)
	step(e, 6, PluginDown{Name: "f", Session: 1, Code: cluster.CodePluginUnavailable, Message: "killed"})
	out := step(e, 7, up(2))
	if !out.Plugins[0].Reset || len(out.Plugins[0].Nodes) != 3 || len(out.Plugins[0].AddClasses) != 1 {
		t.Errorf("a new session is told %+v", out.Plugins[0])
	}
	step(e, 8, run("api", nil))
	if placed(e, "api") != "n1" || !wanted(t, e, "web") {
		t.Errorf("api is on %q; web is wanted: %v", placed(e, "api"), wanted(t, e, "web"))
	}
	step(e, 9, verdicts(1, e.View().Revision, allow(out.Plugins[0].AddClasses[0], 3, 1))) // what the old session says does not count
	if !wanted(t, e, "web") {
		t.Error("an ended session evicted a task")
	}
}

func TestALateClassDoesNotCountForWhatChanged(t *testing.T) {
	e, c := placedOnN1(t)
	changed := step(e, 6, label("n2"), label("n1")).Plugins[0].Revision
	step(e, 7, PluginApplied{Name: "f", Session: 1, Revision: changed, LateClasses: []uint32{c.ID}})
	step(e, 8, run("api", nil))
	if placed(e, "api") != "" || !wanted(t, e, "web") {
		t.Fatalf("api is on %q; web is wanted: %v", placed(e, "api"), wanted(t, e, "web"))
	}
	step(e, 9, verdicts(1, changed, allow(c, 3, 0, 1)))
	if placed(e, "api") == "" {
		t.Error("not placed once the class had answered")
	}
}

func TestOnFailureIgnore(t *testing.T) {
	e, _ := placedOnN1(t)
	step(e, 6, PluginDown{Name: "f", Session: 1, Code: cluster.CodePluginUnavailable, Message: "killed", FailureOpen: true})
	step(e, 7, run("other", func(s *cluster.JobSpec) { s.Labels = map[string]string{"a": "b"} }))
	if placed(e, "other") == "" {
		t.Error("a class that nobody judged waits for a filter whose failure is to be ignored")
	}
	step(e, 8, run("api", nil)) // what it has judged still counts
	if placed(e, "api") != "n1" {
		t.Errorf("api is on %q, want n1", placed(e, "api"))
	}
	step(e, 9, label("n2")) // and n2 is not judged any more
	step(e, 10, command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Pause}}, run("third", nil))
	if placed(e, "third") != "n2" {
		t.Errorf("third is on %q, want n2, which is not judged", placed(e, "third"))
	}
}

func TestAClassThatCannotBeCompiledWaitsAndEvictsNobody(t *testing.T) {
	e, c := placedOnN1(t)
	stall := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Stall: &StallAnswer{Code: "f.syntax", Message: "no such operator", Evicts: true}}
	step(e, 6, verdicts(1, e.View().Revision, stall), run("api", nil))
	if placed(e, "api") != "" || !wanted(t, e, "web") {
		t.Errorf("api is on %q; web is wanted: %v", placed(e, "api"), wanted(t, e, "web"))
	}
	if got := groupStall(t, e, "api"); got.Code != "f.syntax" || got.Facts.Nodes != 3 {
		t.Errorf("stall %+v", got)
	}
}

func TestAFailureIsNoVerdict(t *testing.T) {
	e, c := placedOnN1(t)
	failure := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Failure: &FailureAnswer{Code: cluster.CodePluginError, Message: "boom"}}
	step(e, 6, verdicts(1, e.View().Revision, failure), run("api", nil))
	if placed(e, "api") != "n1" || !wanted(t, e, "web") { // the earlier verdict stays in use
		t.Errorf("api is on %q; web is wanted: %v", placed(e, "api"), wanted(t, e, "web"))
	}
}
