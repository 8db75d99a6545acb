package api_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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

func state(revision cluster.Revision, records ...any) *engine.State {
	return engine.Assemble("c1", revision, at(time.Duration(revision)*time.Second), records...)
}

func TestEventOfEachChange(t *testing.T) {
	n := node("a", "n1")
	spec := func(change func(*cluster.NodeSpec)) cluster.SetNodeSpec {
		s := n.Spec
		change(&s)
		return cluster.SetNodeSpec{Node: "a", Spec: s}
	}
	control := func(change func(*cluster.JobControl)) cluster.PutJob {
		return cluster.PutJob{Job: with(job("web", 1), func(j *cluster.Job) { change(&j.Control) })}
	}
	stall := groupStall("web")
	slotChange := func(change func(*cluster.Slot)) cluster.PutSlot {
		return cluster.PutSlot{Slot: with(slot("web", "1"), change)}
	}
	before := []any{n, job("web", 1), slot("web", "1"), running("web/1/3", "a"), stall}
	for _, test := range []struct {
		change cluster.Change
		want   string // KIND SUBJECT AUTHOR JOB/TASK/NODE: TEXT
	}{
		{cluster.AddNode{Node: n}, "node_joined node:a operator //n1: n1 joined"},
		{cluster.SetNodeDescription{Node: "a"}, "node_described node:a agent //n1: n1 described itself"},
		{cluster.SetNodeStatus{Node: "a", Status: cluster.NodeStatus{State: cluster.NodeSilent}}, "node_state node:a monitor //n1: n1 is silent"},
		{spec(func(s *cluster.NodeSpec) { s.Availability = cluster.Drain }), "node_availability node:a operator //n1: n1 was set to drain"},
		{spec(func(s *cluster.NodeSpec) { s.Labels = map[string]string{"disk": "ssd"} }), "node_labels node:a operator //n1: n1 was labelled disk=ssd"},
		{spec(func(s *cluster.NodeSpec) { s.Decommissioned = true }), "node_decommissioned node:a operator //n1: n1 was decommissioned"},
		{cluster.SetDrain{Node: "a", Drain: cluster.DrainStatus{State: cluster.Draining, Left: 3}}, "node_drain node:a reconcile //n1: n1 is draining: 3 left"},
		{cluster.SetDrain{Node: "a", Drain: cluster.DrainStatus{State: cluster.Drained, Lost: 2}}, "node_drain node:a reconcile //n1: n1 is drained, 2 lost, not confirmed"},
		{cluster.RemoveNode{Node: "a"}, "node_removed node:a operator //n1: n1 was removed"},

		{cluster.PutJob{Job: job("api", 1)}, "job_created job:api operator api//: api was created"},
		{control(func(c *cluster.JobControl) {
			c.Version, c.Versions = 3, []cluster.JobVersion{{Version: 3, Reason: "scaled"}}
		}), "job_version job:web operator web//: web has version 3: scaled"},
		{control(func(c *cluster.JobControl) { c.Stopped = true }), "job_changed job:web operator web//: web was told to stop"},
		{control(func(c *cluster.JobControl) { c.UpdateHold = true }), "job_changed job:web operator web//: web update was paused"},
		{cluster.SetUpdate{Job: "web", Update: cluster.Update{State: cluster.Updating, To: 2, Moved: 1, Total: 3}}, "job_update job:web reconcile web//: web update to version 2: updating, 1 of 3 moved"},
		{cluster.SetUpdate{Job: "web"}, ""},
		{cluster.RemoveJob{Job: "web"}, "job_removed job:web operator web//: web was removed"},

		{cluster.PutSlot{Slot: slot("web", "2")}, "slot_created slot:web/2 reconcile web//: web/2 is a new slot"},
		{slotChange(func(s *cluster.Slot) { s.Unwanted = true }), "slot_changed slot:web/1 reconcile web//: web/1 is not wanted any more"},
		{slotChange(func(s *cluster.Slot) { s.Done = true }), "slot_changed slot:web/1 reconcile web//: web/1 needs no task any more"},
		{slotChange(func(s *cluster.Slot) { s.Backoff = 1 }), ""},
		{cluster.RemoveSlot{Job: "web", Key: "1"}, "slot_removed slot:web/1 reconcile web//: web/1 removed"},

		{cluster.AddTask{Task: task("web/2/9")}, "task_created task:web/2/9 reconcile web/web/2/9/: web/2/9 was created: new slot"},
		{cluster.SetPlacement{Task: "web/1/3", Placement: cluster.Placement{Node: "a"}}, "task_placed task:web/1/3 place web/web/1/3/n1: web/1/3 was placed on n1"},
		{
			cluster.SetDesired{Task: "web/1/3", Desired: cluster.Desired{State: cluster.DesiredShutdown, By: "drain", Reason: "n1 is drained"}},
			"task_desired task:web/1/3 reconcile web/web/1/3/n1: web/1/3 should go to shutdown, says drain: n1 is drained",
		},
		{
			cluster.SetObserved{Task: "web/1/3", Observed: cluster.Observed{State: cluster.Failed, ExitCode: 2}},
			"task_observed task:web/1/3 agent web/web/1/3/n1: web/1/3 is failed, exit code 2",
		},
		{
			cluster.SetCondition{Task: "web/1/3", Condition: cluster.Condition{State: cluster.Gone, Reason: "n1 was decommissioned"}},
			"task_condition task:web/1/3 monitor web/web/1/3/n1: web/1/3 is gone: n1 was decommissioned",
		},
		{cluster.RemoveTask{Task: "web/1/3"}, "task_removed task:web/1/3 reconcile web/web/1/3/n1: web/1/3 was forgotten"},

		{
			cluster.PutStall{Stall: &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectNode, ID: "a"}, Source: "core", Code: cluster.CodeWaitingForStop, Message: "1 left"}},
			"stalled node:a engine //n1: n1 waits, waiting_for_stop: 1 left",
		},
		{
			cluster.PutStall{Stall: stall},
			"stall_changed job:web engine web//: web still waits, constraint: no node can run it (3 nodes: 2 constraint node.labels.disk == ssd, 1 insufficient_resources cpu)",
		},
		{cluster.RemoveStall{Key: stall.Key()}, "stall_cleared job:web engine web//: web does not wait any more: constraint"},
	} {
		after := before
		switch test.change.(type) {
		case cluster.RemoveTask:
			after = []any{n, job("web", 1)}
		case cluster.RemoveNode:
			after = nil
		}
		turn := engine.Turn{Before: state(7, before...), State: state(8, after...), Changes: []engine.Authored{{By: test.change.Owner(), Change: test.change}}}
		got := ""
		for _, e := range api.EventsOf(turn) {
			got += fmt.Sprintf("%s %s:%s %s %s/%s/%s: %s", e.GetKind(), e.GetSubject().GetKind(), e.GetSubject().GetId(), e.GetAuthor(), e.GetJob(), e.GetTask(), e.GetNode(), e.GetText())
			if e.GetRevision() != 8 || !e.GetTime().AsTime().Equal(at(8*time.Second).WallTime()) {
				t.Errorf("%T is at revision %d, %v", test.change, e.GetRevision(), e.GetTime().AsTime())
			}
		}
		if got != test.want {
			t.Errorf("%T gave\n%q, want\n%q", test.change, got, test.want)
		}
		// Of an old turn only the changes may be known.
		api.EventsOf(engine.Turn{State: state(8), Changes: turn.Changes})
	}
}

