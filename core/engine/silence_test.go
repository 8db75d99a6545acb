package engine

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// heard says that an agent spoke.
func heard(nodes ...cluster.NodeID) Input { return AgentsHeard{Nodes: nodes} }

// reload continues from what was committed, as a server does that was started anew.
func reload(e *Engine, now time.Duration) *Engine {
	var records []any
	s := e.View()
	for n := range s.Nodes() {
		records = append(records, n)
	}
	for x := range s.Stalls() {
		records = append(records, x)
	}
	return New(e.cfg, Assemble(s.ClusterID, s.Revision, s.Now, records...), cluster.Time{}.Add(now))
}

func silences(e *Engine) int {
	return len(e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"}))
}

func TestAMassSilenceOutlivesTheServer(t *testing.T) {
	e := New(Config{Heartbeat: time.Second}, NewState("test"), cluster.Time{})
	join(e, 1, "n1", "n2", "n3", "n4", "n5", "n6")
	step(e, 3*time.Second, heard("n1", "n2"))
	if silences(e) != 1 {
		t.Fatal("4 of 6 nodes are silent, and nothing says so")
	}
	step(e, 3500*time.Millisecond, heard("n1", "n2", "n6"))
	since := func() cluster.Time {
		return e.View().StallsOf(cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"})[0].Since
	}
	began := since()
	e = reload(e, 4*time.Second)
	step(e, 4*time.Second)
	if silences(e) != 1 || since() != began {
		t.Fatal("the mass silence ended with the server, or began anew")
	}
	step(e, 30*time.Second, heard("n1", "n2", "n6")) // of all nodes half are silent, of those with which it began 3 of 4
	for n := range e.View().Nodes() {
		if n.Status.State == cluster.NodeDown {
			t.Errorf("node %s is down", n.ID)
		}
	}
	if silences(e) != 1 {
		t.Error("the set with which it began is forgotten")
	}
}
