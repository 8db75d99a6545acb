package bench

import (
	"fmt"
	"os"
	"path/filepath"
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
		at: now, seen: now.Add(50 * time.Millisecond), same: true, jobs: []string{"web"}, stalls: []*apiv1.Stall{waiting.GetStalls()[0]}, tasks: []*apiv1.Task{running, waiting},
		nodes: []*apiv1.Node{{
			Id: "id1", Name: "n1", State: "ready", Capacity: &setpointv1.Resources{MilliCpu: 4000}, Used: &setpointv1.Resources{MilliCpu: 100},
			Free: &setpointv1.Resources{MilliCpu: 3900},
		}},
		lives:  []Life{{Task: "web/1/5", Job: "web", Slot: "1", Node: "n1", Started: epoch}},
		starts: []Attempt{{Task: "web/1/5", Node: "n1", At: epoch.Add(-200 * time.Millisecond)}},
	}
}

func watcher(t *testing.T) (*Sampler, *recorder) {
	t.Helper()
	r := &recorder{TB: t}
	c := &Cluster{
		t: r, Dir: t.TempDir(), agents: map[string]*Agent{}, jobs: map[string]Job{"web": {Name: "web"}}, removed: map[string]time.Time{},
		closed: map[string][]span{},
	}
	c.agents["a1-n1"] = &Agent{Node: N("n1"), c: c, dir: c.path("a1-n1")}
	return newJudge(c), r
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
			a := &Agent{Node: N("n2"), c: s.c, cuts: []span{{from: epoch}}}
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
		"a start on a drained node": {func(s *Sampler, _ *view) { s.c.closed["n1"] = []span{{from: epoch.Add(-time.Second)}} }, "V3"},
		"a start just after":        {func(s *Sampler, _ *view) { s.c.closed["n1"] = []span{{from: epoch.Add(-400 * time.Millisecond)}} }, ""},
		"a start in a drain that ended": {func(s *Sampler, _ *view) {
			s.c.closed["n1"] = []span{{from: epoch.Add(-2 * time.Second), to: epoch}}
		}, "V3"},
		"a start between two drains": {func(s *Sampler, _ *view) {
			s.c.closed["n1"] = []span{{from: epoch.Add(-2 * time.Second), to: epoch.Add(-time.Second)}, {from: epoch}}
		}, ""},
		"a start on a node that is down": {func(_ *Sampler, v *view) {
			v.nodes[0].State = "down"
			v.starts = append(v.starts, Attempt{Task: "web/3/9", Node: "n1", At: epoch.Add(3 * time.Second)})
		}, "V3"},
		"a start on a node that has come back": {func(_ *Sampler, v *view) {
			if v.at.Before(epoch.Add(3 * time.Second)) {
				v.nodes[0].State = "down"
			}
			v.starts = append(v.starts, Attempt{Task: "web/3/9", Node: "n1", At: epoch.Add(3 * time.Second)})
		}, ""},
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
		"differs for a second and more": {func(_ *Sampler, v *view) {
			if at := v.at.Sub(epoch); at > 2*time.Second && at < 3500*time.Millisecond {
				v.lives = nil
			}
		}, "V5"},
		"differs for less than a second": {func(_ *Sampler, v *view) {
			if at := v.at.Sub(epoch); at > 2*time.Second && at < 2900*time.Millisecond {
				v.lives = nil
			}
		}, ""},
		"differs just after a start of the server": {func(s *Sampler, v *view) {
			s.c.serverUp = epoch
			if v.at.Before(epoch.Add(9 * time.Second)) {
				v.lives = nil
			}
		}, ""},
		"a task of a removed job": {func(s *Sampler, v *view) {
			s.c.removed["web"] = epoch.Add(-time.Second)
			v.jobs, v.stalls = nil, nil
			v.lives[0].Ended = epoch.Add(-time.Second)
			s.c.opts.Unchecked = []string{"V5"}
		}, "V6"},
		"a task of a removed job that is alive": {func(s *Sampler, v *view) {
			s.c.removed["web"] = epoch.Add(-time.Second)
		}, ""},
		"a removed job is listed":        {removed(func(v *view) { v.jobs = []string{"web"} }), "V6"},
		"a stall of a removed job":       {removed(func(v *view) { v.stalls = []*apiv1.Stall{{Job: "web", Code: "held"}} }), "V6"},
		"a stall names a removed one":    {removed(func(v *view) { v.stalls = []*apiv1.Stall{{Job: "other", Message: "port 80 is taken by web/1"}} }), "V6"},
		"a log line about a removed job": {removed(func(v *view) { v.said = []mention{{v.at, "the log says", `[WARN]  late: job=web`}} }), "V6"},
		"a log line about its task":      {removed(func(v *view) { v.said = []mention{{v.at, "the log says", `[WARN]  late: task=web/1/5`}} }), "V6"},
		"an event about a removed job":   {removed(func(v *view) { v.said = []mention{{v.at, "an event says", `job=web task= held`}} }), "V6"},
		"an event of before":             {removed(func(v *view) { v.said = []mention{{epoch, "an event says", `job=web task= removed`}} }), ""},
		"a log line about something else": {removed(func(v *view) {
			v.said = []mention{{v.at, "the log says", `the web/socket at /var/web/1 of webs: job=web2 task=a-web/1/5`}}
		}), ""},
		"an event about a task without record": {func(_ *Sampler, v *view) {
			if v.at.After(epoch) {
				v.tasks = v.tasks[:1]
				v.said = []mention{{v.at.Add(time.Second), "an event says", "job=web task=web/2/5 task_placed"}}
			}
		}, "V6"},
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

// removed is a scene in which the job web was removed before and has left nothing, but for what is spoilt.
func removed(spoil func(v *view)) func(s *Sampler, v *view) {
	return func(s *Sampler, v *view) {
		s.c.removed["web"] = epoch.Add(-time.Second)
		*v = view{at: v.at, seen: v.seen, same: true}
		spoil(v)
	}
}

// TestUsageGrew holds what a server may use more at the end than at first.
func TestUsageGrew(t *testing.T) {
	first := Usage{Files: 30, Threads: 12, RSS: 50 << 20}
	for name, tt := range map[string]struct {
		now    Usage
		agents int
		want   string // empty: nothing is said
	}{
		"as at first":          {first, 0, ""},
		"a bit more":           {Usage{Files: 35, Threads: 20, RSS: 100 << 20}, 0, ""},
		"files leak":           {Usage{Files: 60, Threads: 12, RSS: 50 << 20}, 0, "60 open files"},
		"there are more nodes": {Usage{Files: 60, Threads: 12, RSS: 50 << 20}, 20, ""},
		"threads leak":         {Usage{Files: 30, Threads: 40, RSS: 50 << 20}, 0, "40 threads"},
		"memory leaks":         {Usage{Files: 30, Threads: 12, RSS: 200 << 20}, 0, "200 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := grew(first, tt.now, tt.agents); (tt.want == "") != (said == "") || !strings.Contains(said, tt.want) {
				t.Errorf("it says %q, want %q", said, tt.want)
			}
		})
	}
}