// commit makes a turn in which a node's state changed.
func (s *server) commit(revision cluster.Revision, name string) {
	n := node("id-"+name, name)
	change := cluster.SetNodeStatus{Node: n.ID, Status: n.Status}
	before := s.engine.View()
	s.engine.set(revision, n)
	s.events.Committed(engine.Turn{Before: before, State: s.engine.View(), Changes: []engine.Authored{{By: cluster.AuthorMonitor, Change: change}}})
}

// watcher reads a watch.
type watcher struct {
	t      testing.TB
	stream *connect.ServerStreamForClient[apiv1.WatchEventsResponse]
	seen   []uint64 // revisions of events
}

func (s *server) watch(req *apiv1.WatchEventsRequest) *watcher {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	stream, err := s.as(pki.RoleReader).WatchEvents(ctx, connect.NewRequest(req))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel()
		_ = stream.Close()
	})
	w := &watcher{t: s.t, stream: stream}
	if !stream.Receive() || len(stream.Msg().GetEvents()) != 0 {
		s.t.Fatalf("the watch began with %v, %v", stream.Msg(), stream.Err())
	}
	return w
}

// until reads until n events were seen.
func (w *watcher) until(n int) {
	w.t.Helper()
	for len(w.seen) < n {
		if !w.stream.Receive() {
			w.t.Fatalf("the watch ended after %v: %v", w.seen, w.stream.Err())
		}
		w.take()
	}
}

