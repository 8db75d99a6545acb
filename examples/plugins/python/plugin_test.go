package python

import (
	"os/exec"
	"testing"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// python is Debian's, which has the modules of python3-grpcio.
const python = "/usr/bin/python3"

// teams returns the plugin's program. It skips the test where the program cannot run.
func teams(t *testing.T) sdktest.Program {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, the Python plugin is not tested: python3-grpcio or python3-protobuf is not installed (apt-get install them): %v: %s", err, out)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skipf("SKIPPED, the Python plugin is not tested: %v (apt-get install openssl)", err)
	}
	return sdktest.Program{Path: python, Args: []string{"teams.py"}}
}

func team(name string) sdk.CompileRequest {
	return sdk.CompileRequest{JobType: cluster.TypeReplicated, Settings: sdk.Settings(`{"team":"` + name + `"}`)}
}

func TestConformance(t *testing.T) {
	sdktest.ConformanceOf(t, teams(t), sdktest.Cases{
		Config: `{"label":"owners"}`, Classes: []sdk.CompileRequest{{JobType: cluster.TypeReplicated}, team("storage"), team("search"), team("a,b")},
	})
}

func TestTeams(t *testing.T) {
	running, err := teams(t).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Kill)
	h := sdktest.Open(t, running.Client(), sdktest.Options{})
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
