package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// forgetful is a store that keeps nothing.
type forgetful struct{}

func (forgetful) Commit(context.Context, cluster.Revision, cluster.Time, []any, []any) error {
	return nil
}

// stopwatch is engine time since the test began.
type stopwatch time.Time

func (c stopwatch) Now() cluster.Time {
	return cluster.Time{Engine: time.Since(time.Time(c)) + time.Second, Wall: time.Now().UnixNano()}
}

// site is an engine with the real plugins in processes of their own; the test is its agents.
type site struct {
	t    *testing.T
	eng  *engine.Engine
	host *Host
}

func newSite(t *testing.T) *site {
	t.Helper()
	names := []string{"constraint", "drain", "global"}
	s := &site{t: t}
	s.eng = engine.New(engine.Config{ClusterID: "test", Plugins: names, Heartbeat: time.Hour}, engine.NewState("test"), cluster.Time{})
	cfg := Config{Launcher: newLauncher(t), Engine: s.eng, ClusterID: "test", Rehearse: s.rehearse}
	for _, name := range names {
		cfg.Plugins = append(cfg.Plugins, played(name))
	}
	s.host = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.host.Run(ctx) }()
	go func() {
		ended <- s.eng.Run(ctx, stopwatch(time.Now()), forgetful{}, engine.Ports{Plugins: s.host.Update})
	}()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func (s *site) rehearse(ctx context.Context, ask engine.Rehearse) (engine.Rehearsal, error) {
	v, err := s.eng.Do(ctx, "test", ask)
	if err != nil {
		return engine.Rehearsal{}, err
	}
	return v.(engine.Rehearsal), nil
}

func (s *site) do(op engine.Op) any {
	s.t.Helper()
	v, err := s.eng.Do(s.t.Context(), "test", op)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) send(in engine.Input) {
	s.t.Helper()
	if err := s.eng.Send(s.t.Context(), in); err != nil {
		s.t.Fatal(err)
	}
}

// join adds a node whose agent has reported that nothing runs there.
func (s *site) join(id cluster.NodeID, disk string) {
	s.t.Helper()
	about := cluster.NodeDescription{Hostname: string(id), OS: "linux", Arch: "amd64", Drivers: []string{"sim"}, Capacity: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30}}
	s.do(engine.JoinNode{ID: id, Name: string(id), Labels: map[string]string{"disk": disk}, Description: about})
	s.send(engine.AgentUp{Node: id, Session: 1, Description: about})
	s.send(engine.AgentReports{Node: id, Session: 1, Full: true, Last: true})
}

func (s *site) job(name, typ string, count int, constraints string) {
	s.t.Helper()
	spec := cluster.JobSpec{Name: name, Type: typ, Count: count, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}
	if constraints != "" {
		spec.Plugins = []cluster.PluginSettings{{Plugin: "constraint", JSON: fmt.Sprintf(`{"constraints":[%q]}`, constraints)}}
	}
	s.do(engine.RunJob{Spec: spec.WithDefaults()})
}

// placed returns the nodes of a job's tasks that have one and are wanted, sorted.
func (s *site) placed(job string) []cluster.NodeID {
	var out []cluster.NodeID
	for t := range s.eng.View().TasksOf(job) {
		if t.Placement.Node != "" && t.Desired.State.Wanted() {
			out = append(out, t.Placement.Node)
		}
	}
	slices.Sort(out)
	return out
}

func (s *site) awaitPlaced(job string, want ...cluster.NodeID) {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !slices.Equal(s.placed(job), want) {
		<-tick.C
		if time.Now().After(deadline) {
			for st := range s.eng.View().Stalls() {
				s.t.Logf("stall: %+v", *st)
			}
			s.t.Fatalf("job %s is placed on %v, want %v", job, s.placed(job), want)
		}
	}
}

// runs reports that every task that is placed runs.
func (s *site) runs() {
	s.t.Helper()
	for t := range s.eng.View().Tasks() {
		if t.Placement.Node != "" && t.Observed.State < cluster.Running {
			s.send(engine.AgentReports{Node: t.Placement.Node, Session: 1, Tasks: []engine.TaskReport{{Task: t.ID, State: cluster.Running, Healthy: true}}})
		}
	}
}

func TestPluginsDecideForTheEngine(t *testing.T) {
	s := newSite(t)
	s.join("n1", "hdd")
	s.join("n2", "ssd")
	s.job("web", cluster.TypeReplicated, 2, "node.labels.disk == ssd")
	s.job("everywhere", cluster.TypeGlobal, 0, "")
	s.job("some", cluster.TypeGlobal, 0, "node.labels.disk == hdd")
	s.awaitPlaced("web", "n2", "n2")
	s.awaitPlaced("everywhere", "n1", "n2")
	s.awaitPlaced("some", "n1")

	s.job("tape", cluster.TypeReplicated, 1, "node.labels.disk == tape")
	why := func() (reason string) {
		for st := range s.eng.View().Stalls() {
			for _, x := range st.Facts.Excluded {
				if x.Source == "constraint" && x.Code == cluster.CodeConstraint {
					reason = fmt.Sprintf("%d %s", x.Count, x.Detail)
				}
			}
		}
		return reason
	}
	eventually(t, "the stall of tape", func() bool { return why() == "2 node.labels.disk == tape" })
	s.do(engine.LabelNode{Node: "n1", Set: map[string]string{"disk": "tape"}})
	s.awaitPlaced("tape", "n1")

	s.runs()
	s.do(engine.SetAvailability{Nodes: []string{"n2"}, Availability: cluster.Drain})
	eventually(t, "the drainer moves a task within the budget", func() bool {
		var by []string
		for task := range s.eng.View().TasksOf("web") {
			if task.Placement.Node == "n2" && task.Desired.State == cluster.DesiredShutdown {
				by = append(by, task.Desired.By)
			}
		}
		return slices.Equal(by, []string{"drain"})
	})
}

func TestPluginsReturnForTheEngine(t *testing.T) {
	s := newSite(t)
	s.join("n1", "hdd")
	s.join("n2", "ssd")
	s.job("web", cluster.TypeReplicated, 1, "node.labels.disk == ssd")
	s.awaitPlaced("web", "n2")
	for _, st := range s.host.Status() {
		if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	s.join("n3", "ssd")
	s.job("later", cluster.TypeReplicated, 1, "node.labels.disk == hdd")
	s.job("everywhere", cluster.TypeGlobal, 0, "")
	s.awaitPlaced("later", "n1")
	s.awaitPlaced("everywhere", "n1", "n2", "n3")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("placed %s after all plugins were killed", took)
	}
	s.awaitPlaced("web", "n2")
	eventually(t, "no plugin is reported as away", func() bool {
		for st := range s.eng.View().Stalls() {
			if st.Subject.Kind == cluster.SubjectPlugin {
				return false
			}
		}
		return true
	})
}
