package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Controller limits one thing.
type Controller string

// The controllers.
const (
	Memory Controller = "memory"
	CPU    Controller = "cpu"
	PIDs   Controller = "pids"
)

var controllers = []Controller{Memory, CPU, PIDs}

// A Tree is where groups can be made on this machine.
type Tree struct {
	hierarchies []hierarchy // of version 2 first
}

// A hierarchy is one of a machine's trees of groups.
type hierarchy struct {
	mount       string
	v2          bool
	controllers []Controller // of version 1; version 2 tells in its files
	dirs        []string     // groups below which some may be made, the first that can be used
	named       bool         // dirs is one path that was configured; what is missing of it may be made
}

// Find looks where groups can be made: below those of this process, or below parent, a path in each hierarchy such as "/setpoint", if it is not empty. It makes
// nothing.
func Find(parent string) (*Tree, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	return find(mounts, own, parent), nil
}

func find(mountinfo, own []byte, parent string) *Tree {
	t := &Tree{}
	for _, m := range mountsIn(mountinfo) {
		h := hierarchy{mount: m.dir, v2: m.v2, controllers: m.controllers}
		path, ok := pathIn(own, m)
		switch {
		case parent != "":
			h.dirs, h.named = []string{filepath.Join(m.dir, filepath.Join("/", parent))}, true
		case ok:
			h.dirs = []string{filepath.Join(m.dir, path)}
			// A process in a group of version 2 keeps that from having groups below with controllers. A service that is delegated with a group of its own for
			// the process has room beside that.
			if up := filepath.Dir(h.dirs[0]); m.v2 && strings.HasSuffix(up, ".service") {
				h.dirs = append(h.dirs, up)
			}
		default:
			continue
		}
		t.hierarchies = append(t.hierarchies, h)
	}
	slices.SortStableFunc(t.hierarchies, func(a, b hierarchy) int {
		switch {
		case a.v2 == b.v2:
			return 0
		case a.v2:
			return -1
		}
		return 1
	})
	return t
}

// A mount is where a hierarchy is mounted.
type mount struct {
	dir, root   string // root is the group that is seen at dir
	v2          bool
	controllers []Controller
}

// mountsIn finds the hierarchies of version 2 and those of version 1 that have a controller of use. Each is taken where it is mounted first.
func mountsIn(mountinfo []byte) []mount {
	var out []mount
	seen := make(map[string]bool)
	for s := bufio.NewScanner(bytes.NewReader(mountinfo)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		m := mount{dir: unescape(fields[4]), root: unescape(fields[3])}
		key := rest[0]
		switch rest[0] {
		case "cgroup2":
			m.v2 = true
		case "cgroup":
			for _, option := range strings.Split(rest[2], ",") {
				if slices.Contains(controllers, Controller(option)) {
					m.controllers = append(m.controllers, Controller(option))
					key += "," + option
				}
			}
			if len(m.controllers) == 0 {
				continue
			}
		default:
			continue
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, m)
		}
	}
	return out
}

// unescape undoes what mountinfo does to spaces and the like.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// pathIn returns the path below the mount of the group that a process is in, by the content of its /proc/PID/cgroup.
func pathIn(cgroup []byte, m mount) (string, bool) {
	for s := bufio.NewScanner(bytes.NewReader(cgroup)); s.Scan(); {
		parts := strings.SplitN(s.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if m.v2 != (parts[1] == "") || !m.v2 && !slices.Contains(strings.Split(parts[1], ","), string(m.controllers[0])) {
			continue
		}
		path := parts[2]
		if m.root != "/" { // a container sees its own group as the root
			below, ok := strings.CutPrefix(path+"/", m.root+"/")
			if !ok {
				return "", false
			}
			path = "/" + below
		}
		return path, !strings.HasPrefix(path, "/..")
	}
	return "", false
}

// Version tells, for people, what this machine has: "v1", "v2", "hybrid" or "none".
func (t *Tree) Version() string {
	one, two := false, false
	for _, h := range t.hierarchies {
		one, two = one || !h.v2, two || h.v2
	}
	switch {
	case one && two:
		return "hybrid"
	case one:
		return "v1"
	case two:
		return "v2"
	}
	return "none"
}

// Names returns the names of the groups that there are and that begin so, each once and in order.
func (t *Tree) Names(prefix string) []string {
	var out []string
	for _, h := range t.hierarchies {
		for _, dir := range h.dirs {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
					out = append(out, e.Name())
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Group returns the group of a name as it is, in whatever hierarchies it has directories.
func (t *Tree) Group(name string) Group {
	var g Group
	for _, h := range t.hierarchies {
		for _, dir := range h.dirs {
			if path := filepath.Join(dir, name); isDir(path) {
				g.Dirs = append(g.Dirs, path)
			}
		}
	}
	return g
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// pass has a controller of version 2 passed on to the groups below dir.
func (h *hierarchy) pass(dir string, c Controller) error {
	switch passed, err := lists(filepath.Join(dir, "cgroup.subtree_control"), c); {
	case err != nil:
		return err
	case passed:
		return nil
	}
	has, err := lists(filepath.Join(dir, "cgroup.controllers"), c)
	if err != nil {
		return err
	}
	if !has {
		if !h.named || dir == h.mount {
			return fmt.Errorf("%s has no %s controller", dir, c)
		}
		if err := h.pass(filepath.Dir(dir), c); err != nil {
			return err
		}
	}
	if err := childless(dir); err != nil {
		return fmt.Errorf("%s cannot be passed on: %w", c, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+string(c)), 0); err != nil {
		return fmt.Errorf("%s is not delegated to groups below %s: %w", c, dir, errors.Unwrap(err))
	}
	return nil
}

// childless returns an error if a group of version 2 has processes of its own, unless it is the root. The kernel refuses to pass memory on there, but not
// processors and numbers of processes, with which it turns the group into one of threads, below which no group can have processes any more.
func childless(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	members, err := os.ReadFile(filepath.Join(dir, procsFile))
	if err == nil && len(members) > 0 {
		return fmt.Errorf("%s has processes of its own", dir)
	}
	return err
}

// usable returns an error if no process can become a member of a group of version 2.
func usable(dir string) error {
	kind, err := os.ReadFile(filepath.Join(dir, "cgroup.type"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if text := strings.TrimSpace(string(kind)); err == nil && text != "domain" {
		return fmt.Errorf("%s takes no processes: its type is %q", dir, text)
	}
	return err
}

func lists(file string, c Controller) (bool, error) {
	text, err := os.ReadFile(file)
	return slices.Contains(strings.Fields(string(text)), string(c)), err
}
