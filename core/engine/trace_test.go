package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// traceOf returns a trace of which somebody follows what comes.
func traceOf(n byte) Trace { return Trace{ID: [16]byte{n}, Span: [8]byte{n}} }

// tracing runs an engine of which somebody follows what comes.
type tracing struct {
	e     *Engine
	log   *memory
	turns []*TracedTurn
	told  []PluginUpdate
	stop  func()
}

func trace(t *testing.T, cfg Config, before func(*Engine)) *tracing {
	x := &tracing{e: New(cfg, NewState("test"), cluster.Time{}), log: &memory{}}
	before(x.e)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- x.e.Run(ctx, since(time.Now()), x.log, Ports{
			Plugins: func(u PluginUpdate) { x.told = append(x.told, u) },
			Traced: func(turn *TracedTurn) Trace {
				x.turns = append(x.turns, turn)
				return traceOf(100 + byte(len(x.turns)))
			},
		})
	}()
	x.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return x
}

// A command's trace leads to its turn, from there to the question that a plugin is asked, and from its answer to the turn that places.
func TestTraceOfACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := trace(t, Config{Plugins: []string{"constraint"}}, func(*Engine) {})
		defer x.stop()
		send := func(in Input) {
			t.Helper()
			if err := x.e.Send(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send(PluginUp{Name: "constraint", Session: 1, Filter: true})
		if _, err := x.e.Do(t.Context(), "test", JoinNode{ID: "n1", Name: "n1", Description: about}); err != nil {
			t.Fatal(err)
		}
		send(AgentUp{Node: "n1", Session: 1, Description: about})
		send(AgentReports{Node: "n1", Session: 1, Full: true, Last: true})
		send(PluginApplied{Name: "constraint", Session: 1, Revision: x.e.View().Revision})
		if len(x.turns) != 0 {
			t.Fatalf("%d turns are told of whose inputs nobody follows", len(x.turns))
		}
		x.told = nil
		if _, err := x.e.Do(WithTrace(t.Context(), traceOf(1)), "test", run("web", nil).(command).op); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(x.turns) != 1 || len(x.turns[0].Causes) != 1 || x.turns[0].Causes[0] != traceOf(1) || x.turns[0].Inputs != 1 {
			t.Fatalf("turns %+v", x.turns)
		}
		first := x.turns[0]
		if n := len(first.Turn.Changes); n == 0 || first.Turn.State.Revision != x.e.View().Revision || first.Committed == (cluster.Time{}) {
			t.Errorf("the turn that made the job: %d changes, %+v", n, first)
		}
		var phases []Phase
		for _, p := range first.Phases {
			phases = append(phases, p.Phase)
		}
		if len(phases) != 6 || phases[0] != PhaseApply || phases[3] != PhasePlace || phases[5] != PhaseFinish {
			t.Errorf("phases %v", phases)
		}
		if len(x.told) != 1 || len(x.told[0].AddClasses) != 1 || x.told[0].Trace != traceOf(101) {
			t.Fatalf("the plugin is told %+v", x.told)
		}
		c := x.told[0].AddClasses[0]
		send(Traced{PluginVerdicts{
			Name: "constraint", Session: 1, Revision: x.e.View().Revision,
			Classes: []ClassVerdict{{Class: c.ID, ClassRevision: c.Revision, Full: &FullVerdict{Allowed: []byte{1}}}},
		}, []Trace{traceOf(7)}})
		if len(x.turns) != 2 || x.turns[1].Causes[0] != traceOf(7) {
			t.Fatalf("turns %+v", x.turns)
		}
		placed := false
		for _, a := range x.turns[1].Turn.Changes {
			_, is := a.Change.(cluster.SetPlacement)
			placed = placed || is
		}
		if !placed {
			t.Errorf("the turn that took the answer placed nothing: %+v", x.turns[1].Turn.Changes)
		}
	})
}

// Inputs that are taken together are causes of one turn, each once; what a turn leaves to decide is still theirs.
func TestCausesOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 150
		x := trace(t, Config{MaxChanges: 100}, func(e *Engine) {
			for i, job := range []string{"a", "b", "c"} {
				go func() {
					spec := run(job, func(s *cluster.JobSpec) { s.Count = large }).(command).op
					if _, err := e.Do(WithTrace(t.Context(), traceOf(1+byte(i%2))), "test", spec); err != nil {
						t.Error(err)
					}
				}()
			}
			synctest.Wait() // so that all wait
		})
		synctest.Wait()
		x.stop()
		tasks := 0
		for i, turn := range x.turns {
			if len(turn.Causes) != 2 {
				t.Errorf("turn %d has the causes %v", i, turn.Causes)
			}
			if last := i == len(x.turns)-1; turn.More == last {
				t.Errorf("turn %d of %d: more %t", i, len(x.turns), turn.More)
			}
			for _, a := range turn.Turn.Changes {
				if _, ok := a.Change.(cluster.AddTask); ok {
					tasks++
				}
			}
		}
		if len(x.turns) < 2 || x.turns[0].Inputs != 3 || tasks != 3*large {
			t.Errorf("%d turns, the first of %d inputs, made %d tasks", len(x.turns), x.turns[0].Inputs, tasks)
		}
	})
}

// Where nobody follows, a turn costs what it cost.
func TestNobodyFollows(t *testing.T) {
	var f follower
	e := New(Config{}, NewState("test"), cluster.Time{})
	batch := []Input{AgentsHeard{}, AgentsHeard{}}
	bare := testing.AllocsPerRun(100, func() { e.Step(batch, cluster.Time{}) })
	with := testing.AllocsPerRun(100, func() {
		if _, turn := f.step(e, batch, cluster.Time{}); turn != nil {
			t.Fatal("a turn is told of")
		}
	})
	if with > bare {
		t.Errorf("a turn allocates %v times, and %v without", with, bare)
	}
	ctx := t.Context()
	var in Input = AgentsHeard{}
	if n := testing.AllocsPerRun(100, func() { _ = traced(in, TraceOf(ctx)) }); n != 0 {
		t.Errorf("an input that nobody follows allocates %v times on its way", n)
	}
	if e.phase != nil {
		t.Error("phases are told of")
	}
	// What is part of a trace is decided about also where nobody wants to know.
	batch[0] = Traced{AgentsHeard{}, []Trace{traceOf(1)}}
	if _, turn := f.step(e, batch, cluster.Time{}); turn != nil {
		t.Error("a turn is told of to nobody")
	}
}
