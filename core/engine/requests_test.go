package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// scale asks for a count under a key.
func scale(by, key, digest string, count int) Input {
	return command{op: ScaleJob{Job: "web", Count: count}, by: by, key: key, digest: digest}
}

func outcomeOf(t *testing.T, out Output) (any, error) {
	t.Helper()
	if len(out.Replies) != 1 {
		t.Fatalf("%d replies, want 1", len(out.Replies))
	}
	return out.Replies[0].value, out.Replies[0].err
}

func requireRepeated(t *testing.T, out Output, want cluster.Request) {
	t.Helper()
	_, err := outcomeOf(t, out)
	var again *Repeated
	if !errors.As(err, &again) {
		t.Fatalf("asking again gave %v", err)
	}
	if diff := cmp.Diff(&want, again.Request); diff != "" {
		t.Errorf("the first request (-want +got):\n%s", diff)
	}
	if len(out.Turn.Changes) > 0 {
		t.Errorf("asking again changed %+v", out.Turn.Changes)
	}
}

// reread is the engine that a server has which was started again: its state went through the store's form.
func reread(t *testing.T, e *Engine, now time.Duration) *Engine {
	t.Helper()
	old := e.View()
	st := NewState(old.ClusterID)
	st.Revision, st.Now = old.Revision, old.Now
	var records []any
	for v := range old.Nodes() {
		records = append(records, v)
	}
	for v := range old.Jobs() {
		records = append(records, v)
		for _, s := range old.Slots(v.Name) {
			records = append(records, s)
		}
	}
	for v := range old.Tasks() {
		records = append(records, v)
	}
	for v := range old.Stalls() {
		records = append(records, v)
	}
	for v := range values(old.requests) {
		records = append(records, v)
	}
	for _, v := range records {
		key, value, err := wire.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := wire.Decode(key, value)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Restore(back); err != nil {
			t.Fatal(err)
		}
	}
	return New(e.Config(), st, cluster.Time{Engine: now})
}

func TestTheSameKeyCarriesOutOnce(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	out := step(e, 2, scale("ann", "k1", "to 3", 3))
	if v, err := outcomeOf(t, out); err != nil || !v.(JobResult).Changed {
		t.Fatalf("the first gave %v, %v", v, err)
	}
	first := cluster.Request{
		By: "ann", Key: "k1", Digest: "to 3", Revision: out.Turn.State.Revision, At: cluster.Time{Engine: 2},
		Outcomes: []cluster.Outcome{{ID: "web", Version: 2, Changed: true}},
	}
	step(e, 3, command{op: ScaleJob{Job: "web", Count: 5}})
	requireRepeated(t, step(e, 4, scale("ann", "k1", "to 3", 3)), first)
	e = reread(t, e, 5)
	requireRepeated(t, step(e, 6, scale("ann", "k1", "to 3", 3)), first)
	if got := e.View().Job("web").Control.Spec.Count; got != 5 {
		t.Errorf("the count is %d, want 5", got)
	}
	if e.View().Request("ann", "k1") == nil || e.View().Request("bob", "k1") != nil {
		t.Error("the request is not ann's alone")
	}
	// The same job is gone: the first outcome is told all the same.
	step(e, 7, command{op: RemoveJob{Job: "web"}})
	requireRepeated(t, step(e, 8, scale("ann", "k1", "to 3", 3)), first)
}

// Two that come at once are one behind the other, in one turn too.
func TestTheSameKeyTwiceInOneTurn(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	out := step(e, 2, scale("ann", "k1", "to 3", 3), scale("ann", "k1", "to 3", 3))
	var again *Repeated
	if len(out.Replies) != 2 || out.Replies[0].err != nil || !errors.As(out.Replies[1].err, &again) {
		t.Fatalf("the replies are %+v", out.Replies)
	}
}

func TestKeysOfOthersAndOfOtherCommands(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	step(e, 2, scale("ann", "k1", "to 3", 3))
	if v, err := outcomeOf(t, step(e, 3, scale("bob", "k1", "to 4", 4))); err != nil || !v.(JobResult).Changed {
		t.Errorf("another's key gave %v, %v", v, err)
	}
	_, err := outcomeOf(t, step(e, 4, scale("ann", "k1", "to 9", 9)))
	var op *OpError
	if !errors.As(err, &op) || op.Kind != KeyReused {
		t.Errorf("the key for another command gave %v", err)
	}
	if got := e.View().Job("web").Control.Spec.Count; got != 4 {
		t.Errorf("the count is %d, want 4", got)
	}
}

// What was refused has changed nothing, so it may be tried again under its key.
func TestRefusedIsNotRemembered(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	if out := step(e, 1, scale("ann", "k1", "to 3", 3)); out.Replies[0].err == nil || len(out.Turn.Changes) > 0 {
		t.Fatalf("scaling no job gave %+v", out)
	}
	step(e, 2, run("web", nil))
	if _, err := outcomeOf(t, step(e, 3, scale("ann", "k1", "to 3", 3))); err != nil {
		t.Errorf("once there is the job: %v", err)
	}
}

// A command that found all as asked is remembered too: by then it may be otherwise.
func TestUnchangedIsRemembered(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	out := step(e, 2, scale("ann", "k1", "to 1", 1))
	step(e, 3, command{op: ScaleJob{Job: "web", Count: 5}})
	requireRepeated(t, step(e, 4, scale("ann", "k1", "to 1", 1)), cluster.Request{
		By: "ann", Key: "k1", Digest: "to 1", Revision: out.Turn.State.Revision, At: cluster.Time{Engine: 2}, Outcomes: []cluster.Outcome{{ID: "web", Version: 1}},
	})
}

