package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// expect fails unless the command ended with the code and wrote the texts.
func (r result) expect(t *testing.T, code int, out, errOut []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range out {
		if !strings.Contains(r.out, text) {
			t.Errorf("stdout lacks %q", text)
		}
	}
	for _, text := range errOut {
		if !strings.Contains(r.errOut, text) {
			t.Errorf("stderr lacks %q", text)
		}
	}
	if len(errOut) == 0 && r.errOut != "" {
		t.Error("stderr is not empty")
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.out, r.errOut)
	}
}

// frames returns a function that gives one job after another; the last one again and again.
func frames(jobs ...*apiv1.Job) func() (*apiv1.Job, error) {
	var next atomic.Int64
	return func() (*apiv1.Job, error) {
		return jobs[min(int(next.Add(1))-1, len(jobs)-1)], nil
	}
}

func webJob(state string, version uint64, up int64) *apiv1.Job {
	return &apiv1.Job{Name: "web", Type: "replicated", State: state, Version: version, Counts: &apiv1.JobCounts{Wanted: 3, Up: up, Running: up}}
}

func jobFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "web.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const webFile = `job "web" {
  count = 3
  task {
    command = ["/bin/sleep", "60"]
  }
}
`

func ssdStall() *apiv1.Stall {
	since := timestamppb.New(time.Now().Add(-4 * time.Hour))
	return &apiv1.Stall{
		Subject: &apiv1.Subject{Kind: "task", Id: "web/3/9"}, Job: "web", Slot: "3", Task: "web/3/9", Code: "constraint", Source: "placement",
		Message: "no node can run it", Since: since, Changed: since, Nearest: "n2", Clears: "a node with disk=ssd joins",
		Facts: &apiv1.Facts{Nodes: 3, Excluded: []*apiv1.Exclusion{
			{Source: "constraint", Code: "constraint", Detail: "node.labels.disk == ssd", Count: 2, Nodes: []string{"n1", "n2"}},
			{Source: "core", Code: "node_down", Count: 1, Nodes: []string{"n3"}},
		}},
	}
}

func TestJobRun(t *testing.T) {
	rolledBack := webJob("running", 3, 3)
	rolledBack.Versions = []*apiv1.JobVersion{{Version: 2}, {Version: 3, Reason: "rolled back: 1 of 3 slots failed"}}
	rolledBack.Update = &apiv1.Update{State: "rolled_back", From: 2, To: 3, Rollback: true}
	rolling := webJob("updating", 3, 2)
	rolling.Versions, rolling.Update = rolledBack.GetVersions(), &apiv1.Update{State: "updating", From: 2, To: 3, Rollback: true}
	paused := webJob("paused", 2, 3)
	paused.Update = &apiv1.Update{State: "paused", From: 1, To: 2, Message: "1 of 3 slots failed: exit code 1"}
	updating := webJob("updating", 2, 3)
	updating.Update = &apiv1.Update{State: "updating", From: 1, To: 2, Total: 3, Moved: 1}
	completed := webJob("running", 2, 3)
	completed.Update = &apiv1.Update{State: "completed", From: 1, To: 2, Total: 3, Moved: 3}
	partial := webJob("running", 2, 3)
	partial.Update = &apiv1.Update{State: "completed", From: 1, To: 2, Total: 3, Moved: 2, Waiting: 1, NotUpdated: 1}
	held := webJob("stalled", 1, 2)
	held.Slots = []*apiv1.Slot{{Key: "a", Up: true}, {Key: "b", Held: "node n2 is paused"}}
	held.Stalls = []*apiv1.Stall{{Code: "node_paused"}}
	stalled := webJob("stalled", 1, 2)
	stalled.Slots = []*apiv1.Slot{{Key: "3"}}
	stalled.Stalls = []*apiv1.Stall{ssdStall()}

	usedUp := webJob("stalled", 1, 2)
	usedUp.Slots = []*apiv1.Slot{{Key: "3"}}
	usedUp.Stalls = []*apiv1.Stall{{Code: "restart_budget_used", Message: "restart budget used, 3 in 1m0s"}}

	ending := webJob("running", 1, 3)
	ending.Slots = []*apiv1.Slot{{Key: "1", Ends: true, Up: true}}

	tests := []struct {
		name    string
		version uint64
		frames  []*apiv1.Job
		wait    string
		code    int
		out     []string
		errOut  []string
	}{
		{name: "without waiting", version: 1, code: exitDone, out: []string{"web: version 1 accepted"}},
		{
			name: "starts and runs", version: 1, wait: "20s", frames: []*apiv1.Job{webJob("starting", 1, 0), webJob("starting", 1, 2), webJob("running", 1, 3)},
			out: []string{"version 1 starting, 0/3 up\n", "version 1 starting, 2/3 up\n", "web: version 1 running, 3/3 up\n"},
		},
		{
			name: "stalls", version: 1, wait: "300ms", frames: []*apiv1.Job{stalled}, code: exitStalled,
			errOut: []string{"Not done after 300ms", "web/3/9 stalled 4h: constraint", "2 of 3 nodes: constraint node.labels.disk == ssd (n1, n2)", "clears when: a node with disk=ssd joins", "setpoint job why web"},
		},
		{
			name: "runs for a moment, and uses up its restarts", version: 1, wait: "20s", code: exitFailed,
			frames: []*apiv1.Job{webJob("running", 1, 3), webJob("starting", 1, 2), webJob("running", 1, 3), usedUp},
			errOut: []string{"Failed: web: 1 slot used up the restarts that the job allows"},
		},
		{name: "only held slots are missing", version: 1, wait: "20s", frames: []*apiv1.Job{held}},
		{name: "updates", version: 2, wait: "20s", frames: []*apiv1.Job{updating, completed}, out: []string{"1 of 3 moved", "web: version 2 running, 3/3 up"}},
		{
			name: "is rolled back", version: 2, wait: "20s", frames: []*apiv1.Job{rolling, rolledBack}, code: exitFailed,
			errOut: []string{"Failed: web: version 2 failed and was rolled back: 1 of 3 slots failed", "web/1/4", "exit status 1"},
		},
		{name: "update is paused by failures", version: 2, wait: "20s", frames: []*apiv1.Job{paused}, code: exitFailed, errOut: []string{"is paused: 1 of 3 slots failed"}},
		{
			name: "update goes on without a slot", version: 2, wait: "20s", frames: []*apiv1.Job{updating, partial}, code: exitFailed,
			errOut: []string{"Failed: web: the update to version 2 ended without 1 slot"},
		},
		{
			name: "is replaced meanwhile", version: 2, wait: "20s", frames: []*apiv1.Job{updating, webJob("running", 3, 3)}, code: exitError,
			errOut: []string{"web: version 2 was replaced by version 3 meanwhile; nothing failed"},
		},
		{name: "batch that fails", version: 1, wait: "20s", frames: []*apiv1.Job{webJob("failed", 1, 0)}, code: exitFailed, errOut: []string{"it ended, and 0 slots did not end well"}},
		{name: "batch", version: 1, wait: "20s", frames: []*apiv1.Job{ending, webJob("complete", 1, 0)}, out: []string{"web: version 1 running, 3/3 up\n", "web: version 1 complete"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.runJob = func(*apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
				return &apiv1.JobResponse{Job: webJob("starting", tt.version, 0), Changed: true}, nil
			}
			f.job = frames(tt.frames...)
			if len(tt.frames) > 0 {
				f.wait(tt.frames[len(tt.frames)-1].GetStalls()...)
			}
			f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
				return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{
					{Id: "web/1/4", Job: "web", JobVersion: 2, Phase: "failed", Observed: &apiv1.Observed{State: "failed", Err: "exit status 1"}},
				}}
			}
			args := []string{"job", "run", jobFile(t, webFile)}
			if tt.wait != "" {
				args = append(args, "--wait", tt.wait)
			}
			f.run(t, args...).expect(t, tt.code, tt.out, tt.errOut)
			req, ok := f.noted()[0].(*apiv1.RunJobRequest)
			if !ok || !req.GetDryRun() || !req.GetHasDefaults() || req.GetSpec().GetCount() != 3 {
				t.Errorf("first request: %v; want a dry run of the job with its defaults", f.noted()[0])
			}
		})
	}
}

func TestJobRunOfWhatHasEnded(t *testing.T) {
	for state, code := range map[string]int{"complete": exitDone, "failed": exitFailed} {
		f := newFake(t)
		f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse { return &apiv1.ListTasksResponse{} }
		var errOut []string
		if state == "failed" {
			errOut = []string{"Failed: web"}
		}
		f.runJob = func(*apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
			return &apiv1.JobResponse{Job: webJob(state, 1, 0)}, nil
		}
		f.job = frames(webJob(state, 1, 0))
		again := "it has ended already (" + state + "); `setpoint job restart web` runs it again\n"
		f.run(t, "job", "run", jobFile(t, webFile)).expect(t, exitDone, []string{"web: version 1 is as the file says; " + again}, nil)
		f.run(t, "job", "run", jobFile(t, webFile), "--wait", "20s").expect(t, code, []string{"web: nothing was run: " + again}, errOut)
	}
}

func TestJobRunJSON(t *testing.T) {
	f := newFake(t)
	f.runJob = func(*apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
		return &apiv1.JobResponse{Job: webJob("starting", 1, 0), Changed: true}, nil
	}
	f.job = frames(webJob("starting", 1, 1), webJob("running", 1, 3))
	r := f.run(t, "job", "run", jobFile(t, webFile), "--wait", "20s", "-o", "json")
	var got struct {
		Name    string
		State   string
		Changed bool
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	if got.Name != "web" || got.State != "running" || !got.Changed || r.code != exitDone {
		t.Errorf("got %+v, code %d", got, r.code)
	}
	if !strings.Contains(r.errOut, "1/3 up") {
		t.Errorf("progress is not on stderr: %q", r.errOut)
	}
}

// All mistakes of a file are told at once: those that only the server and its plugins see beside those that anybody does.
func TestMistakesInAFile(t *testing.T) {
	f := newFake(t)
	f.runJob = func(req *apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
		if !req.GetDryRun() {
			t.Error("a file with mistakes was run")
		}
		return nil, refused(connect.CodeInvalidArgument, "job web is not valid", &apiv1.ErrorDetail{Code: "invalid", Problems: []*apiv1.Problem{
			{Path: "priority", Summary: "Said by the server as well"}, {Path: "type", Summary: "Unknown job type", Detail: "Served are: global."},
		}})
	}
	path := jobFile(t, "job \"web\" {\n  cuont = 3\n  priority = 1000\n  type = \"tyep\"\n  task {\n    command = [\"x\"]\n  }\n}\n")
	for _, command := range []string{"run", "validate"} {
		r := f.run(t, "job", command, path)
		r.expect(t, exitRefused, nil, []string{"web.hcl line 2", "cuont", "web.hcl line 3", "priority", "web.hcl line 4", "Unknown job type"})
		if strings.Contains(r.errOut, "Said by the server") {
			t.Errorf("a mistake was told twice:\n%s", r.errOut)
		}
	}
}

func TestMistakesThatTheServerFinds(t *testing.T) {
	f := newFake(t)
	f.runJob = func(req *apiv1.RunJobRequest) (*apiv1.JobResponse, error) {
		return nil, refused(connect.CodeInvalidArgument, "job web is not valid", &apiv1.ErrorDetail{Code: "invalid", Problems: []*apiv1.Problem{
			{Path: "count", Summary: "Too many", Detail: "Ask for less."}, {Path: "task.command", Summary: "No such program", Detail: "See PATH."},
		}})
	}
	r := f.run(t, "job", "run", jobFile(t, webFile))
	r.expect(t, exitRefused, nil, []string{"Too many", "web.hcl line 2", "No such program", "web.hcl line 4", "job web was refused"})
}

// A problem of a request is told once, though the message names the first for those who read nothing else.
func TestAProblemIsToldOnce(t *testing.T) {
	f := newFake(t)
	f.job = func() (*apiv1.Job, error) {
		return nil, refused(connect.CodeInvalidArgument, "the request is not valid: job: Not a name. It has a blank.", &apiv1.ErrorDetail{Code: "invalid", Problems: []*apiv1.Problem{
			{Path: "job", Summary: "Not a name", Detail: "It has a blank."},
		}})
	}
	r := f.run(t, "job", "inspect", "a b")
	r.expect(t, exitRefused, nil, []string{"Not a name"})
	if want := "Error: the request is not valid\n  job: Not a name\n    It has a blank.\n"; r.errOut != want {
		t.Errorf("%q, want %q", r.errOut, want)
	}
}

func TestValidateWithoutServer(t *testing.T) {
	r := execute(t, webFile, "job", "validate", "-", "--data-dir", t.TempDir())
	r.expect(t, exitDone, []string{"1 job, valid", "No server was asked"}, nil)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	f := newFake(t)
	f.job = func() (*apiv1.Job, error) {
		return nil, refused(connect.CodeNotFound, `there is no job "web"`, &apiv1.ErrorDetail{Code: "not_found", Hint: "job ls lists those that there are"})
	}
	f.node = func() *apiv1.Node { return &apiv1.Node{Name: "n1", Id: "id1"} }
	tests := []struct {
		args   []string
		code   int
		errOut []string
	}{
		{[]string{"job", "inspect", "web"}, exitError, []string{`there is no job "web"`, "job ls lists those that there are"}},
		{[]string{"node", "decommission", "n1"}, exitRefused, []string{"node n1 is not down", "use --force"}},
		{[]string{"job", "scale", "web", "many"}, exitRefused, []string{`bad COUNT "many"`}},
		{[]string{"job", "scale", "web"}, exitRefused, []string{"an argument is missing", "setpoint job scale NAME COUNT"}},
		{[]string{"job", "inspect", "a", "b"}, exitRefused, []string{"too many arguments"}},
		{[]string{"job", "rnu"}, exitRefused, []string{`unknown command "rnu"`, "Is `setpoint job run` meant?"}},
		{[]string{"tsak"}, exitRefused, []string{`unknown command "tsak"`, "setpoint task"}},
		{[]string{"job", "ls", "--wiat"}, exitRefused, []string{"unknown flag", "setpoint job ls --help"}},
		{[]string{"job", "ls", "-o", "xml"}, exitRefused, []string{`unknown output "xml"`}},
		{[]string{"job", "run", "/does/not/exist"}, exitRefused, []string{"/does/not/exist", "no such file"}},
		{[]string{"node", "label", "n1", "disk"}, exitRefused, []string{`bad label "disk"`, "KEY=VALUE"}},
		{[]string{"node", "label", "n1", "disk=\xff"}, exitRefused, []string{"an argument is not valid UTF-8"}},
		{[]string{"job", "ls", "--addr", "http://127.0.0.1:1"}, exitRefused, []string{"Servers speak TLS only."}},
		{[]string{"job", "ls", "--addr", "127.0.0.1:1"}, exitError, []string{"no answer from the server at https://127.0.0.1:1", "Does it run?"}},
		{[]string{"job", "ls", "--data-dir", "/does/not/exist"}, exitError, []string{"no server has written", "SETPOINT_DATA_DIR"}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) { f.run(t, tt.args...).expect(t, tt.code, nil, tt.errOut) })
	}
}

func TestJobStopAndKill(t *testing.T) {
	f := newFake(t)
	gone := webJob("stopped", 1, 0)
	f.job = frames(webJob("stopping", 1, 3), webJob("stopping", 1, 1), gone)
	f.run(t, "job", "stop", "web", "--wait", "20s").expect(t, exitDone, []string{"1/3 up", "web: version 1 stopped\n"}, nil)
	f.job = frames(gone)
	f.run(t, "job", "kill", "web").expect(t, exitDone, []string{"web: version 1, stopped"}, nil)
	stop, kill := f.noted()[0].(*apiv1.StopJobRequest), f.noted()[1].(*apiv1.StopJobRequest)
	if stop.GetGrace() != nil || kill.GetGrace() == nil || kill.GetGrace().AsDuration() != 0 {
		t.Errorf("grace of stop: %v, of kill: %v; want none and 0", stop.GetGrace(), kill.GetGrace())
	}
}

func TestJobScaleWaitsForSurplus(t *testing.T) {
	f := newFake(t)
	busy, calm := webJob("running", 2, 3), webJob("running", 2, 3)
	busy.Counts.Stopping = 2
	f.job = frames(busy, busy, calm)
	f.run(t, "job", "scale", "web", "3", "--wait", "20s").expect(t, exitDone, []string{"3/3 up, 2 stopping\n", "web: version 2 running, 3/3 up\n"}, nil)
	if got := f.noted()[0].(*apiv1.ScaleJobRequest).GetCount(); got != 3 {
		t.Errorf("asked for %d", got)
	}
}

// Nobody can see a lost task stop, so nobody waits for it.
func TestJobScaleDoesNotWaitForLostTasks(t *testing.T) {
	f := newFake(t)
	busy, lost := webJob("running", 2, 3), webJob("running", 2, 3)
	busy.Counts.Stopping, busy.Counts.StoppingLost = 2, 1
	lost.Counts.Stopping, lost.Counts.StoppingLost = 1, 1
	f.job = frames(busy, busy, lost)
	f.run(t, "job", "scale", "web", "3", "--wait", "20s").expect(t, exitDone, []string{"3/3 up, 2 stopping (1 lost)\n", "web: version 2 running, 3/3 up\n"}, nil)
}

func TestJobRemoveWaits(t *testing.T) {
	f := newFake(t)
	var asked atomic.Int64
	f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		if asked.Add(1) < 3 {
			return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{{Id: "web/1/4", Phase: "stopping"}}}
		}
		return &apiv1.ListTasksResponse{}
	}
	f.run(t, "job", "rm", "web", "--wait", "20s").expect(t, exitDone, []string{"web: 1 task stopping\n", "web: removed\n"}, nil)
	asked.Store(-1000)
	f.run(t, "job", "rm", "web", "--wait", "300ms").expect(t, exitStalled, nil, []string{"have not been seen to stop", "web/1/4"})
}

func TestStalls(t *testing.T) {
	f := newFake(t)
	f.run(t, "stalls").expect(t, exitDone, []string{"Nothing waits."}, nil)
	second := ssdStall()
	second.Subject = &apiv1.Subject{Kind: "plugin", Id: "constraint"}
	f.stalls = []*apiv1.Stall{ssdStall(), second}
	f.run(t, "stalls").expect(t, exitDone, []string{
		"web/3/9 stalled 4h: constraint (placement)\n    no node can run it\n",
		"    2 of 3 nodes: constraint node.labels.disk == ssd (n1, n2)\n    1 of 3 nodes: node_down (n3)\n    nearest: n2\n    clears when: a node with disk=ssd joins\n",
		"plugin constraint stalled 4h", "\n2 stalls\n",
	}, nil)
	r := f.run(t, "-o", "json", "stalls")
	var got []struct {
		Subject struct{ Kind, ID string }
		Facts   struct {
			Nodes    int
			Excluded []struct {
				Count int
				Nodes []string
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Subject.ID != "web/3/9" || got[0].Facts.Nodes != 3 || got[0].Facts.Excluded[0].Count != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestStallsWatch has what waits change twice while somebody watches.
func TestStallsWatch(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	a := &app{in: strings.NewReader(""), out: writer, errOut: io.Discard, env: func(string) string { return "" }}
	ended := make(chan int)
	go func() { ended <- a.run(ctx, []string{"stalls", "--watch", "-o", "json", "--data-dir", string(f.dir)}) }()
	lines := bufio.NewScanner(reader)
	for i, want := range []int{0, 1, 0} {
		if !lines.Scan() {
			t.Fatal("the output ended")
		}
		var got []map[string]any
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil || len(got) != want {
			t.Fatalf("line %d: %d stalls, %v; want %d", i, len(got), err, want)
		}
		if want == 0 {
			f.wait(ssdStall())
		} else {
			f.wait()
		}
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if code := <-ended; code != exitDone {
		t.Errorf("code %d", code)
	}
	_ = writer.Close()
}

func TestTaskWhy(t *testing.T) {
	f := newFake(t)
	f.why = &apiv1.WhyTaskResponse{
		Task: &apiv1.Task{Id: "web/3/9", Phase: "stalled"}, Sentence: "no node can run it (3 nodes: …)", Exceeds: "cpu",
		Nodes: []*apiv1.WhyNode{
			{Node: "n1", Reasons: []*apiv1.WhyReason{{Source: "constraint", Code: "constraint", Detail: "disk"}, {Source: "core", Code: "port_taken", Detail: "8080"}}},
			{Node: "n2"},
		},
	}
	f.run(t, "task", "why", "web/3").expect(t, exitDone, []string{
		"web/3/9: stalled", "no node can run it", "no node has as much cpu", "n1    constraint  constraint  disk\n      core        port_taken  8080\nn2    -           fits        -\n",
	}, nil)
}

func TestTaskList(t *testing.T) {
	f := newFake(t)
	at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
	f.tasks = func(req *apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		if !req.GetAll() || req.GetJob() != "web" || req.GetNode() != "n1" {
			t.Errorf("asked %v", req)
		}
		return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{
			{Id: "web/10/3", Job: "web", Slot: "10", Phase: "running", Created: at(3)},
			{Id: "web/2/1", Job: "web", Slot: "2", Phase: "failed", Dead: true, Created: at(1)},
			{Id: "web/2/5", Job: "web", Slot: "2", Phase: "failed", Dead: true, Created: at(5)},
			{Id: "web/2/7", Job: "web", Slot: "2", Phase: "running", Created: at(7)},
		}}
	}
	ids := func(args ...string) string {
		var list []struct{ ID string }
		r := f.run(t, append([]string{"task", "ls", "--job", "web", "--node", "n1", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(r.out), &list); err != nil {
			t.Fatalf("%v: %s %s", err, r.out, r.errOut)
		}
		return fmt.Sprint(list)
	}
	if got, want := ids(), "[{web/2/5} {web/2/7} {web/10/3}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := ids("--all"), "[{web/2/1} {web/2/5} {web/2/7} {web/10/3}]"; got != want {
		t.Errorf("with --all: got %s, want %s", got, want)
	}
}

func TestTaskLogs(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "task", "logs", "web/1", "-f", "--tail", "5")
	r.expect(t, exitDone, nil, nil)
	if r.out != "one\ntwo\n" {
		t.Errorf("got %q", r.out)
	}
	if req := f.noted()[0].(*apiv1.TaskLogsRequest); !req.GetFollow() || req.GetTail() != 5 || req.GetTask() != "web/1" {
		t.Errorf("asked %v", req)
	}
	f.run(t, "task", "logs", "web/1", "--since", "2026-01-02T15:04:05+01:00", "--stream", "stderr").expect(t, exitDone, nil, nil)
	req := f.noted()[1].(*apiv1.TaskLogsRequest)
	if want := time.Date(2026, 1, 2, 14, 4, 5, 0, time.UTC); !req.GetSince().AsTime().Equal(want) || req.GetStream() != "stderr" || req.GetTail() != -1 {
		t.Errorf("asked %v", req)
	}
	f.run(t, "task", "logs", "web/1", "--since", "yesterday").expect(t, exitRefused, nil, []string{`bad --since "yesterday"`, "such as 10m"})
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "0s": now, "1h30m": now.Add(-90 * time.Minute), "2026-01-02T03:04:05Z": now.Add(-12 * time.Hour),
		"-5m": {}, "5": {}, "2026-01-02": {},
	} {
		got, err := parseSince(text, now)
		if !got.Equal(want) || (err != nil) != want.IsZero() {
			t.Errorf("since %q is %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestDrain(t *testing.T) {
	f := newFake(t)
	var asked atomic.Int64
	left := []int64{3, 3, 1, 0}
	f.node = func() *apiv1.Node {
		i := min(int(asked.Add(1))-1, len(left)-1)
		state := "draining"
		if left[i] == 0 {
			state = "drained"
		}
		return &apiv1.Node{Id: "id1", Name: "n1", Availability: "drain", Drain: &apiv1.Drain{State: state, Left: left[i]}}
	}
	f.run(t, "node", "drain", "n1", "--wait", "20s", "--deadline", "5s").expect(t, exitDone,
		[]string{"n1: draining (3 left), 0 stopped\n", "n1: draining (1 left), 2 stopped\n", "n1: drained\n"}, nil)
	if req := f.noted()[0].(*apiv1.SetAvailabilityRequest); req.GetAvailability() != "drain" || req.GetDrainDeadline().AsDuration() != 5*time.Second {
		t.Errorf("asked %v", req)
	}
}

func TestDrainThatWaits(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node {
		return &apiv1.Node{Id: "id1", Name: "n1", Availability: "drain", Drain: &apiv1.Drain{State: "draining", Left: 1}}
	}
	f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{{Id: "web/1/4", Job: "web", Phase: "running"}}}
	}
	j := webJob("running", 1, 3)
	j.Stalls = []*apiv1.Stall{{Subject: &apiv1.Subject{Kind: "slot", Id: "web/1"}, Code: "waiting_for_budget", Source: "core", Message: "1 of 1 not up"}}
	f.job = frames(j)
	f.wait(j.GetStalls()...)
	f.run(t, "node", "drain", "n1", "--wait", "300ms").expect(t, exitStalled, nil,
		[]string{"n1 is not empty after 300ms: draining (1 left)", "web/1/4", "web/1 stalled", "waiting_for_budget", "1 of 1 not up", "The drain goes on"})
}

func TestLabel(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node {
		return &apiv1.Node{Name: "n2", Labels: map[string]string{"disk": "ssd", "zone": "a"}}
	}
	f.run(t, "node", "label", "n2", "disk=ssd", "eq=a=b", "old-").expect(t, exitDone,
		[]string{"n2: disk=ssd zone=a", "moves 2 running tasks: web/1/5, web/2/5"}, nil)
	req := f.noted()[0].(*apiv1.LabelNodeRequest)
	if fmt.Sprint(req.GetSet(), req.GetRemove()) != "map[disk:ssd eq:a=b] [old]" {
		t.Errorf("asked %v", req)
	}
	f.plan = &apiv1.PlanResponse{Settled: true}
	f.run(t, "node", "label", "n2", "disk-", "--dry-run").expect(t, exitDone,
		[]string{"n2: still disk=ssd zone=a; nothing was changed", "would move 2 running tasks", "nothing: no task would be created, stopped or moved"}, nil)
}

func TestStatusWaits(t *testing.T) {
	f := newFake(t)
	var asked atomic.Int64
	f.status = func() (*apiv1.GetStatusResponse, error) {
		ready := asked.Add(1) > 2
		st := &apiv1.GetStatusResponse{Pid: 42, Version: "v1", Revision: 7, Ready: ready, Nodes: map[string]int64{"ready": 2, "down": 1}, Stalls: 1}
		if !ready {
			st.NotReady = "1 of 3 nodes joined"
		}
		return st, nil
	}
	f.run(t, "status").expect(t, exitStalled, []string{"not ready"}, []string{"1 of 3 nodes joined", "--wait"})
	f.run(t, "status", "--wait", "20s").expect(t, exitDone, []string{"42", "1 down, 2 ready", "setpoint stalls"}, nil)
	asked.Store(-1000)
	f.run(t, "status", "--wait", "300ms").expect(t, exitStalled, nil, []string{"not ready after 300ms: 1 of 3 nodes joined"})
	asked.Store(1000)
	r := f.run(t, "status", "-o", "json")
	var got struct {
		PID      int
		Address  string
		Revision int
		Counts   struct{ Nodes map[string]int }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if address, _ := f.dir.ReadAddress(); got.PID != 42 || got.Address != address || got.Revision != 7 || got.Counts.Nodes["ready"] != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestStatusWithoutDirectory(t *testing.T) {
	r := execute(t, "", "status", "--wait", "300ms", "--data-dir", filepath.Join(t.TempDir(), "later"))
	r.expect(t, exitStalled, nil, []string{"not ready after 300ms", "no server has written its address"})
}

// TestStatusWaitsForTheDirectory has the data directory written while the command waits.
func TestStatusWaitsForTheDirectory(t *testing.T) {
	f := newFake(t)
	f.status = func() (*apiv1.GetStatusResponse, error) { return &apiv1.GetStatusResponse{Ready: true}, nil }
	dir := filepath.Join(t.TempDir(), "later")
	got := make(chan result)
	go func() { got <- execute(t, "", "status", "--wait", "20s", "--data-dir", dir) }()
	if err := os.Symlink(string(f.dir), dir); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.code != exitDone {
		t.Errorf("code %d: %s", r.code, r.errOut)
	}
}

func TestEvents(t *testing.T) {
	f := newFake(t)
	f.events = []*apiv1.WatchEventsResponse{
		{Revision: 5, Events: []*apiv1.Event{{Revision: 5, Kind: "task_placed", Text: "web/1/4 placed on n1", Subject: &apiv1.Subject{Kind: "task", Id: "web/1/4"}}}},
		{Revision: 6, Events: []*apiv1.Event{{Revision: 6, Kind: "node_down", Text: "n1 is down"}}},
	}
	f.run(t, "events", "--from", "5", "--job", "web").expect(t, exitDone, []string{"5  task_placed  web/1/4 placed on n1\n", "n1 is down\n"}, nil)
	if req := f.noted()[0].(*apiv1.WatchEventsRequest); req.FromRevision == nil || req.GetFromRevision() != 5 || req.GetJob() != "web" || req.GetFollow() {
		t.Errorf("asked %v", req)
	}
	var list []struct{ Kind string }
	if err := json.Unmarshal([]byte(f.run(t, "events", "-o", "json").out), &list); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestEventsFollowed holds that somebody who follows gets one event a line, and goes on after the last one when the server was away.
func TestEventsFollowed(t *testing.T) {
	f := newFake(t)
	event := func(revision uint64, text string) *apiv1.WatchEventsResponse {
		return &apiv1.WatchEventsResponse{Revision: revision, Events: []*apiv1.Event{{Revision: revision, Kind: "task_observed", Text: text}}}
	}
	f.events = []*apiv1.WatchEventsResponse{event(5, "first"), event(6, "a task's\nown words")}
	out, errOut, end := f.begin(t, "events", "-f")
	out.await(t, func(text string) bool { return strings.Contains(text, "a task's own words\n") })
	f.stop()
	errOut.await(t, func(text string) bool {
		return strings.Contains(text, "No answer from the server at https://127.0.0.1:")
	})
	f.events = append(f.events, event(7, "third"))
	f.listen(t)
	out.await(t, func(text string) bool { return strings.Contains(text, "third") })
	if code := end(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d lines, want one for each event:\n%s", lines, out.String())
	}
	if text := errOut.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "The server answers again.") {
		t.Errorf("said %q", text)
	}
}

func TestTokenCreatePrintsTheTokenAlone(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "token", "create", "--role", "node", "--lifetime", "1h")
	if r.out != "SPJT-1-x-y\n" || r.code != exitDone {
		t.Errorf("got %q, code %d", r.out, r.code)
	}
	if req := f.noted()[0].(*apiv1.CreateTokenRequest); req.GetRole() != "node" || req.GetLifetime().AsDuration() != time.Hour {
		t.Errorf("asked %v", req)
	}
}

// TestGlobalFlagsAnywhere has them before, between and after the words of a command, and in the environment.
func TestGlobalFlagsAnywhere(t *testing.T) {
	f := newFake(t)
	for _, args := range [][]string{
		{"--data-dir", string(f.dir), "stalls"}, {"stalls", "--data-dir", string(f.dir)}, {"-o", "table", "stalls", "--data-dir=" + string(f.dir), "--no-color"},
	} {
		if r := execute(t, "", args...); r.code != exitDone {
			t.Errorf("%q: code %d: %s", args, r.code, r.errOut)
		}
	}
	address, err := f.dir.ReadAddress()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{address, strings.TrimPrefix(address, "https://")} {
		var out, errOut strings.Builder
		env := map[string]string{"SETPOINT_DATA_DIR": string(f.dir), "SETPOINT_ADDR": addr}
		a := &app{in: strings.NewReader(""), out: &out, errOut: &errOut, env: func(name string) string { return env[name] }}
		if code := a.run(t.Context(), []string{"stalls"}); code != exitDone {
			t.Errorf("%s: code %d: %s", addr, code, errOut.String())
		}
	}
}