func (w *watcher) take() {
	for _, e := range w.stream.Msg().GetEvents() {
		w.seen = append(w.seen, e.GetRevision())
		if e.GetRevision() > w.stream.Msg().GetRevision() {
			w.t.Errorf("an event of revision %d came with revision %d", e.GetRevision(), w.stream.Msg().GetRevision())
		}
	}
}

// end reads to the end and returns the error.
func (w *watcher) end() error {
	for w.stream.Receive() {
		w.take()
	}
	return w.stream.Err()
}

func TestWatchFollows(t *testing.T) {
	s := serve(t, nil)
	s.commit(2, "n1")
	all := s.watch(&apiv1.WatchEventsRequest{Follow: true})
	all.until(1)
	late := s.watch(&apiv1.WatchEventsRequest{Follow: true, FromRevision: new(uint64(3))})
	kinds := s.watch(&apiv1.WatchEventsRequest{Follow: true, Kinds: []string{api.TaskPlaced}})
	for revision := range cluster.Revision(4) {
		s.commit(revision+3, "n1")
	}
	all.until(5)
	late.until(4)
	if want := []uint64{2, 3, 4, 5, 6}; !slices.Equal(all.seen, want) {
		t.Errorf("saw revisions %v, want %v", all.seen, want)
	}
	if want := []uint64{3, 4, 5, 6}; !slices.Equal(late.seen, want) {
		t.Errorf("from revision 3 saw %v, want %v", late.seen, want)
	}
	if len(kinds.seen) != 0 {
		t.Errorf("saw %v of another kind", kinds.seen)
	}
}

