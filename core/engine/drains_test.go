package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// emptied is an engine with the drainers a and b, of which each was just asked about node n1 with the one task of job web.
func emptied(t *testing.T) (e *Engine, task cluster.TaskID, questions map[string]uint64) {
	t.Helper()
	e = New(Config{Plugins: []string{"a", "b"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	step(e, 2, PluginUp{Name: "a", Session: 1, Drainer: true}, PluginUp{Name: "b", Session: 1, Drainer: true})
	step(e, 3, run("web", nil))
	if placed(e, "web") != "n1" {
		t.Fatalf("web is on %q", placed(e, "web"))
	}
	task = one(t, e, "web").ID
	step(e, 4, AgentReports{Node: "n1", Session: 1, Tasks: []TaskReport{{Task: task, State: cluster.Running, Healthy: true}}})
	out := step(e, 5, command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain}})
	questions = map[string]uint64{}
	for _, u := range out.Plugins {
		for _, q := range u.Drains {
			questions[u.Plugin] = q.ID
		}
	}
	if len(questions) != 2 {
		t.Fatalf("asked %v, want a and b", questions)
	}
	return e, task, questions
}

// said is one drainer's answer.
type said struct {
	by       string
	question uint64
}

func (q said) leave(task cluster.TaskID, strength cluster.Strength) PluginDrain {
	return PluginDrain{Name: q.by, Session: 1, Question: q.question, Transitions: []cluster.Transition{
		{Task: task, To: cluster.DesiredShutdown, Strength: strength, Reason: "drained", Grace: -1},
	}}
}

func (q said) keep(task cluster.TaskID) PluginDrain {
	return PluginDrain{Name: q.by, Session: 1, Question: q.question, Kept: []KeptAnswer{{Task: task, Stall: StallAnswer{Code: "b.busy"}}}}
}

func (q said) nothing() PluginDrain { return PluginDrain{Name: q.by, Session: 1, Question: q.question} }

func TestWhichDrainerAnswersFirstMakesNoDifference(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		e, task, asked := emptied(t)
		answers := map[string]Input{"a": said{"a", asked["a"]}.leave(task, cluster.Voluntary), "b": said{"b", asked["b"]}.keep(task)}
		for i, name := range order {
			step(e, time.Duration(10+i), answers[name])
			if !wanted(t, e, "web") {
				t.Errorf("%v: the task leaves after the answer of %s, want it kept by b", order, name)
			}
		}
	}
}

func TestATaskLeavesOnceAllDrainersHaveAnswered(t *testing.T) {
	e, task, asked := emptied(t)
	step(e, 10, said{"a", asked["a"]}.leave(task, cluster.Voluntary))
	if !wanted(t, e, "web") {
		t.Fatal("the task leaves before b has answered")
	}
	step(e, 11, said{"b", asked["b"]}.nothing())
	if wanted(t, e, "web") {
		t.Error("the task stays although nobody keeps it")
	}
}

func TestADrainerThatFailsOrIsAwayKeepsNothing(t *testing.T) {
	for name, trouble := range map[string]func(asked uint64) Input{
		"fails": func(q uint64) Input {
			return PluginDrain{Name: "b", Session: 1, Question: q, Failure: &FailureAnswer{Code: cluster.CodePluginTimeout}}
		},
		"is away": func(uint64) Input { return PluginDown{Name: "b", Session: 1, Code: cluster.CodePluginUnavailable} },
	} {
		e, task, asked := emptied(t)
		step(e, 10, said{"a", asked["a"]}.leave(task, cluster.Voluntary))
		step(e, 11, trouble(asked["b"]))
		if wanted(t, e, "web") {
			t.Errorf("b %s: the task stays", name)
		}
	}
}

func TestAForcedTransitionWaitsForNobody(t *testing.T) {
	e, task, asked := emptied(t)
	step(e, 10, said{"a", asked["a"]}.leave(task, cluster.Forced))
	if wanted(t, e, "web") {
		t.Error("the task stays")
	}
}