func TestPanics(t *testing.T) {
	if said := panics("[INFO]  ready\n[INFO]  server ends\n"); said != "" {
		t.Errorf("it says %s", said)
	}
	for _, text := range []string{"panic: runtime error", "call panicked: panic=nil map", "fatal error: all goroutines are asleep", "WARNING: DATA RACE"} {
		if panics("[INFO]  ready\n"+text+"\n") == "" {
			t.Errorf("%q is not seen", text)
		}
	}
}

// TestJudge holds how a command may end.
func TestJudge(t *testing.T) {
	ended := func(code int, took time.Duration, text string) Result {
		return Result{Args: []string{"job", "ls"}, Code: code, Stderr: text, Began: epoch, Ended: epoch.Add(took)}
	}
	for name, tt := range map[string]struct {
		result Result
		good   bool
	}{
		"done":               {ended(Done, time.Second, ""), true},
		"refused":            {ended(Refused, time.Second, "there is no such job"), true},
		"refused in silence": {ended(Refused, time.Second, ""), false},
		"late":               {ended(Done, 21*time.Second, ""), false},
		"killed":             {ended(-1, time.Second, ""), false},
		"another code":       {ended(5, time.Second, "oh"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if said := judge(tt.result, nil, 20*time.Second); (said == "") != tt.good {
				t.Errorf("it says %q", said)
			}
		})
	}
	for want, args := range map[time.Duration][]string{0: {"job", "ls", "--wait"}, 5 * time.Second: {"job", "run", "f", "--wait", "5s"}} {
		if got := waits(args); got != want {
			t.Errorf("%v waits %s", args, got)
		}
	}
}

// TestOrders reads from commands what they do to nodes and jobs.
func TestOrders(t *testing.T) {
	s, _ := watcher(t)
	c := s.c
	order := func(args ...string) {
		c.before(args)
		c.acknowledged(args)
	}
	order("node", "drain", "n1", "--wait", "5s", "n2")
	order("node", "pause", "n3", "--dry-run")
	order("node", "drain", "n1", "--deadline", "1m")
	order("node", "activate", "n2")
	order("job", "rm", "a", "-o", "json")
	if len(c.closed) != 2 || len(c.closed["n1"]) != 1 || !c.closed["n1"][0].to.IsZero() || c.closed["n2"][0].to.IsZero() {
		t.Errorf("closed: %+v", c.closed)
	}
	if _, is := c.removed["a"]; !is || len(c.removed) != 1 {
		t.Errorf("removed: %+v", c.removed)
	}
}

// TestTailer reads whole lines only, each once.
func TestTailer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	tail := tailer{path: path}
	for _, step := range []struct {
		write string
		want  string
	}{{"", ""}, {"one\ntwo\nthr", "one,two"}, {"ee\n", "three"}, {"", ""}} {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(step.write); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := tail.more()
		if err != nil || strings.Join(got, ",") != step.want {
			t.Errorf("%q, %v, want %q", got, err, step.want)
		}
	}
}

// TestAttempts reads from an agent's log what it began to start.
func TestAttempts(t *testing.T) {
	s, _ := watcher(t)
	a := s.c.agents["a1-n1"]
	a.lines, a.begun = tailer{path: a.dir + ".log"}, map[string]bool{}
	s.c.write(a.dir+".log", `2026-03-01T12:00:00.250Z [INFO]  agent: task starting: task=web/1/5 driver=sim
2026-03-01T12:00:01.000Z [INFO]  agent: task ended: task=web/1/5 state=stopped
2026-03-01T12:00:02.000Z [INFO]  agent: task starting: task=web/1/5 driver=sim
`)
	got := s.c.Attempts()
	if len(got) != 1 || got[0].Task != "web/1/5" || got[0].Node != "n1" || !got[0].At.Equal(epoch.Add(250*time.Millisecond)) {
		t.Errorf("%+v", got)
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
