package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// PluginDetail is a plugin as `plugin inspect` prints it.
type PluginDetail struct {
	Plugin
	SDK            string        `json:"sdk"`
	Protocol       int64         `json:"protocol"` // 0: it never answered
	Builtin        bool          `json:"builtin"`
	Path           string        `json:"path"`
	Args           []string      `json:"args"`
	DigestRunning  string        `json:"digest_running"`
	DigestOnDisk   string        `json:"digest_on_disk"`
	OnDiskProblem  string        `json:"on_disk_problem"`
	Timeout        Span          `json:"timeout"`
	OnFailure      string        `json:"on_failure"`
	Classes        int64         `json:"classes"`
	Jobs           int64         `json:"jobs"`
	MirrorRevision uint64        `json:"mirror_revision"`
	MirrorNodes    int64         `json:"mirror_nodes"`
	Latency        PluginLatency `json:"latency"`
	LastError      string        `json:"last_error"`
	LastErrorAt    Moment        `json:"last_error_at"`
	NextTry        Moment        `json:"next_try"`
	Memory         int64         `json:"memory"` // bytes; 0: unknown
	Sandbox        []string      `json:"sandbox"`
	SandboxMissing []string      `json:"sandbox_missing"`
	Attached       string        `json:"attached"` // socket of the process that somebody else has started; "": none
}

// PluginLatency is how long answers took lately.
type PluginLatency struct {
	Samples int64 `json:"samples"`
	P50     Span  `json:"p50"`
	P90     Span  `json:"p90"`
	P99     Span  `json:"p99"`
	Max     Span  `json:"max"`
}

// OfPluginDetail returns the view of one plugin.
func OfPluginDetail(p *apiv1.GetPluginResponse) PluginDetail {
	l := p.GetLatency()
	return PluginDetail{
		Plugin: OfPlugins([]*apiv1.Plugin{p.GetPlugin()})[0], SDK: p.GetSdk(), Protocol: p.GetProtocol(), Builtin: p.GetBuiltin(), Path: p.GetPath(),
		Args: words(p.GetArgs()), DigestRunning: p.GetDigestRunning(), DigestOnDisk: p.GetDigestOnDisk(), OnDiskProblem: p.GetOnDiskProblem(),
		Timeout: span(p.GetTimeout()), OnFailure: p.GetOnFailure(), Classes: p.GetClasses(), Jobs: p.GetJobs(), MirrorRevision: p.GetMirrorRevision(),
		MirrorNodes: p.GetMirrorNodes(),
		Latency:     PluginLatency{Samples: l.GetSamples(), P50: span(l.GetP50()), P90: span(l.GetP90()), P99: span(l.GetP99()), Max: span(l.GetMax())},
		LastError:   p.GetLastError(), LastErrorAt: moment(p.GetLastErrorAt()), NextTry: moment(p.GetNextTry()), Memory: p.GetMemoryBytes(),
		Sandbox: words(p.GetSandbox()), SandboxMissing: words(p.GetSandboxMissing()), Attached: p.GetAttached(),
	}
}

// PluginReload is what came of `plugin reload`.
type PluginReload struct {
	Name       string           `json:"name"`
	Before     PluginProcess    `json:"before"`
	After      PluginProcess    `json:"after"`
	Comparison PluginComparison `json:"comparison"`
}

// PluginProcess is one process of a plugin.
type PluginProcess struct {
	Version string `json:"version"`
	PID     int64  `json:"pid"` // 0: there was none
	Digest  string `json:"digest"`
}

// PluginComparison is in what two versions of a plugin differ, as `plugin shadow` prints it.
type PluginComparison struct {
	Serving     string             `json:"serving"`
	Candidate   string             `json:"candidate"`
	Revision    uint64             `json:"revision"`
	Nodes       int64              `json:"nodes"`
	Classes     int64              `json:"classes"`
	Jobs        int64              `json:"jobs"`
	Drains      int64              `json:"drains"`
	Unjudged    int64              `json:"unjudged"`
	Total       int64              `json:"total"`
	Differences []PluginDifference `json:"differences"`
}

// PluginDifference is one thing that is answered differently.
type PluginDifference struct {
	Kind      string   `json:"kind"` // verdict, slot or transition
	Jobs      []string `json:"jobs"`
	Node      string   `json:"node"`
	Slot      string   `json:"slot"`
	Task      string   `json:"task"`
	Serving   string   `json:"serving"`
	Candidate string   `json:"candidate"`
}

// OfPluginReload returns the view of a reload.
func OfPluginReload(name string, r *apiv1.ReloadPluginResponse) PluginReload {
	return PluginReload{Name: name, Before: pluginProcess(r.GetBefore()), After: pluginProcess(r.GetAfter()), Comparison: OfPluginComparison(r.GetComparison())}
}

func pluginProcess(p *apiv1.PluginProcess) PluginProcess {
	return PluginProcess{Version: p.GetVersion(), PID: p.GetPid(), Digest: p.GetDigest()}
}

// OfPluginComparison returns the view of a comparison.
func OfPluginComparison(c *apiv1.PluginComparison) PluginComparison {
	return PluginComparison{
		Serving: c.GetServing(), Candidate: c.GetCandidate(), Revision: c.GetRevision(), Nodes: c.GetNodes(), Classes: c.GetClasses(), Jobs: c.GetJobs(),
		Drains: c.GetDrains(), Unjudged: c.GetUnjudged(), Total: c.GetTotal(),
		Differences: each(c.GetDifferences(), func(d *apiv1.PluginDifference) PluginDifference {
			return PluginDifference{
				Kind: d.GetKind(), Jobs: words(d.GetJobs()), Node: d.GetNode(), Slot: d.GetSlot(), Task: d.GetTask(), Serving: d.GetServing(),
				Candidate: d.GetCandidate(),
			}
		}),
	}
}
