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

	"golang.org/x/sys/unix"
)

// groupPrefix begins the names of control groups, so that what a killed host has left can be told.
const groupPrefix = "setpoint-plugin-"

// controlGroup is a control group of one plugin process and all that it starts: these end together, and their memory may be limited together.
type controlGroup struct {
	dir  string
	kind string // cgroup v2 or cgroup v1
	oom  string // file with the count of processes that were killed for want of memory
}

// newGroup makes a group below the one of this process, of either version, with a limit of memory unless that is 0.
func newGroup(name string, limit int64) (*controlGroup, error) {
	var why []string
	for _, p := range groupParents(limit > 0) {
		g := &controlGroup{dir: filepath.Join(p.dir, name), kind: p.kind, oom: p.oom}
		err := g.create(p, limit)
		if err == nil {
			return g, nil
		}
		why = append(why, err.Error())
	}
	if len(why) == 0 {
		return nil, errors.New("no control group is mounted that could be used")
	}
	return nil, errors.New(strings.Join(why, "; "))
}

// groupParent is a group below which groups can perhaps be made.
type groupParent struct {
	dir    string
	kind   string
	limits []string // files that take the limit; those after the first need not be there
	oom    string
}

func (g *controlGroup) create(p groupParent, limit int64) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	if limit == 0 {
		return nil
	}
	err := g.limit(p, limit)
	if err != nil {
		return errors.Join(err, os.Remove(g.dir))
	}
	return nil
}

func (g *controlGroup) limit(p groupParent, limit int64) error {
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

// groupParents returns the groups of this process below which groups can be made, or those that can limit memory.
func groupParents(memory bool) []groupParent {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []groupParent
	for _, m := range cgroupMounts(mounts) {
		switch m.kind {
		case cgroup2:
			controllers, err := os.ReadFile(filepath.Join(m.dir, "cgroup.controllers"))
			path, ok := groupOf(own, "")
			if err != nil || !ok || memory && !bytes.Contains(controllers, []byte("memory")) {
				continue
			}
			p := groupParent{dir: filepath.Join(m.dir, path), kind: cgroup2, limits: []string{"memory.max", "memory.swap.max"}, oom: "memory.events"}
			out = append(out, p)
			// A process in a group keeps that from having groups below with controllers; where its service is delegated, groups beside it can be made.
			if up := filepath.Dir(p.dir); strings.HasSuffix(up, ".service") {
				p.dir = up
				out = append(out, p)
			}
		case cgroup1:
			if path, ok := groupOf(own, "memory"); ok {
				out = append(out, groupParent{
					dir: filepath.Join(m.dir, path), kind: cgroup1, oom: "memory.oom_control",
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

// path is the group's directory; "" without a group.
func (g *controlGroup) path() string {
	if g == nil {
		return ""
	}
	return g.dir
}

// procs is the file that takes processes in.
func (g *controlGroup) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

// killed reports whether the kernel killed a process of the group because of the limit.
func (g *controlGroup) killed() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, g.oom))
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

// endTries is how often a group's processes are looked for that do not end together.
const endTries = 50

// end kills all that is in the group, wherever it has moved otherwise.
func (g *controlGroup) end() {
	if os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for range endTries { // of version 1, or older than Linux 5.14; what forks meanwhile is found the next time
		text, err := os.ReadFile(g.procs())
		pids := strings.Fields(string(text))
		if err != nil || len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			g.kill(pid)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// kill kills a process of the group. That it still is one is looked at once the process is held, for its number could be another's by now.
func (g *controlGroup) kill(number string) {
	pid, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	own, err := os.ReadFile("/proc/" + number + "/cgroup")
	if err == nil && bytes.Contains(own, []byte("/"+filepath.Base(g.dir)+"\n")) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// remove removes the group, once its last process is gone.
func (g *controlGroup) remove() error {
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
	for _, p := range groupParents(false) {
		left, err := filepath.Glob(filepath.Join(p.dir, groupPrefix+"*"))
		if err != nil {
			continue
		}
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
}
