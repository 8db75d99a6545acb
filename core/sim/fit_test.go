package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// update runs the next version of a job and returns how its update stands once it ended, or after a minute.
func update(t *testing.T, w *sim.World, spec cluster.JobSpec) (u cluster.Update, least int) {
	t.Helper()
	least = up(w, spec.Name)
	w.MustDo(engine.RunJob{Spec: spec})
	w.RunUntil(time.Minute, func() bool {
		least = min(least, up(w, spec.Name))
		u = w.State().Job(spec.Name).Update
		return u.State != cluster.Updating && u.State != cluster.UpdateNone
	})
	return u, least
}

func versions(w *sim.World, job string) map[uint64]int {
	out := map[uint64]int{}
	for x := range w.State().TasksOf(job) {
		if x.Up(w.State().Node(x.Placement.Node)) {
			out[x.JobVersion]++
		}
	}
	return out
}

// A healthy task is stopped for an update only if its replacement would fit (scenario 12D).
func TestUpdateStopsNothingWhoseReplacementWouldNotFit(t *testing.T) {
	for _, on := range []cluster.OnFailure{cluster.FailurePause, cluster.FailureContinue} {
		t.Run(string(on), func(t *testing.T) {
			w := newWorld(t, 3)
			spec := func(cpu int64) cluster.JobSpec {
				return job("u", 0, func(s *cluster.JobSpec) {
					s.Type, s.Task.Resources.MilliCPU = cluster.TypeGlobal, cpu
					s.Update = cluster.UpdateSpec{Parallelism: 1, Monitor: time.Second, OnFailure: on, ProgressDeadline: 10 * time.Second}
				})
			}
			w.MustDo(engine.LabelNode{Node: "n2", Set: map[string]string{"disk": "ssd"}})
			w.MustDo(engine.RunJob{Spec: job("other", 1, func(s *cluster.JobSpec) {
				s.Plugins, s.Task.Resources.MilliCPU = sim.Constraints("node.labels.disk == ssd"), 2500
			})})
			w.MustDo(engine.RunJob{Spec: spec(1000)})
			w.RunUntil(5*time.Second, func() bool { return up(w, "u") == 3 && up(w, "other") == 1 })
			u, _ := update(t, w, spec(2000))
			if up(w, "u") != 3 || versions(w, "u")[2] != 2 || versions(w, "u")[1] != 1 {
				t.Errorf("versions %v", versions(w, "u"))
			}
			want := map[cluster.OnFailure]cluster.UpdateState{cluster.FailurePause: cluster.UpdatePaused, cluster.FailureContinue: cluster.UpdateCompleted}[on]
			if u.State != want {
				t.Fatalf("the update is %s (%s), want %s", u.State, u.Message, want)
			}
			slot := cluster.Subject{Kind: cluster.SubjectSlot, ID: "u/" + string(w.State().NodeNamed("n2").ID)}
			w.MustDo(engine.RemoveJob{Job: "other"})
			if on == cluster.FailurePause {
				w.MustDo(engine.ControlUpdate{Job: "u", Action: engine.ResumeUpdate})
			} else if s := w.State().StallsOf(slot); len(s) != 1 || s[0].Code != cluster.CodeInsufficientResources || !strings.Contains(s[0].Message, "want 2, best free 1.5") {
				t.Errorf("stalls of %s: %+v", slot.ID, s)
			}
			if !w.RunUntil(20*time.Second, func() bool { return versions(w, "u")[2] == 3 }) {
				t.Errorf("n2 does not follow once there is room: %v, %+v", versions(w, "u"), w.State().Job("u").Update)
			}
		})
	}
}

// Start-first meets something exclusive: it falls back to stop-first where the replacement fits only without the old task (scenario 14).
func TestStartFirstFallsBack(t *testing.T) {
	exclusive := map[string]func(*cluster.JobSpec){
		"port":  func(s *cluster.JobSpec) { s.Task.Ports = []cluster.Port{{Name: "http", Static: 80}} },
		"cpu":   func(s *cluster.JobSpec) { s.Task.Resources.MilliCPU = 3000 },
		"limit": func(s *cluster.JobSpec) { s.MaxPerNode = 1 },
	}
	for name, edit := range exclusive {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			spec := func(v string) cluster.JobSpec {
				return job("p", 1, func(s *cluster.JobSpec) {
					s.Update = cluster.UpdateSpec{Order: cluster.StartFirst, Monitor: time.Second}
					s.Task.Env = map[string]string{"V": v}
					edit(s)
				})
			}
			w.MustDo(engine.RunJob{Spec: spec("1")})
			w.RunUntil(5*time.Second, func() bool { return up(w, "p") == 1 })
			if u, _ := update(t, w, spec("2")); u.State != cluster.UpdateCompleted || versions(w, "p")[2] != 1 {
				t.Fatalf("update %+v, versions %v", u, versions(w, "p"))
			}
			noted := false
			for x := range w.State().TasksOf("p") {
				noted = noted || strings.Contains(x.Desired.Reason, "stops first")
			}
			if !noted {
				t.Error("nothing says that it stopped first")
			}
		})
	}
	t.Run("two nodes", func(t *testing.T) {
		w := newWorld(t, 2)
		spec := func(v string) cluster.JobSpec {
			return job("m", 4, func(s *cluster.JobSpec) {
				s.MaxPerNode = 2
				s.Update = cluster.UpdateSpec{Order: cluster.StartFirst, Monitor: time.Second}
				s.Task.Env = map[string]string{"V": v}
			})
		}
		w.MustDo(engine.RunJob{Spec: spec("1")})
		w.RunUntil(5*time.Second, func() bool { return up(w, "m") == 4 })
		if u, least := update(t, w, spec("2")); u.State != cluster.UpdateCompleted || versions(w, "m")[2] != 4 || least < 3 {
			t.Errorf("update %+v, versions %v, least %d", u, versions(w, "m"), least)
		}
	})
}

// Slots that wait do not keep an update from its end (scenario 14C).
func TestUpdateEndsBesideWhatWaits(t *testing.T) {
	w := newWorld(t, 3)
	w.MustDo(engine.SetAvailability{Nodes: []string{"n3"}, Availability: cluster.Drain})
	spec := func(v string) cluster.JobSpec {
		return job("k", 6, func(s *cluster.JobSpec) {
			s.MaxPerNode = 2
			s.Update = cluster.UpdateSpec{Order: cluster.StartFirst, Monitor: time.Second}
			s.Task.Env = map[string]string{"V": v}
		})
	}
	w.MustDo(engine.RunJob{Spec: spec("1")})
	w.RunUntil(5*time.Second, func() bool { return up(w, "k") == 4 })
	u, _ := update(t, w, spec("2"))
	if u.State != cluster.UpdateCompleted || u.Waiting != 2 || versions(w, "k")[2] != 4 {
		t.Errorf("update %+v, versions %v", u, versions(w, "k"))
	}
}
