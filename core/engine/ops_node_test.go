package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Nodes that are drained with one command are drained at one moment, so nothing is placed from one on another; what cannot be done to all is done to none.
func TestASetOfNodesIsDrainedAtOnceOrNotAtAll(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	for i, n := range []cluster.NodeID{"n1", "n2", "n3"} {
		join(e, time.Duration(i+1), n)
	}
	available := func(name string) cluster.Availability { return e.View().NodeNamed(name).Spec.Availability }
	answer := func(op Op) (any, error) {
		t.Helper()
		out := step(e, 9, command{op: op, ticket: 1})
		if len(out.Replies) != 1 {
			t.Fatalf("%d replies", len(out.Replies))
		}
		return out.Replies[0].value, out.Replies[0].err
	}

	var why *OpError
	_, err := answer(SetAvailability{Nodes: []string{"n1", "n9"}, Availability: cluster.Drain})
	if !errors.As(err, &why) || why.Kind != NotFound || available("n1") != cluster.Active {
		t.Errorf("one of two is not known: %v, and n1 is %s", err, available("n1"))
	}
	if _, err = answer(SetAvailability{Availability: cluster.Drain}); err == nil {
		t.Error("no node is named, and that is accepted")
	}
	value, err := answer(SetAvailability{Nodes: []string{"n1", "n2", "n1"}, Availability: cluster.Drain, DrainDeadline: time.Minute})
	results, ok := value.([]NodeResult)
	if err != nil || !ok || len(results) != 3 || !results[0].Changed || !results[1].Changed || results[2].Changed {
		t.Fatalf("answered %+v, %v", value, err)
	}
	for name, want := range map[string]cluster.Availability{"n1": cluster.Drain, "n2": cluster.Drain, "n3": cluster.Active} {
		if available(name) != want {
			t.Errorf("%s is %s, want %s", name, available(name), want)
		}
	}
}

// That the state is an older copy of what a node has seen matters for as long as the node is to come back.
func TestAnOlderCopyIsForgottenWithItsNode(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	for i, n := range []cluster.NodeID{"n1", "n2"} {
		join(e, time.Duration(i+1), n)
		step(e, 5, command{op: NoteStall{About: string(n), Code: cluster.CodeOlderCopy, Message: "seen"}})
	}
	step(e, 6, command{op: Decommission{Node: "n1", Force: true}})
	if st := e.View(); st.Noted("n1", cluster.CodeOlderCopy) != nil || st.Noted("n2", cluster.CodeOlderCopy) == nil {
		t.Errorf("noted of n1: %v, of n2: %v", st.Noted("n1", cluster.CodeOlderCopy), st.Noted("n2", cluster.CodeOlderCopy))
	}
	if key := "stall/" + e.View().Noted("n2", cluster.CodeOlderCopy).Key(); !IsOlderCopy(key) || IsOlderCopy("stall/cluster:n2|core|mass_silence") {
		t.Errorf("%s is not told apart", key)
	}
}
