package api_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// written is a log: what each turn of a real engine wrote.
type written struct {
	e     *engine.Engine
	first cluster.Revision // earlier ones were dropped
	turns []writtenTurn
}

type writtenTurn struct {
	rev     cluster.Revision
	now     cluster.Time
	puts    []any
	deleted []string
}

// step has the engine decide at a second of the wall clock.
func (w *written) step(second int, in ...engine.Input) {
	now := cluster.Time{Engine: time.Duration(second) * time.Second, Wall: time.Unix(int64(1000+second), 0).UnixNano()}
	out := w.e.Step(in, now)
	if len(out.Turn.Changes) == 0 {
		return
	}
	puts, deletes := w.e.Records(out.Turn)
	t := writtenTurn{rev: out.Turn.State.Revision, now: now, puts: puts}
	for _, v := range deletes {
		switch v := v.(type) {
		case *cluster.Task:
			t.deleted = append(t.deleted, "task/"+string(v.ID))
		case *cluster.Job:
			t.deleted = append(t.deleted, "job/"+v.Name)
		case *cluster.Stall:
			t.deleted = append(t.deleted, "stall/"+v.Key())
		}
	}
	w.turns = append(w.turns, t)
	w.e.Publish(out.Turn)
}

func (w *written) History(_ context.Context, from cluster.Revision, yield func(engine.Turn) bool) error {
	if from < w.first {
		return api.ErrCompacted
	}
	for _, t := range w.turns {
		if t.rev >= from && !yield(engine.Rebuild(t.rev, t.now, t.puts, t.deleted)) {
			return nil
		}
	}
	return nil
}

// story is the life of web/1, which waits for a node, runs, and is drained away.
func story(t *testing.T) (w *written, id cluster.TaskID) {
	t.Helper()
	w = &written{e: engine.New(engine.Config{Heartbeat: time.Hour}, engine.NewState("c1"), cluster.Time{})}
	about := cluster.NodeDescription{Capacity: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}}
	join := func(second int, id cluster.NodeID) {
		w.step(second, engine.Command("token", engine.JoinNode{ID: id, Name: "n-" + string(id), Description: about}))
		w.step(second, engine.AgentUp{Node: id, Session: 1, Description: about}, engine.AgentReports{Node: id, Session: 1, Full: true, Last: true})
	}
	spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}, Resources: cluster.Resources{MilliCPU: 600}}}.WithDefaults()
	join(1, "a")
	w.step(2, engine.Command("token", engine.SetAvailability{Nodes: []string{"a"}, Availability: cluster.Pause}))
	w.step(3, engine.Command("alice", engine.RunJob{Spec: spec, Reason: "first try"}))
	join(5, "b")
	for x := range w.e.View().TasksOf("web") {
		id = x.ID
	}
	report := func(second int, st cluster.ObservedState) {
		w.step(second, engine.AgentReports{Node: "b", Session: 1, Tasks: []engine.TaskReport{{Task: id, State: st, Healthy: st == cluster.Running}}})
	}
	report(6, cluster.Starting)
	report(7, cluster.Running)
	w.step(8, engine.Command("bob", engine.StopJob{Job: "web", Grace: time.Minute}))
	report(9, cluster.Stopped)
	w.step(20, engine.Command("bob", engine.RemoveJob{Job: "web"}))
	return w, id
}

