package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/sim"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// recorder keeps what would fail a test.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Helper() {}

// epoch is when the stories below begin.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scene is a view in which all is well, to be spoilt.
func scene(at time.Duration) view {
	now := epoch.Add(at)
	running := &apiv1.Task{
		Id: "web/1/5", Job: "web", Slot: "1", Node: "n1", NodeId: "id1", Phase: "running", Desired: &apiv1.Desired{State: "running"},
		Observed: &apiv1.Observed{State: "running", Healthy: true, At: timestamppb.New(epoch)}, Condition: &apiv1.Condition{State: "ok"},
	}
	waiting := &apiv1.Task{
		Id: "web/2/5", Job: "web", Slot: "2", Phase: "stalled", Desired: &apiv1.Desired{State: "running"}, Observed: &apiv1.Observed{},
		Condition: &apiv1.Condition{State: "ok"},
		Stalls: []*apiv1.Stall{{
			Source: "placement", Code: "constraint", Message: "no node", Since: timestamppb.New(epoch), Changed: timestamppb.New(epoch),
			Facts: &apiv1.Facts{Nodes: 1, Excluded: []*apiv1.Exclusion{{Code: "constraint", Count: 1}}},
		}},
	}
	return view{
		at: now, same: true, tasks: []*apiv1.Task{running, waiting},
		nodes: []*apiv1.Node{{
			Id: "id1", Name: "n1", State: "ready", Capacity: &setpointv1.Resources{MilliCpu: 4000}, Used: &setpointv1.Resources{MilliCpu: 100},
			Free: &setpointv1.Resources{MilliCpu: 3900},
		}},
		lives: []Life{{Task: "web/1/5", Job: "web", Slot: "1", Node: "n1", Started: epoch}},
	}
}

func watcher(t *testing.T) (*Sampler, *recorder) {
	t.Helper()
	r := &recorder{TB: t}
	c := &Cluster{
		t: r, agents: map[string]*Agent{}, jobs: map[string]Job{"web": {Name: "web"}}, removed: map[string]time.Time{}, closed: map[string]time.Time{},
	}
	c.agents["a1-n1"] = &Agent{Node: N("n1"), c: c, dir: t.TempDir()}
	return &Sampler{
		c: c, said: map[string]bool{}, differs: map[string]difference{}, still: map[string]stillness{}, stalls: map[string]stallSeen{},
	}, r
}

// TestSamplerSees spoils a scene in one way at a time and plays it for ten seconds.
func TestSamplerSees(t *testing.T) {
	tests := map[string]struct {
		spoil func(s *Sampler, v *view)
		want  string // how what is said begins; empty: nothing is said
	}{
		"all is well": {func(*Sampler, *view) {}, ""},
		"two alive in a slot": {func(_ *Sampler, v *view) {
			v.lives = append(v.lives, Life{Task: "web/1/9", Node: "n2", Started: epoch})
		}, "V1"},
		"two alive with start-first": {func(s *Sampler, v *view) {
			s.c.jobs["web"] = Job{Name: "web", More: `update { order = "start-first" }`}
			v.lives = append(v.lives, Life{Task: "web/1/9", Node: "n1", Started: v.at.Add(-time.Millisecond)})
			s.c.opts.Unchecked = []string{"V5"}
		}, ""},
		"two alive, one where nobody reaches it": {func(s *Sampler, v *view) {
			a := &Agent{Node: N("n2"), c: s.c, cuts: []cut{{from: epoch}}}
			s.c.agents["a2-n2"] = a
			v.lives = append(v.lives, Life{Task: "web/1/9", Node: "n2", Started: epoch})
		}, ""},
		"a process beside the task": {func(_ *Sampler, v *view) { v.procs = []Process{{Task: "web/1/8", Node: "n1"}} }, "V1"},
		"free is wrong":             {func(_ *Sampler, v *view) { v.nodes[0].Free.MilliCpu = 4000 }, "V2"},
		"used is wrong":             {func(_ *Sampler, v *view) { v.nodes[0].Used.MilliCpu, v.nodes[0].Free.MilliCpu = 200, 3800 }, "V2"},
		"used of another revision": {func(_ *Sampler, v *view) {
			v.nodes[0].Used.MilliCpu, v.nodes[0].Free.MilliCpu, v.same = 200, 3800, false
		}, ""},
		"too much is alive": {func(s *Sampler, v *view) {
			s.c.jobs["big"] = Job{Name: "big", CPU: 4}
			v.lives = append(v.lives, Life{Task: "big/1/9", Node: "n1", Started: epoch.Add(10*time.Second - time.Millisecond)})
		}, "V2"},
		"a port twice": {func(_ *Sampler, v *view) {
			v.tasks[0].Ports = []*apiv1.Port{{Name: "a", Number: 80}, {Name: "b", Number: 80}}
		}, "V2"},
		"a start on a drained node":     {func(s *Sampler, _ *view) { s.c.closed["n1"] = epoch.Add(-time.Second) }, "V3"},
		"a start just before":           {func(s *Sampler, _ *view) { s.c.closed["n1"] = epoch.Add(-100 * time.Millisecond) }, ""},
		"it waits and does not say why": {func(_ *Sampler, v *view) { v.tasks[1].Stalls = nil }, "V4"},
		"it runs and says why it waits": {func(_ *Sampler, v *view) { v.tasks[0].Stalls = v.tasks[1].Stalls }, "V4"},
		"it says everything twice": {func(_ *Sampler, v *view) {
			v.tasks[1].Stalls = append(v.tasks[1].Stalls, v.tasks[1].Stalls[0])
		}, "V4"},
		"it waits since now and now": {func(_ *Sampler, v *view) { v.tasks[1].Stalls[0].Since = timestamppb.New(v.at) }, "V4"},
		"it changed to the same":     {func(_ *Sampler, v *view) { v.tasks[1].Stalls[0].Changed = timestamppb.New(v.at) }, "V4"},
		"it changed with its counts": {func(_ *Sampler, v *view) {
			v.tasks[1].Stalls[0].Changed = timestamppb.New(v.at)
			v.tasks[1].Stalls[0].Facts.Excluded[0].Count = v.at.UnixMilli()
		}, ""},
		"dead and listed as running": {func(_ *Sampler, v *view) { v.lives = nil }, "V5"},
		"ended a moment ago":         {func(_ *Sampler, v *view) { v.lives[0].Ended = epoch.Add(9500 * time.Millisecond) }, ""},
		"alive and not listed":       {func(_ *Sampler, v *view) { v.tasks, v.nodes = v.tasks[1:], nil }, "V5"},
		"a task of a removed job":    {func(s *Sampler, _ *view) { s.c.removed["web"] = epoch.Add(-time.Second) }, "V6"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, r := watcher(t)
			for at := time.Duration(0); at <= 10*time.Second; at += sampleEvery {
				v := scene(at)
				tt.spoil(s, &v)
				s.check(v)
			}
			said := strings.Join(r.errors, "\n")
			if tt.want == "" && said != "" {
				t.Errorf("it says %s", said)
			}
			if tt.want != "" && !strings.Contains(said, " "+tt.want+":") {
				t.Errorf("want %s, got %q", tt.want, said)
			}
		})
	}
}

