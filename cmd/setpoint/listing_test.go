package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func zoneNode(state string) *apiv1.Node {
	return &apiv1.Node{
		Id: "k3osb6", Name: "n1", State: state, Availability: "active", Since: timestamppb.Now(), Labels: map[string]string{"zone": "a", "disk": "ssd"},
		Capacity: &setpointv1.Resources{MilliCpu: 4000}, Description: &setpointv1.NodeDescription{Version: "v1", Addresses: []string{"10.0.0.1"}},
	}
}

// TestForms holds that lists and inspect have all forms of output, and that other commands refuse names before they do anything.
func TestForms(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node { return zoneNode("ready") }
	f.job = func() (*apiv1.Job, error) {
		j := webJob("running", 2, 3)
		j.Spec = &setpointv1.JobSpec{Labels: map[string]string{"team": "web"}}
		return j, nil
	}
	f.wait(ssdStall())
	for _, tt := range []struct {
		args    string
		has     []string
		lacks   []string
		exactly string
	}{
		{args: "node ls", has: []string{"NAME", "LABELS", "disk=ssd zone=a"}, lacks: []string{"AGENT", "k3osb6"}},
		{args: "node ls -o wide", has: []string{"AGENT", "k3osb6", "10.0.0.1", "disk=ssd zone=a"}},
		{args: "node ls -o name", exactly: "n1\n"},
		{args: "node inspect n1 -o name", exactly: "n1\n"},
		{args: "node ls -o yaml", has: []string{"- id: k3osb6\n  name: n1\n  state: ready\n", "  labels:\n    disk: ssd\n    zone: a\n", "  ports: []\n", "  cpu: 4\n"}},
		{args: "node inspect n1 -o yaml", has: []string{"id: k3osb6\nname: n1\n"}},
		{args: "job ls -o name", exactly: "web\n"},
		{args: "job ls -o wide", has: []string{"LABELS", "team=web"}},
		{args: "job inspect web -o name", exactly: "web\n"},
		{args: "stalls -o name", exactly: "web/3/9\n"},
		{args: "stalls -o yaml", has: []string{"- subject:\n    kind: task\n    id: web/3/9\n"}},
		{args: "node ls -l zone=a,disk!=hdd -o name", exactly: "n1\n"},
		{args: "node ls -l zone=b -o name", exactly: ""},
		{args: "job ls --selector team -o name", exactly: "web\n"},
		{args: "job ls -l !team -o name", exactly: ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			r := f.run(t, strings.Fields(tt.args)...)
			r.expect(t, exitDone, tt.has, nil)
			for _, text := range tt.lacks {
				if strings.Contains(r.out, text) {
					t.Errorf("stdout has %q:\n%s", text, r.out)
				}
			}
			if len(tt.has) == 0 && r.out != tt.exactly {
				t.Errorf("got %q, want %q", r.out, tt.exactly)
			}
		})
	}
	f.run(t, "job", "stop", "web", "-o", "name").expect(t, exitRefused, nil, []string{"setpoint job stop has no names to print"})
	f.run(t, "node", "ls", "-o", "xml").expect(t, exitRefused, nil, []string{`unknown output "xml"`, "table, wide, json, yaml, name"})
	f.run(t, "node", "ls", "-l", "=a,x y").expect(t, exitRefused, nil, []string{`"=a" names no label`, `"x y" is no condition`, "KEY in (A, B)"})
	if got := f.noted(); len(got) != 0 {
		t.Errorf("a refused command asked the server for %v", got)
	}
}

// watchOutput collects what a command prints while it goes on.
type watchOutput struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (w *watchOutput) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watchOutput) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await polls until what was printed is as wanted.
func (w *watchOutput) await(t *testing.T, want func(text string) bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; !want(w.String()); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so after 20s:\n%s", w.String())
		}
	}
}

// begin runs a command until the test ends it.
func (f *fakeServer) begin(t *testing.T, args ...string) (out, errOut *watchOutput, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errOut = &watchOutput{}, &watchOutput{}
	code := make(chan int)
	go func() {
		a := &app{in: strings.NewReader(""), out: out, errOut: errOut, env: func(string) string { return "" }}
		code <- a.run(ctx, append([]string{"--data-dir", string(f.dir)}, args...))
	}()
	return out, errOut, func() int {
		cancel()
		return <-code
	}
}

