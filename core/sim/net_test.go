package sim_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// A restart whose moment everybody forgot is made all the same, and counted once.
func TestTheNetCatchesAForgottenRestart(t *testing.T) {
	w := newWorld(t, 2)
	w.Forgetful = true
	w.MustDo(engine.RunJob{Spec: job("web", 2, func(s *cluster.JobSpec) { s.Restart.Delay, s.Restart.MaxDelay = 5*time.Second, 5*time.Second })})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 2 })
	a := w.Agents[0]
	a.Kill(w, a.Procs()[0].Task, 1)
	if !w.RunUntil(2*time.Second, func() bool { return up(w, "web") == 1 }) {
		t.Fatal("nothing failed")
	}
	w.Run(100 * time.Millisecond)
	w.Engine.Forget()
	if !w.RunUntil(20*time.Second, func() bool { return up(w, "web") == 2 }) {
		t.Fatalf("up %d of 2", up(w, "web"))
	}
	if len(w.Caught) != 1 || w.Caught[0].What != engine.MissedDeadline || w.Caught[0].About != "job web" {
		t.Errorf("caught %+v, want the deadline of job web alone", w.Caught)
	}
	about := cluster.Subject{Kind: cluster.SubjectCluster, ID: "net"}
	if !w.RunUntil(10*time.Second, func() bool { return len(w.State().StallsOf(about)) == 0 }) {
		t.Error("it is said for ever that something was caught")
	}
}