func TestWatchOfThePastEnds(t *testing.T) {
	s := serve(t, nil)
	for revision := range cluster.Revision(9) {
		s.commit(revision+2, fmt.Sprintf("n%d", revision%2))
	}
	for _, test := range []struct {
		req  *apiv1.WatchEventsRequest
		want []uint64
	}{
		{&apiv1.WatchEventsRequest{}, []uint64{2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{&apiv1.WatchEventsRequest{FromRevision: new(uint64(8))}, []uint64{8, 9, 10}},
		{&apiv1.WatchEventsRequest{FromRevision: new(uint64(11))}, nil},
		{&apiv1.WatchEventsRequest{FromRevision: new(uint64(8)), Node: "n0"}, []uint64{8, 10}},
		{&apiv1.WatchEventsRequest{Recent: 3}, []uint64{8, 9, 10}},
	} {
		// What a turn did is known a moment after its commit.
		w := s.watch(test.req)
		if err := w.end(); err != nil || !slices.Equal(w.seen, test.want) {
			t.Errorf("%v saw %v and ended with %v, want %v", test.req, w.seen, err, test.want)
		}
	}
}

// A state without any revision has no past, and the watch of it nothing to wait for.
func TestWatchOfAStateWithoutRevisionsEnds(t *testing.T) {
	s := serve(t, func(o *api.Options) { o.Events = api.NewEvents(0) })
	s.engine.set(0)
	w := s.watch(&apiv1.WatchEventsRequest{})
	if err := w.end(); err != nil || len(w.seen) != 0 {
		t.Errorf("saw %v and ended with %v", w.seen, err)
	}
}

func TestWatchOfDroppedRevisions(t *testing.T) {
	s := serve(t, nil)
	s.commit(2, "n1")
	w := s.watch(&apiv1.WatchEventsRequest{FromRevision: new(uint64(1)), Follow: true})
	err := w.end()
	if connect.CodeOf(err) != connect.CodeOutOfRange || client.Detail(err).GetCode() != "compacted" || !client.IsCompacted(err) {
		t.Errorf("the watch ended with %v", err)
	}
}

// A cluster that was restored from a backup is behind where a watcher left off. What it does until it is there again would be missed without a word.
func TestWatchAheadOfTheCluster(t *testing.T) {
	s := serve(t, nil)
	s.commit(2, "n1")
	for _, from := range []uint64{4, math.MaxUint64} {
		for _, follow := range []bool{false, true} {
			stream, err := s.as(pki.RoleReader).WatchEvents(t.Context(), connect.NewRequest(&apiv1.WatchEventsRequest{FromRevision: &from, Follow: follow}))
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
				t.Errorf("from %d, follow %t: it was told %v", from, follow, stream.Msg())
			}
			err = errors.Join(stream.Err(), stream.Close())
			if connect.CodeOf(err) != connect.CodeOutOfRange || !client.IsCompacted(err) || !strings.Contains(err.Error(), "the cluster is at revision 2") {
				t.Errorf("from %d, follow %t: the watch ended with %v", from, follow, err)
			}
		}
	}
}

// past has the turns of revisions 5 to 9.
type past struct{}

func (past) History(_ context.Context, from cluster.Revision, yield func(engine.Turn) bool) error {
	if from < 5 {
		return fmt.Errorf("read the log: %w", api.ErrCompacted)
	}
	for r := from; r < 10; r++ {
		change := cluster.SetNodeStatus{Node: "a", Status: cluster.NodeStatus{State: cluster.NodeReady}}
		if !yield(engine.Turn{State: state(r), Changes: []engine.Authored{{By: cluster.AuthorMonitor, Change: change}}}) {
			return nil
		}
	}
	return nil
}

func TestWatchReadsHistory(t *testing.T) {
	s := serve(t, func(o *api.Options) { o.History = past{} })
	// The server began at revision 1; what it keeps begins at revision 10.
	s.commit(10, "n1")
	w := s.watch(&apiv1.WatchEventsRequest{FromRevision: new(uint64(7)), Follow: true})
	w.until(4)
	s.commit(11, "n1")
	w.until(5)
	if want := []uint64{7, 8, 9, 10, 11}; !slices.Equal(w.seen, want) {
		t.Errorf("saw %v, want %v", w.seen, want)
	}
	if err := s.watch(&apiv1.WatchEventsRequest{FromRevision: new(uint64(3))}).end(); !client.IsCompacted(err) {
		t.Errorf("dropped revisions gave %v", err)
	}
}

func TestSlowWatcherIsCut(t *testing.T) {
	s := serve(t, nil)
	s.commit(2, "n1")
	w := s.watch(&apiv1.WatchEventsRequest{Follow: true})
	w.until(1)
	// While nothing is read, more happens than is kept and than fits in the connection, however well it is compressed.
	for r := range cluster.Revision(3 * api.KeptTurns) {
		name := make([]byte, 250)
		_, _ = rand.Read(name)
		s.commit(r+3, hex.EncodeToString(name))
	}
	err := w.end()
	if connect.CodeOf(err) != connect.CodeResourceExhausted || client.Detail(err).GetCode() != "too_slow" {
		t.Errorf("the watch ended with %v after %d events", err, len(w.seen))
	}
	for i := 1; i < len(w.seen); i++ {
		if w.seen[i] != w.seen[i-1]+1 {
			t.Fatalf("revision %d was followed by %d", w.seen[i-1], w.seen[i])
		}
	}
}

func TestEventsAreKeptUpToALimit(t *testing.T) {
	e := api.NewEvents(0)
	for r := range cluster.Revision(2 * api.KeptTurns) {
		e.Committed(engine.Turn{State: engine.Assemble("c1", r+1, cluster.Time{}), Changes: []engine.Authored{{Change: cluster.AddNode{Node: node("a", "n1")}}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	deadline := time.Now().Add(time.Minute)
	for e.Kept() != api.KeptTurns {
		if time.Now().After(deadline) {
			t.Fatalf("%d turns are kept, want %d", e.Kept(), api.KeptTurns)
		}
		select {
		case err := <-done:
			t.Fatal(errors.Join(err, errors.New("Run returned early")))
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
