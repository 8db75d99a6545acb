package python

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// python is Debian's, which has the modules of python3-grpcio.
const python = "/usr/bin/python3"

// teams returns the plugin's program.
func teams(t *testing.T) sdktest.Program { return program(t, "teams.py") }

// program returns a program in Python. It skips the test where that cannot run.
func program(t *testing.T, file string) sdktest.Program {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, the Python plugin is not tested: python3-grpcio or python3-protobuf is not installed (apt-get install them): %v: %s", err, out)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skipf("SKIPPED, the Python plugin is not tested: %v (apt-get install openssl)", err)
	}
	return sdktest.Program{Path: python, Args: []string{file}}
}

func team(name string) sdk.CompileRequest {
	return sdk.CompileRequest{JobType: cluster.TypeReplicated, Settings: sdk.Settings(`{"team":"` + name + `"}`)}
}

func TestConformance(t *testing.T) {
	sdktest.ConformanceOf(t, teams(t), sdktest.Cases{
		Config: `{"label":"owners"}`, Classes: []sdk.CompileRequest{{JobType: cluster.TypeReplicated}, team("storage"), team("search"), team("a,b")},
	})
}

// open starts a program and opens a session with it.
func open(t *testing.T, p sdktest.Program) *sdktest.Host {
	t.Helper()
	running, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Kill)
	return sdktest.Open(t, running.Client(), sdktest.Options{})
}

func TestTeams(t *testing.T) {
	h := open(t, teams(t))
	h.SetNodes(sdktest.Node("ours", "teams=search, storage"), sdktest.Node("theirs", "teams=search"), sdktest.Node("free"))
	got := h.AddClass(team("storage")).Answer().Verdicts
	want := map[cluster.NodeID]sdktest.Verdict{
		"ours": {Allowed: true, Rank: 50}, "free": {Allowed: true},
		"theirs": {Code: "teams.other_team", Detail: "not of team storage", Clears: "a node gets the label teams=storage"},
	}
	for id, v := range want {
		if got[id] != v {
			t.Errorf("node %s: %+v, want %+v", id, got[id], v)
		}
	}
	if stall := h.AddClass(team("a,b")).Answer().Stall; stall.GetCode() != "teams.bad_team" {
		t.Errorf("two teams: %v, want a stall", stall)
	}
}

func racks(name, label string, count int) sdk.Job {
	return sdk.Job{Name: name, Type: "racks", Count: count, Settings: sdk.Settings(`{"label":"` + label + `"}`)}
}

func TestConformanceOfTheOtherKinds(t *testing.T) {
	sdktest.ConformanceOf(t, program(t, "testdata/racks.py"), sdktest.Cases{
		Jobs: []sdk.Job{{Name: "plain", Type: "racks"}, racks("zones", "zone", 2), racks("held", "none", 1)},
	})
}

func TestJobType(t *testing.T) {
	h := open(t, program(t, "testdata/racks.py"))
	h.SetNodes(sdktest.Node("a", "rack=r1"), sdktest.Node("b", "rack=r1"), sdktest.Node("c", "rack=closed"), sdktest.Node("d"))
	got := h.AddJob(sdk.Job{Name: "cache", Type: "racks", Count: 2})
	if len(got.Slots) != 2 {
		t.Fatalf("slots %+v", got)
	}
	closed, r1 := got.Slots[0], got.Slots[1]
	if r1.Key != "r1" || !slices.Equal(r1.Nodes, []cluster.NodeID{"a", "b"}) || !r1.Ends || r1.Held != nil || closed.Held == nil || closed.Held.Code != "racks.closed" {
		t.Errorf("slots %+v", got)
	}
	said := h.SlotMessages("cache")
	h.UpdateNode(sdktest.Node("d", "other=1"))
	h.Settle()
	if h.SlotMessages("cache") != said {
		t.Error("it says again what has not changed")
	}
	h.UpdateNode(sdktest.Node("d", "rack=r2"))
	h.Settle()
	if got := h.Slots("cache"); len(got.Slots) != 3 || got.Slots[2].Key != "r2" || !slices.Equal(got.Slots[2].Nodes, []cluster.NodeID{"d"}) {
		t.Errorf("slots %+v, want one for the new rack", got)
	}
	if got := h.AddJob(racks("held", "none", 1)); got.Stall.GetCode() != "racks.no_label" {
		t.Errorf("held: %+v", got)
	}
	if got := h.AddJob(racks("away", "broken", 1)); got.Failure == nil || !strings.Contains(got.Failure.Message, "RuntimeError('the rack service is away') (racks.py:19)") {
		t.Errorf("away: %+v", got)
	}
	if got := h.AddJob(sdk.Job{Name: "wrong", Type: "racks", Settings: `{"lable":"x"}`}); got.Stall.GetCode() != "racks.settings_invalid" {
		t.Errorf("wrong: %+v", got)
	}
}

func TestDrainer(t *testing.T) {
	h := open(t, program(t, "testdata/racks.py"))
	node := sdktest.Node("a")
	h.SetNodes(node)
	precious, urgent, plain := sdktest.Task("db", 1), sdktest.Task("batch", 2), sdktest.Task("web", 3)
	precious.Labels, urgent.Priority = map[string]string{"precious": "yes"}, 80
	req := sdk.DrainRequest{Node: node, Waited: time.Minute, Deadline: time.Hour, Tasks: []sdk.DrainTask{precious, urgent, plain}}
	got, failure := h.Drain(req)
	if failure != nil {
		t.Fatal(failure)
	}
	if len(got.Kept) != 1 || got.Kept[0].Task != string(precious.ID) || got.Kept[0].Stall.Code != "racks.precious" || time.Duration(got.UntilNs) != 59*time.Minute {
		t.Errorf("kept %v, again after %s", got.Kept, time.Duration(got.UntilNs))
	}
	if len(got.Transitions) != 2 || !got.Transitions[0].Forced || got.Transitions[0].GraceNs != 0 || got.Transitions[1].Forced || got.Transitions[1].GraceNs != -1 ||
		got.Transitions[1].To != "shutdown" || got.Transitions[1].Reason != "the node drains" {
		t.Errorf("transitions %v", got.Transitions)
	}
	req.Deadline = 0
	if got, _ := h.Drain(req); len(got.GetKept()) != 3 || got.Kept[0].Stall.Code != "racks.no_hurry" {
		t.Errorf("without a deadline: %v, want all kept", got)
	}
}