func TestRequestsAreForgotten(t *testing.T) {
	t.Run("after a day", func(t *testing.T) {
		e := New(Config{}, NewState("test"), cluster.Time{})
		step(e, 1, run("web", nil))
		step(e, 2, scale("ann", "k1", "to 3", 3))
		out := step(e, 2+RequestLife, scale("ann", "k1", "to 4", 4))
		if v, err := outcomeOf(t, out); err != nil || !v.(JobResult).Changed {
			t.Fatalf("a day later the key gave %v, %v", v, err)
		}
		if n := e.View().requests.Len(); n != 1 || e.requestsByAge.Len() != 1 {
			t.Errorf("%d requests are kept, %d by age", n, e.requestsByAge.Len())
		}
	})
	t.Run("by others", func(t *testing.T) {
		e := New(Config{}, NewState("test"), cluster.Time{})
		step(e, 1, run("web", nil))
		at := time.Duration(1)
		for i := 0; i < MaxRequests+10; i += 512 {
			var in []Input
			for k := i; k < min(i+512, MaxRequests+10); k++ {
				in = append(in, scale("ann", fmt.Sprintf("k%d", k), "to 3", 3))
			}
			at++
			step(e, at, in...)
		}
		for _, e := range []*Engine{e, reread(t, e, at)} {
			if n := e.View().requests.Len(); n != MaxRequests || e.requestsByAge.Len() != n {
				t.Errorf("%d requests are kept, %d by age, want %d", n, e.requestsByAge.Len(), MaxRequests)
			}
			if _, err := outcomeOf(t, step(e, at+1, scale("ann", fmt.Sprintf("k%d", MaxRequests), "to 3", 3))); err == nil {
				t.Error("the newest are not remembered")
			}
		}
	})
}

// A record of a server's inputs has keys, and is decided again in the same way.
func TestReplayOfKeys(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	step(e, 2, scale("ann", "k0", "to 2", 2))
	e = reread(t, e, 2)
	var record bytes.Buffer
	e.Record(NewRecorder(&record, 1<<20), "test")
	step(e, 3, scale("ann", "k0", "to 2", 2))
	step(e, 4, scale("ann", "k1", "to 3", 3))
	step(e, 5, scale("ann", "k1", "to 3", 3))
	got, err := Replay(strings.NewReader(record.String()))
	if err != nil || got.First != nil || got.Steps != 3 || got.To != e.View().Revision {
		t.Errorf("replayed %+v, %v", got, err)
	}
}

func TestCommandsForAVersion(t *testing.T) {
	const old, current = 1, 2
	web := func(edit func(*cluster.JobSpec)) RunJob { return run("web", edit).(command).op.(RunJob) }
	for _, c := range []struct {
		name string
		op   func(version uint64) Op
	}{
		{"run", func(v uint64) Op {
			r := web(func(s *cluster.JobSpec) { s.Count = 7 })
			r.IfVersion = v
			return r
		}},
		{"stop", func(v uint64) Op { return StopJob{Job: "web", Grace: -1, IfVersion: v} }},
		{"start", func(v uint64) Op { return StartJob{Job: "web", IfVersion: v} }},
		{"restart", func(v uint64) Op { return RestartJob{Job: "web", IfVersion: v} }},
		{"scale", func(v uint64) Op { return ScaleJob{Job: "web", Count: 9, IfVersion: v} }},
		{"rollback", func(v uint64) Op { return RollbackJob{Job: "web", IfVersion: v} }},
		{"rebalance", func(v uint64) Op { return RebalanceJob{Job: "web", IfVersion: v} }},
		{"rm", func(v uint64) Op { return RemoveJob{Job: "web", IfVersion: v} }},
		{"cancel", func(v uint64) Op { return ControlUpdate{Job: "web", Action: CancelUpdate, IfVersion: v} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := New(Config{}, NewState("test"), cluster.Time{})
			join(e, 1, "n1", "n2")
			step(e, 2, run("web", nil))
			step(e, 3, command{op: web(func(s *cluster.JobSpec) { s.Task.Command = []string{"y"} })})
			out := step(e, 4, command{op: c.op(old)})
			_, err := outcomeOf(t, out)
			var op *OpError
			if !errors.As(err, &op) || op.Kind != Conflict || op.Message != "job web is at version 2, not 1" || len(out.Turn.Changes) > 0 {
				t.Errorf("for the old version: %v, changes %+v", err, out.Turn.Changes)
			}
			if _, err := outcomeOf(t, step(e, 5, command{op: c.op(current)})); errors.As(err, &op) && op.Kind == Conflict {
				t.Errorf("for the current version: %v", err)
			}
		})
	}
}

// A rollback that has nowhere to go says so in words, and not with a version that nobody named.
func TestRollbackToNothing(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	step(e, 1, run("web", nil))
	for _, c := range []struct {
		to      uint64
		kind    Kind
		message string
	}{
		{0, Refused, "job web has no earlier version that runs something else than version 1"},
		{99, NotFound, `there is no version "web@99"`},
	} {
		_, err := outcomeOf(t, step(e, 2, command{op: RollbackJob{Job: "web", To: c.to}}))
		var op *OpError
		if !errors.As(err, &op) || op.Kind != c.kind || op.Message != c.message || op.Hint == "" {
			t.Errorf("to %d: %v", c.to, err)
		}
	}
}