// TestLives reads the driver's log: how long a task lives follows from its script as soon as the order to stop is there.
func TestLives(t *testing.T) {
	spec := &driver.Spec{TaskID: "web/1/5", Settings: map[string]string{"start_delay": "200ms", "stop_delay": "3s"}}
	started := sim.Event{Time: epoch, Kind: sim.Started, TaskID: "web/1/5", Spec: spec}
	asked := sim.Event{Time: epoch.Add(time.Second), Kind: sim.StopAsked, TaskID: "web/1/5", Signal: "TERM", Grace: 10 * time.Second}
	sooner := sim.Event{Time: epoch.Add(2 * time.Second), Kind: sim.StopAsked, TaskID: "web/1/5", Signal: "TERM", Grace: 500 * time.Millisecond}
	ended := sim.Event{Time: epoch.Add(9 * time.Second), Kind: sim.Ended, TaskID: "web/1/5", Exit: &driver.Exit{Code: 143, Signal: "TERM", Finished: epoch.Add(4 * time.Second)}}
	for name, tt := range map[string]struct {
		events []sim.Event
		end    time.Duration // 0: it lives on
	}{
		"lives":          {[]sim.Event{started}, 0},
		"stops":          {[]sim.Event{started, asked}, 4 * time.Second},
		"stops sooner":   {[]sim.Event{started, asked, sooner}, 2500 * time.Millisecond},
		"has stopped":    {[]sim.Event{started, asked, ended}, 4 * time.Second},
		"of another day": {[]sim.Event{ended, started}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			lives := livesOf(tt.events, "n1")
			if len(lives) != 1 || lives[0].Job != "web" || lives[0].Slot != "1" || lives[0].StartDelay != 200*time.Millisecond {
				t.Fatalf("%+v", lives)
			}
			for at, want := range map[time.Duration]bool{
				-time.Second: false, 0: true, tt.end - time.Millisecond: tt.end > 0, tt.end + time.Millisecond: tt.end == 0, time.Hour: tt.end == 0,
			} {
				if got := lives[0].AliveAt(epoch.Add(at)); got != want {
					t.Errorf("alive after %s: %t", at, got)
				}
			}
		})
	}
}

func TestFewestAlive(t *testing.T) {
	second := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	lives := []Life{
		{Started: second(0)}, {Started: second(0), Ended: second(5)}, {Started: second(6), Ended: second(9)}, {Started: second(1), Ended: second(20)},
	}
	for _, tt := range []struct{ from, to, want int }{{2, 4, 3}, {2, 8, 2}, {6, 8, 3}, {6, 15, 2}, {6, 30, 1}, {0, 4, 2}} {
		if got := FewestAlive(lives, second(tt.from), second(tt.to)); got != tt.want {
			t.Errorf("from %d to %d: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestJobFile holds the short form of jobs to what a file says.
func TestJobFile(t *testing.T) {
	text := Job{Name: "web", Count: 3, Constraints: []string{"node.labels.a == b"}, Port: 80, MaxUnavailable: `"50%"`, Sim: map[string]string{"stop_delay": "3s"}}.HCL()
	for _, line := range []string{
		`job "web" {`, `count = 3`, `constraints = ["node.labels.a == b"]`, `max_unavailable = "50%"`, `static = 80`, `stop_delay = "3s"`, `start_delay = "200ms"`,
		`cpu = 0.1`, `monitor = "3s"`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}
