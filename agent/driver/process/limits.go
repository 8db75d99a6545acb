package process

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/core/cgroup"
)

// Enforce says what becomes of a task that is to be held to limits which this machine cannot enforce.
type Enforce string

// The policies.
const (
	EnforceBestEffort Enforce = "best_effort" // it runs, and its handle says what is not enforced
	EnforceRequired   Enforce = "required"    // it is refused
)

// groups are the control groups of a driver's tasks.
type groups struct {
	tree   *cgroup.Tree
	prefix string // of the names of this driver's
	lacks  cgroup.Lacks
	none   error // why no group can be made at all
}

// findGroups looks what control groups can do here, by making one with every limit, and removes what was left of others.
func findGroups(dir, parent string) (groups, error) {
	tree, err := cgroup.Find(parent)
	if err != nil {
		return groups{}, err
	}
	sum := sha256.Sum256([]byte(dir))
	g := groups{tree: tree, prefix: groupPrefix + hex.EncodeToString(sum[:4]) + "-"}
	var probe cgroup.Group
	// No task's name begins so.
	probe, g.lacks, g.none = tree.Make(g.prefix+"~"+rand.Text(), cgroup.Limits{Memory: 1 << 24, CPUShare: 100, CPUQuota: 100, PIDs: 8})
	if err := probe.Remove(); err != nil {
		return groups{}, fmt.Errorf("remove the control group with which was tried what can be limited: %w", err)
	}
	g.sweep(dir)
	return g, nil
}

// groupPrefix begins the names of all drivers' groups, before a word of the driver's own.
const groupPrefix = "setpoint-task-"

// abandonedAfter is how old an empty group of another driver is when nobody will use it: its agent's directory was deleted. A task is in its group long before.
const abandonedAfter = 5 * time.Minute

// sweep removes empty groups that nobody will: those of this driver without a task's directory, and old ones of others. Groups with processes stay, since the
// kernel removes none of those; List tells of this driver's.
func (g *groups) sweep(dir string) {
	for _, name := range g.tree.Names(groupPrefix) {
		own, mine := strings.CutPrefix(name, g.prefix)
		if mine {
			if _, err := os.Stat(filepath.Join(dir, tasksDir, own)); !os.IsNotExist(err) {
				continue
			}
		}
		for _, left := range g.tree.Group(name).Dirs {
			if info, err := os.Stat(left); mine || err == nil && time.Since(info.ModTime()) > abandonedAfter {
				_ = os.Remove(left)
			}
		}
	}
}

// of is the group of a task as it is.
func (g *groups) of(dir taskDir) cgroup.Group { return g.tree.Group(g.name(dir)) }

func (g *groups) name(dir taskDir) string { return g.prefix + filepath.Base(string(dir)) }

// attributes say what is enforced here.
func (g *groups) attributes() map[string]string {
	out := map[string]string{"driver.process.cgroups": g.tree.Version(), "driver.process.kill": "cgroup"}
	if g.none != nil {
		out["driver.process.kill"] = "descendants"
	}
	for _, c := range []cgroup.Controller{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
		out["driver.process."+string(c)] = driver.Enforced
		if g.lacks[c] != nil || g.none != nil {
			out["driver.process."+string(c)] = driver.Unenforced
		}
	}
	return out
}

// limitsOf are those of a task's group. What a task says of its own goes before what is reserved for it.
func limitsOf(spec driver.Spec, words settings) cgroup.Limits {
	l := cgroup.Limits{Memory: words.memory, CPUShare: spec.Resources.CPUMilli, CPUQuota: words.cpu, PIDs: words.pids}
	if l.Memory == 0 {
		l.Memory = spec.Resources.MemoryBytes
	}
	return l
}

// unenforced says in words what of the limits is not in force, in a fixed order.
func unenforced(l cgroup.Limits, lacks cgroup.Lacks) []string {
	var out []string
	for _, c := range slices.Sorted(maps.Keys(lacks)) {
		var what string
		switch {
		case c == cgroup.Memory && l.Memory > 0:
			what = fmt.Sprintf("memory of %d bytes", l.Memory)
		case c == cgroup.CPU && l.CPUQuota > 0:
			what = fmt.Sprintf("cpu of at most %g cores", float64(l.CPUQuota)/1000)
		case c == cgroup.CPU && l.CPUShare > 0:
			what = fmt.Sprintf("cpu share of %g cores", float64(l.CPUShare)/1000)
		case c == cgroup.PIDs && l.PIDs > 0:
			what = fmt.Sprintf("%d processes", l.PIDs)
		default:
			continue
		}
		out = append(out, fmt.Sprintf("%s (%v)", what, lacks[c]))
	}
	return out
}

// refuseUnenforced is the refusal of a task by policy.
func refuseUnenforced(taskID string, missing []string) error {
	return &driver.RejectedError{TaskID: taskID, Code: driver.RejectUnenforced, Reason: "this node cannot enforce " + strings.Join(missing, "; ") +
		`; leave that out of the job, keep the job to nodes whose attribute driver.process.memory (cpu, pids) is "enforced", run the agent as root with control groups` +
		` delegated to it, or let its configuration say process { enforce = "best_effort" }`}
}

// confine makes the task's group, with its limits. It is the intent's from then on, as is what could not be had.
func (d *Driver) confine(dir taskDir, in *intent) error {
	l := in.limits
	group, lacks, none := d.groups.tree.Make(d.groups.name(dir), l)
	if none != nil {
		for _, c := range []cgroup.Controller{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
			lacks[c] = none
		}
	}
	in.Group, in.Unenforced = group, unenforced(l, lacks)
	if d.opts.Enforce == EnforceRequired && len(in.Unenforced) > 0 {
		if err := group.Remove(); err != nil {
			return err
		}
		return refuseUnenforced(in.Spec.TaskID, in.Unenforced)
	}
	return nil
}
