package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// rehearse asks the engine for all that a plugin would be asked.
func rehearse(e *engine.Engine) func(context.Context, engine.Rehearse) (engine.Rehearsal, error) {
	return func(ctx context.Context, ask engine.Rehearse) (engine.Rehearsal, error) {
		v, err := e.Do(ctx, "server", ask)
		if err != nil {
			return engine.Rehearsal{}, err
		}
		out, ok := v.(engine.Rehearsal)
		if !ok {
			return engine.Rehearsal{}, fmt.Errorf("rehearse: the engine answered %T", v)
		}
		return out, nil
	}
}

// operator is the host as the API lets people look into it.
type operator struct{ host *pluginhost.Host }

// Inspect returns all that is known of a plugin.
func (o operator) Inspect(name string) (*apiv1.GetPluginResponse, error) {
	d, err := o.host.Inspect(name)
	if err != nil {
		return nil, pluginError(err)
	}
	out := &apiv1.GetPluginResponse{
		Sdk: d.SDK, Protocol: int64(d.Protocol), Builtin: d.Builtin, Path: d.Path, Args: d.Args, DigestRunning: d.Digest, DigestOnDisk: d.DigestOnDisk,
		OnDiskProblem: d.OnDiskProblem, Timeout: durationpb.New(d.Timeout), OnFailure: "stall", Classes: int64(d.Classes), Jobs: int64(d.Jobs),
		MirrorRevision: uint64(d.MirrorRevision), MirrorNodes: int64(d.MirrorNodes), LastError: d.Failed, LastErrorAt: stamp(d.FailedAt), NextTry: stamp(d.NextTry),
		MemoryBytes: d.Memory, Sandbox: d.Sandbox.Applied, SandboxMissing: slices.Concat(d.Sandbox.Missing, d.Sandbox.Weak), Attached: d.Attached,
		Latency: &apiv1.PluginLatency{
			Samples: int64(d.Latency.Samples), P50: durationpb.New(d.Latency.P50), P90: durationpb.New(d.Latency.P90), P99: durationpb.New(d.Latency.P99),
			Max: durationpb.New(d.Latency.Max),
		},
	}
	if d.FailureOpen {
		out.OnFailure = "ignore"
	}
	return out, nil
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Logs hands on what a plugin's processes wrote.
func (o operator) Logs(ctx context.Context, name string, tail int, follow bool, yield func([]*apiv1.PluginLine) error) error {
	return pluginError(o.host.Logs(ctx, name, tail, follow, func(lines []runner.Line) error {
		var out []*apiv1.PluginLine
		for _, l := range lines {
			out = append(out, &apiv1.PluginLine{Time: timestamppb.New(l.At), Pid: int64(l.PID), Stream: l.Stream, Text: l.Text})
		}
		return yield(out)
	}))
}

// Reload replaces a plugin's process.
func (o operator) Reload(ctx context.Context, name string) (*apiv1.ReloadPluginResponse, error) {
	done, err := o.host.Reload(ctx, name)
	if err != nil {
		return nil, pluginError(err)
	}
	return &apiv1.ReloadPluginResponse{Before: processView(done.Before), After: processView(done.After), Comparison: comparisonView(&done.Comparison)}, nil
}

// Shadow compares a candidate with a plugin.
func (o operator) Shadow(ctx context.Context, req *apiv1.ShadowPluginRequest) (*apiv1.ShadowPluginResponse, error) {
	c, err := o.host.Shadow(ctx, req.GetPlugin(), pluginhost.Candidate{Path: req.GetPath(), Args: req.GetArgs()})
	if err != nil {
		return nil, pluginError(err)
	}
	return &apiv1.ShadowPluginResponse{Comparison: comparisonView(&c)}, nil
}

func processView(p pluginhost.Process) *apiv1.PluginProcess {
	return &apiv1.PluginProcess{Version: p.Version, Pid: int64(p.PID), Digest: p.Digest}
}

func comparisonView(c *pluginhost.Comparison) *apiv1.PluginComparison {
	out := &apiv1.PluginComparison{
		Serving: c.Serving, Candidate: c.Candidate, Revision: uint64(c.Revision), Nodes: int64(c.Nodes), Classes: int64(c.Classes), Jobs: int64(c.Jobs),
		Drains: int64(c.Drains), Unjudged: int64(c.Unjudged), Total: int64(c.Total),
	}
	for _, d := range c.Differences {
		out.Differences = append(out.Differences, &apiv1.PluginDifference{
			Kind: string(d.Kind), Jobs: d.Jobs, Node: d.Node, Slot: d.Slot, Task: d.Task, Serving: d.Serving, Candidate: d.Candidate,
		})
	}
	return out
}

// pluginError makes of what a host says what the API tells its callers.
func pluginError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pluginhost.ErrUnknownPlugin):
		return &engine.OpError{Kind: engine.NotFound, Message: err.Error(), Hint: "plugin ls lists those that there are"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrStopped):
		return err
	}
	code := pluginhost.CodeOf(err)
	if code == "" {
		return err
	}
	return &api.PluginError{Code: string(code), Message: err.Error(), Err: err}
}