// TestWatchList holds that where there is no terminal a watched list is the list and then each row that is new or changed, and nothing else.
func TestWatchList(t *testing.T) {
	f := newFake(t)
	var state atomic.Value
	state.Store("ready")
	f.node = func() *apiv1.Node { return zoneNode(state.Load().(string)) }
	out, _, end := f.begin(t, "node", "ls", "--watch")
	out.await(t, func(text string) bool { return strings.Contains(text, "ready") })
	state.Store("silent")
	out.await(t, func(text string) bool { return strings.Contains(text, "silent") })
	state.Store("ready")
	out.await(t, func(text string) bool { return strings.Count(text, "ready") == 2 })
	if code := end(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	var first []string
	for line := range strings.Lines(out.String()) {
		first = append(first, strings.Fields(line)[1])
	}
	if got, want := strings.Join(first, " "), "STATE ready silent ready"; got != want {
		t.Errorf("states were %q, want %q:\n%s", got, want, out.String())
	}
}

// With JSON each value is one line.
func TestWatchListForPrograms(t *testing.T) {
	f := newFake(t)
	var state atomic.Value
	state.Store("ready")
	f.node = func() *apiv1.Node { return zoneNode(state.Load().(string)) }
	out, _, end := f.begin(t, "node", "ls", "--watch", "-o", "json")
	out.await(t, func(text string) bool { return strings.Contains(text, `"state":"ready"`) })
	state.Store("down")
	out.await(t, func(text string) bool { return strings.Contains(text, `"state":"down"`) })
	end()
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "[{") || !strings.HasSuffix(line, "}]\n") {
			t.Errorf("not one value a line: %q", line)
		}
	}
}

// A server that goes away is waited for, and that is said once.
func TestWatchOutlivesTheServer(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node { return zoneNode("ready") }
	var away atomic.Bool
	f.refuse = away.Load
	out, errOut, end := f.begin(t, "node", "ls", "-w")
	defer end()
	out.await(t, func(text string) bool { return strings.Contains(text, "ready") })
	away.Store(true)
	errOut.await(t, func(text string) bool {
		return strings.Contains(text, "No answer from the server at https://127.0.0.1:")
	})
	away.Store(false)
	errOut.await(t, func(text string) bool { return strings.Contains(text, "The server answers again.") })
	if n := strings.Count(errOut.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, errOut.String())
	}
}

// The first look must succeed: somebody who names the wrong server is told at once.
func TestWatchBeginsWithAServer(t *testing.T) {
	f := newFake(t)
	f.refuse = func() bool { return true }
	f.run(t, "node", "ls", "--watch").expect(t, exitError, nil, []string{"no answer from the server"})
}

// A server that is started again elsewhere is found there, by what it wrote into the data directory.
func TestWatchFollowsTheServer(t *testing.T) {
	f := newFake(t)
	var state atomic.Value
	state.Store("ready")
	f.node = func() *apiv1.Node { return zoneNode(state.Load().(string)) }
	out, errOut, end := f.begin(t, "node", "ls", "-w")
	defer end()
	out.await(t, func(text string) bool { return strings.Contains(text, "ready") })
	f.stop()
	errOut.await(t, func(text string) bool { return strings.Contains(text, "No answer from the server at") })
	state.Store("down")
	f.listen(t)
	out.await(t, func(text string) bool { return strings.Contains(text, "down") })
	errOut.await(t, func(text string) bool { return strings.Contains(text, "The server answers again.") })
}

// What waits for the same is shown once, with what else does.
func TestStallsTogether(t *testing.T) {
	f := newFake(t)
	var stalls []*apiv1.Stall
	for _, id := range []string{"web/3/9", "web/4/9", "db/1/9", "db/2/9", "db/3/9", "db/4/9"} {
		s := ssdStall()
		s.Subject.Id = id
		stalls = append(stalls, s)
	}
	stalls[1].Message = "another reason"
	f.wait(stalls...)
	r := f.run(t, "stalls")
	r.expect(t, exitDone, []string{"web/3/9 stalled", "    4 more wait for the same: db/1/9, db/2/9, db/3/9, db/4/9\n", "web/4/9 stalled", "another reason", "6 stalls"}, nil)
	if strings.Contains(r.out, "db/1/9 stalled") {
		t.Errorf("the same is said again:\n%s", r.out)
	}
}

// An empty list says of what.
func TestNothingWaits(t *testing.T) {
	f := newFake(t)
	f.job = func() (*apiv1.Job, error) {
		return nil, refused(connect.CodeNotFound, `there is no job "wbe"`, &apiv1.ErrorDetail{Code: "not_found", Hint: `Is "web" meant?`})
	}
	f.run(t, "stalls").expect(t, exitDone, []string{"Nothing waits.\n"}, nil)
	f.run(t, "stalls", "--code", "constraint").expect(t, exitDone, []string{"Nothing waits with the code constraint.\n"}, nil)
	f.run(t, "stalls", "--job", "wbe").expect(t, exitDone, []string{"Nothing of job wbe waits.\n"}, []string{`Note: there is no job "wbe"; Is "web" meant?`})
}

// full is a stream that takes nothing more.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What cannot be written is an error, and not an empty list.
func TestOutputThatIsLost(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node { return zoneNode("ready") }
	for _, form := range outputs() {
		var errOut strings.Builder
		a := &app{in: strings.NewReader(""), out: full{}, errOut: &errOut, env: func(string) string { return "" }}
		if code := a.run(t.Context(), []string{"--data-dir", string(f.dir), "node", "ls", "-o", form}); code != exitError || !strings.Contains(errOut.String(), "no space left on device") {
			t.Errorf("-o %s: exit code %d, %q", form, code, errOut.String())
		}
	}
}