func history(t *testing.T, w *written, st *engine.State, task string) (*apiv1.TaskHistoryResponse, error) {
	t.Helper()
	s := serve(t, func(o *api.Options) { o.History = w })
	s.engine.answer(func(op engine.Op) (any, error) {
		if why, ok := op.(engine.Why); ok {
			return engine.WhyResult{Task: st.Task(why.Task)}, nil
		}
		return nil, fmt.Errorf("unexpected %T", op)
	})
	s.engine.mu.Lock()
	s.engine.state = st
	s.engine.mu.Unlock()
	res, err := s.as(pki.RoleReader).TaskHistory(t.Context(), connect.NewRequest(&apiv1.TaskHistoryRequest{Task: task}))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

func lines(m *apiv1.TaskHistoryResponse) []string {
	var out []string
	for _, e := range m.GetEntries() {
		out = append(out, fmt.Sprintf("%ds %s|%s|%q", e.GetTime().GetSeconds()-1000, e.GetText(), e.GetBy(), e.GetFacts()))
	}
	return out
}

func TestTaskHistory(t *testing.T) {
	w, id := story(t)
	m, err := history(t, w, w.e.View(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`3s web was created|alice|[]`,
		fmt.Sprintf(`3s %s was created: new slot||["version 1 of job web, which is not there any more"]`, id),
		fmt.Sprintf(`5s %s was placed on n-b||["1 of 2 nodes were ready, active and allowed by filters and slot" "0 of the job's tasks were there already"]`, id),
		fmt.Sprintf(`6s %s is starting||[]`, id),
		fmt.Sprintf(`7s %s is running||[]`, id),
		`8s web was told to stop|bob|[]`,
		fmt.Sprintf(`8s %s should go to shutdown, says core: the job was stopped||["it has 1m0s to stop"]`, id),
		fmt.Sprintf(`9s %s is stopped||[]`, id),
		fmt.Sprintf(`20s %s was forgotten||[]`, id),
	}
	got := lines(m)
	slices.Sort(got[:2]) // one turn wrote both
	slices.Sort(want[:2])
	if !slices.Equal(got, want) {
		t.Errorf("history:\n%q\nwant:\n%q", got, want)
	}
	if m.GetNow() != nil || m.GetCut() != "" {
		t.Errorf("now %v, cut %q", m.GetNow(), m.GetCut())
	}
	// It waited for a node from its beginning until n-b was there: in all, two reasons one after another.
	if len(m.GetStalls()) != 1 {
		t.Fatalf("stalls %v", m.GetStalls())
	}
	p := m.GetStalls()[0]
	if p.GetStall().GetSince().GetSeconds() != 1003 || p.GetUntil().GetSeconds() != 1005 || p.GetFromRevision() == 0 || p.GetToRevision() <= p.GetFromRevision() {
		t.Errorf("it waited %v", p)
	}
}

func TestTaskHistoryThatWasCut(t *testing.T) {
	w, id := story(t)
	last := w.turns[len(w.turns)-1]
	w.turns = w.turns[:len(w.turns)-1] // as if the job had not been removed
	st := engine.Assemble("c1", last.rev-1, last.now)
	for _, turn := range w.turns {
		for _, v := range turn.puts {
			if err := st.Restore(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.first = last.rev - 2
	m, err := history(t, w, st, "web/1")
	if err != nil {
		t.Fatal(err)
	}
	if m.GetReachesBackTo() != uint64(w.first) || m.GetCut() == "" || m.GetNow().GetId() != string(id) {
		t.Errorf("reaches back to %d (%s), now %v", m.GetReachesBackTo(), m.GetCut(), m.GetNow())
	}
	kinds := []string{}
	for _, e := range m.GetEntries() {
		kinds = append(kinds, e.GetKind())
	}
	// Created and placed are from the record, what follows from the log.
	if want := []string{api.TaskCreated, api.TaskPlaced, api.JobChanged, api.TaskDesired, api.TaskObserved}; !slices.Equal(kinds, want) {
		t.Errorf("entries %v, want %v", kinds, want)
	}
	if facts := m.GetEntries()[0].GetFacts(); !slices.Equal(facts, []string{"version 1 of job web, asked for by alice: first try"}) {
		t.Errorf("it was made for %q", facts)
	}
	if _, err := history(t, w, st, "web/9/4"); !client.IsNotFound(err) {
		t.Errorf("a task of which nothing is known: %v", err)
	}
	if _, err := history(t, w, st, "nothing"); !client.IsNotFound(err) {
		t.Errorf("what is no task: %v", err)
	}
}

// What was asked of the job is told from how the log wrote it before, not only for what a record shows by itself.
func TestTaskHistoryTellsWhatWasAskedOfTheJob(t *testing.T) {
	w := &written{e: engine.New(engine.Config{Heartbeat: time.Hour}, engine.NewState("c1"), cluster.Time{})}
	about := cluster.NodeDescription{Capacity: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}}
	w.step(1, engine.Command("token", engine.JoinNode{ID: "a", Name: "n-a", Description: about}))
	w.step(1, engine.AgentUp{Node: "a", Session: 1, Description: about}, engine.AgentReports{Node: "a", Session: 1, Full: true, Last: true})
	spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	w.step(2, engine.Command("alice", engine.RunJob{Spec: spec}))
	var id cluster.TaskID
	for x := range w.e.View().TasksOf("web") {
		id = x.ID
	}
	w.step(3, engine.Command("bob", engine.RebalanceJob{Job: "web"}))
	w.step(4, engine.Command("carol", engine.StopJob{Job: "web", Grace: time.Minute}))
	w.step(5, engine.Command("dan", engine.StartJob{Job: "web"}))
	m, err := history(t, w, w.e.View(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	got := lines(m)
	for _, want := range []string{`3s web is to be rebalanced|bob|[]`, `4s web was told to stop|carol|[]`, `5s web was told to start|dan|[]`} {
		if !slices.Contains(got, want) {
			t.Errorf("it lacks %q: %q", want, got)
		}
	}
}
