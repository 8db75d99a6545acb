package pluginhost

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Detail is all that is known of one plugin.
type Detail struct {
	Status
	Builtin        bool
	Args           []string
	Timeout        time.Duration
	FailureOpen    bool
	DigestOnDisk   string // "" if the executable cannot be read; OnDiskProblem says why
	OnDiskProblem  string
	MirrorRevision cluster.Revision // up to which it has answered
	MirrorNodes    int
	Memory         int64 // bytes that are resident; 0: unknown
	Sandbox        runner.Confined
	Failed         string
	FailedAt       time.Time // zero: it never failed
}

// Inspect returns all that is known of a plugin. It reads the plugin's executable. It fails with ErrUnknownPlugin.
func (h *Host) Inspect(plugin string) (Detail, error) {
	s := h.supervisor(plugin)
	if s == nil {
		return Detail{}, unknown(plugin)
	}
	p := s.settings()
	out := Detail{
		Status: s.status(), Builtin: p.Command.Builtin, Args: slices.Clone(p.Command.Args), Timeout: p.Timeout, FailureOpen: p.FailureOpen,
	}
	s.mu.Lock()
	out.Failed, out.FailedAt = s.lastError.text, s.lastError.at
	out.Sandbox = s.confined
	if s.serving != nil {
		out.Timeout = s.serving.plugin.Timeout
	}
	out.MirrorRevision, out.MirrorNodes = cluster.Revision(s.stats.revision.Load()), int(s.stats.nodes.Load())
	s.mu.Unlock()
	if digest, err := runner.DigestFile(p.Command.Path); err != nil {
		out.OnDiskProblem = clean(err.Error())
	} else {
		out.DigestOnDisk = fmt.Sprintf("%x", digest)
	}
	out.Memory = resident(out.PID)
	return out, nil
}

// resident returns how much memory a process has at hand, in bytes; 0 if that cannot be known.
func resident(pid int) int64 {
	if pid == 0 {
		return 0
	}
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := bytes.Fields(statm)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
