package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// memory commits to nothing.
type memory struct{}

func (memory) Commit(context.Context, cluster.Revision, cluster.Time, []any, []any) error { return nil }

// bubbleClock is the bubble's clock.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() cluster.Time {
	return cluster.Time{Engine: time.Since(c.start) + time.Second, Wall: time.Now().UnixNano()}
}

// A node joins, an agent reports, a job is run there, and the node is drained: all with the engine itself.
func TestTheEngineRunsTasksThroughASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := bubbleClock{time.Now()}
		e := engine.New(engine.Config{ClusterID: clusterID, Heartbeat: time.Minute}, engine.NewState(clusterID), clock.Now())
		d, err := New(Options{
			Engine: e, Tokens: fakeTokens{}, Signer: fakeSigner{}, Log: hclog.NewNullLogger(), Authority: nobodysAuthority, Issued: pki.Authorities{}.Issued,
			Identity: func(context.Context) (pki.Identity, error) { return pki.Identity{}, pki.ErrNoCertificate },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = e.Run(ctx, clock, memory{}, engine.Ports{Committed: []func(engine.Turn){d.Committed}}) }()
		go func() { _ = d.Run(ctx) }()

		what := cluster.NodeDescription{OS: "linux", Drivers: []string{"process"}, Capacity: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30}}
		must(t, e, engine.JoinNode{ID: "n1", Name: "host", Description: what})
		a := dial(t, d, "n1", &agentv1.Hello{ClusterId: clusterID, Description: &setpointv1.NodeDescription{
			Os: "linux", Drivers: []string{"process"}, Capacity: &setpointv1.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30},
		}})
		if full := a.welcome(); len(full.GetUpsert()) != 0 {
			t.Errorf("a new node is to run %v", full)
		}
		a.report(&agentv1.Report{Number: 1, Full: true})
		if m := a.next(); m.GetAck().GetNumber() != 1 {
			t.Fatalf("got %v, want the report acknowledged", m)
		}

		must(t, e, engine.RunJob{Spec: cluster.JobSpec{Name: "web", Count: 2, Task: cluster.TaskSpec{Command: []string{"/srv/web"}}}.WithDefaults()})
		placed := a.assignments(2).GetUpsert()
		if len(placed) != 2 || !placed[0].GetStart() || !placed[1].GetStart() || placed[0].GetSpec().GetCommand()[0] != "/srv/web" {
			t.Fatalf("the node is to run %v, want two tasks to be started", placed)
		}
		running := &agentv1.Report{Number: 2}
		for _, p := range placed {
			running.Tasks = append(running.Tasks, &agentv1.TaskStatus{Task: p.GetTask(), State: uint32(cluster.Running), Healthy: true})
		}
		a.report(running)
		known := false
		for range 2 {
			m := a.next()
			known = known || len(m.GetAssignments().GetUpsert()) == 2 && m.GetAssignments().GetUpsert()[0].GetObserved() == uint32(cluster.Running)
		}
		if got := e.View().Task(cluster.TaskID(placed[0].GetTask())).Observed.State; got != cluster.Running || !known {
			t.Errorf("the task is observed %v, want %v", got, cluster.Running)
		}

		must(t, e, engine.SetAvailability{Nodes: []string{"host"}, Availability: cluster.Pause})
		for _, u := range a.assignments(4).GetUpsert() {
			if u.GetStart() || u.GetDesired() != uint32(cluster.DesiredRunning) {
				t.Errorf("on a paused node the agent was told %v", u)
			}
		}
		must(t, e, engine.Decommission{Node: "host", Force: true})
		m := a.next()
		for m.GetAssignments() != nil {
			m = a.next()
		}
		if m.GetLeave() == nil {
			t.Errorf("got %v, want Leave", m)
		}
		<-a.gone
	})
}

func must(t *testing.T, e *engine.Engine, op engine.Op) {
	t.Helper()
	if _, err := e.Do(t.Context(), "test", op); err != nil {
		t.Fatalf("%T: %v", op, err)
	}
}
