package runner

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// groupPrefix begins the names of control groups, so that what a killed host has left can be told.
const groupPrefix = "setpoint-plugin-"

// memoryGroup is a control group that limits the memory of one plugin process and its children.
type memoryGroup struct {
	dir  string
	kind string // cgroup v2 or cgroup v1
	kill string // file with the count of processes that were killed for want of memory
}

// newMemoryGroup makes a group with a limit below the one of this process, of either version.
func newMemoryGroup(name string, limit int64) (*memoryGroup, error) {
	var errs []error
	for _, p := range memoryParents() {
		g := &memoryGroup{dir: filepath.Join(p.dir, name), kind: p.kind, kill: p.kill}
		err := g.create(p, limit)
		if err == nil {
			return g, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, errors.New("no control group for memory is mounted")
	}
	return nil, errors.Join(errs...)
}

// memoryParent is a group below which groups can perhaps be made.
type memoryParent struct {
	dir    string
	kind   string
	limits []string // files that take the limit; those after the first need not be there
	kill   string
}

func (g *memoryGroup) create(p memoryParent, limit int64) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	err := g.limit(p, limit)
	if err != nil {
		return errors.Join(err, os.Remove(g.dir))
	}
	return nil
}

func (g *memoryGroup) limit(p memoryParent, limit int64) error {
	first := filepath.Join(g.dir, p.limits[0])
	if _, err := os.Stat(first); err != nil && p.kind == cgroup2 {
		// The controller has to be passed on to groups below first.
		if err := os.WriteFile(filepath.Join(p.dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return fmt.Errorf("memory is not delegated to groups below %s: %w", p.dir, err)
		}
	}
	for i, name := range p.limits {
		text := strconv.FormatInt(limit, 10)
		if strings.HasSuffix(name, "swap.max") {
			text = "0"
		}
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0); err != nil && i == 0 {
			return fmt.Errorf("limit memory: %w", err)
		}
	}
	return nil
}

const (
	cgroup1 = "cgroup v1"
	cgroup2 = "cgroup v2"
)

// memoryParents returns the groups of this process that can limit memory.
func memoryParents() []memoryParent {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []memoryParent
	for _, m := range cgroupMounts(mounts) {
		switch m.kind {
		case cgroup2:
			controllers, err := os.ReadFile(filepath.Join(m.dir, "cgroup.controllers"))
			path, ok := groupOf(own, "")
			if err != nil || !ok || !bytes.Contains(controllers, []byte("memory")) {
				continue
			}
			p := memoryParent{dir: filepath.Join(m.dir, path), kind: cgroup2, limits: []string{"memory.max", "memory.swap.max"}, kill: "memory.events"}
			out = append(out, p)
			// A process in a group keeps that from having groups below with controllers; where its service is delegated, groups beside it can be made.
			if up := filepath.Dir(p.dir); strings.HasSuffix(up, ".service") {
				p.dir = up
				out = append(out, p)
			}
		case cgroup1:
			if path, ok := groupOf(own, "memory"); ok {
				out = append(out, memoryParent{
					dir: filepath.Join(m.dir, path), kind: cgroup1, kill: "memory.oom_control",
					limits: []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
				})
			}
		}
	}
	return out
}

type cgroupMount struct{ dir, kind string }

// cgroupMounts finds where control groups are mounted that may limit memory.
func cgroupMounts(mountinfo []byte) []cgroupMount {
	var out []cgroupMount
	for s := bufio.NewScanner(bytes.NewReader(mountinfo)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		switch {
		case rest[0] == "cgroup2":
			out = append(out, cgroupMount{fields[4], cgroup2})
		case rest[0] == "cgroup" && strings.Contains(","+rest[2]+",", ",memory,"):
			out = append(out, cgroupMount{fields[4], cgroup1})
		}
	}
	return out
}

// groupOf returns the path of the group of a controller; "" is that of version 2.
func groupOf(cgroup []byte, controller string) (string, bool) {
	for s := bufio.NewScanner(bytes.NewReader(cgroup)); s.Scan(); {
		parts := strings.SplitN(s.Text(), ":", 3)
		if len(parts) == 3 && (parts[1] == controller || controller != "" && strings.Contains(","+parts[1]+",", ","+controller+",")) {
			return parts[2], true
		}
	}
	return "", false
}

// procs is the file that takes processes in.
func (g *memoryGroup) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

// killed reports whether the kernel killed a process of the group because of the limit.
func (g *memoryGroup) killed() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, g.kill))
	if err != nil {
		return false
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if count, ok := strings.CutPrefix(s.Text(), "oom_kill "); ok {
			return strings.TrimSpace(count) != "0"
		}
	}
	return false
}

// remove removes the group, once its last process is gone.
func (g *memoryGroup) remove() error {
	var err error
	for range 20 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// sweepGroups removes what a killed host has left. Groups in use cannot be removed.
func sweepGroups() {
	for _, p := range memoryParents() {
		left, err := filepath.Glob(filepath.Join(p.dir, groupPrefix+"*"))
		if err != nil {
			continue
		}
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
}
