package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// GetPlugin answers with a plugin whose executable was replaced on disk.
func (f *fakeServer) GetPlugin(_ context.Context, req *connect.Request[apiv1.GetPluginRequest]) (*connect.Response[apiv1.GetPluginResponse], error) {
	f.note(req.Msg)
	attached := ""
	if req.Msg.GetPlugin() == "borrowed" {
		attached = "/tmp/sp/s"
	}
	ms := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Millisecond) }
	return connect.NewResponse(&apiv1.GetPluginResponse{
		Plugin: &apiv1.Plugin{Name: "gpu", Version: "1.2", State: "running", Pid: 42, Restarts: 1, Interfaces: []string{"filter"}, Since: timestamppb.Now()},
		Sdk:    "sdk 1", Protocol: 1, Path: "/opt/gpu", Args: []string{"-v"}, DigestRunning: "aaaa", DigestOnDisk: "bbbb", Timeout: ms(5000), OnFailure: "stall",
		Classes: 3, Jobs: 1, MirrorRevision: 9, MirrorNodes: 2, Latency: &apiv1.PluginLatency{Samples: 5, P50: ms(1), P90: ms(2), P99: ms(3), Max: ms(4)},
		LastError: "it exited", LastErrorAt: timestamppb.Now(), MemoryBytes: 64 << 20, Sandbox: []string{"descriptors", "no TCP"},
		SandboxMissing: []string{"memory: no control group"}, Attached: attached,
	}), nil
}

// ReloadPlugin reloads gpu and refuses all others.
func (f *fakeServer) ReloadPlugin(_ context.Context, req *connect.Request[apiv1.ReloadPluginRequest]) (*connect.Response[apiv1.ReloadPluginResponse], error) {
	if req.Msg.GetPlugin() != "gpu" {
		return nil, refused(connect.CodeAborted, "it exited with status 3; nothing has changed", &apiv1.ErrorDetail{Code: "plugin_unavailable"})
	}
	return connect.NewResponse(&apiv1.ReloadPluginResponse{
		Before: &apiv1.PluginProcess{Version: "1", Pid: 41, Digest: "a"}, After: &apiv1.PluginProcess{Version: "2", Pid: 42, Digest: "b"},
		Comparison: &apiv1.PluginComparison{Serving: "1", Candidate: "2", Nodes: 2, Classes: 1},
	}), nil
}

// ShadowPlugin finds two differences.
func (f *fakeServer) ShadowPlugin(_ context.Context, req *connect.Request[apiv1.ShadowPluginRequest]) (*connect.Response[apiv1.ShadowPluginResponse], error) {
	f.note(req.Msg)
	return connect.NewResponse(&apiv1.ShadowPluginResponse{Comparison: &apiv1.PluginComparison{
		Serving: "1", Candidate: "2", Nodes: 2, Classes: 1, Total: 2, Unjudged: 1, Differences: []*apiv1.PluginDifference{
			{Kind: "verdict", Jobs: []string{"web"}, Node: "n1", Serving: "allowed", Candidate: "refused: gpu.none"},
			{Kind: "slot", Jobs: []string{"each"}, Slot: "rack-1", Serving: "running", Candidate: "not wanted"},
		},
	}}), nil
}

// PluginLogs sends two lines.
func (f *fakeServer) PluginLogs(_ context.Context, _ *connect.Request[apiv1.PluginLogsRequest], stream *connect.ServerStream[apiv1.PluginLogsResponse]) error {
	return stream.Send(&apiv1.PluginLogsResponse{Lines: []*apiv1.PluginLine{
		{Time: timestamppb.Now(), Pid: 42, Stream: "stderr", Text: "[INFO] found 3 devices"}, {Time: timestamppb.Now(), Pid: 43, Stream: "stderr", Text: "no licence"},
	}})
}

func TestPluginInspect(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "plugin", "inspect", "gpu")
	for _, want := range []string{
		"gpu", "1.2 (protocol 1, sdk 1)", "42, 64MiB", "/opt/gpu -v", "aaaa runs, bbbb is on disk: plugin reload gpu", "within 5s; when it cannot: stall",
		"revision 9, 2 nodes", "3 classes, 1 job", "p50 1ms, p90 2ms, p99 3ms, longest 4ms (last 5)", "descriptors; no TCP", "memory: no control group", "it exited",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	if r.code != exitDone || r.errOut != "" {
		t.Errorf("code %d, %s", r.code, r.errOut)
	}
	if strings.Contains(r.out, "attached") {
		t.Errorf("it says of a plugin of the server's own:\n%s", r.out)
	}
	if r := f.run(t, "plugin", "inspect", "borrowed"); !strings.Contains(r.out, "attached     /tmp/sp/s: that process was started by somebody else") || strings.Contains(r.out, "is on disk") {
		t.Errorf("it says of a plugin that is attached:\n%s", r.out)
	}
	var got map[string]any
	if r := f.run(t, "plugin", "inspect", "gpu", "-o", "json"); json.Unmarshal([]byte(r.out), &got) != nil || got["digest_on_disk"] != "bbbb" || got["pid"] != 42.0 {
		t.Errorf("JSON %s", r.out)
	}
}

func TestPluginReload(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "plugin", "reload", "gpu")
	if r.code != exitDone || !strings.Contains(r.out, "gpu: version 2 serves (process 42); it was 1 (process 41)") || !strings.Contains(r.out, "the candidate (2) answers as the plugin that served (1)") {
		t.Errorf("code %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := f.run(t, "plugin", "reload", "other"); r.code != exitError || !strings.Contains(r.errOut, "it exited with status 3; nothing has changed") {
		t.Errorf("code %d: %s%s", r.code, r.out, r.errOut)
	}
}

func TestPluginShadow(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "plugin", "shadow", "gpu", "/opt/new", "--", "-v")
	for _, want := range []string{"answers differently from the plugin that served (1) in 2 places", "1 could not be compared", "n1", "refused: gpu.none", "slot rack-1", "not wanted"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s%s", want, r.out, r.errOut)
		}
	}
	if req, ok := f.noted()[0].(*apiv1.ShadowPluginRequest); !ok || req.GetPath() != "/opt/new" || len(req.GetArgs()) != 1 {
		t.Errorf("asked for %v", f.noted())
	}
}

func TestPluginLogs(t *testing.T) {
	f := newFake(t)
	r := f.run(t, "plugin", "logs", "gpu")
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != exitDone || len(lines) != 2 || !strings.HasSuffix(lines[0], " 42 [INFO] found 3 devices") {
		t.Errorf("code %d: %s%s", r.code, r.out, r.errOut)
	}
}
