package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Limits are what a group may use. Zero fields limit nothing.
type Limits struct {
	// Memory is in bytes, for all its processes together. They get no swap beside it where the kernel can say so.
	Memory int64
	// CPUShare is in thousandths of a core: the larger, the larger the group's part of the processors when they are short. It limits nothing while they are not.
	// A tenth of a core weighs as much as a group or, beside the groups, a process that says nothing; ten cores and more weigh the same.
	CPUShare int64
	// CPUQuota is in thousandths of a core, and never exceeded.
	CPUQuota int64
	// PIDs is how many processes and threads there may be at a time.
	PIDs int64
}

// needs returns the controllers that hold to the limits.
func (l Limits) needs() []Controller {
	var out []Controller
	if l.Memory > 0 {
		out = append(out, Memory)
	}
	if l.CPUShare > 0 || l.CPUQuota > 0 {
		out = append(out, CPU)
	}
	if l.PIDs > 0 {
		out = append(out, PIDs)
	}
	return out
}

// Lacks are the controllers that are not in force of a group, each with the reason.
type Lacks map[Controller]error

// Make makes a group, or takes up what there is of it, with the limits that can be had; the others are told. Where version 2 is mounted the group has a directory
// there even if no controller is, since there it is ended at once. A group without any directory could not be made at all, and reason says why.
func (t *Tree) Make(name string, l Limits) (g Group, lacks Lacks, reason error) {
	lacks = make(Lacks)
	var why []error
	for _, c := range l.needs() {
		lacks[c] = fmt.Errorf("no %s controller is mounted here", c)
	}
	for i := range t.hierarchies {
		h := &t.hierarchies[i]
		var wanted []Controller
		for _, c := range l.needs() {
			if h.has(c) {
				wanted = append(wanted, c)
			}
		}
		last := i+1 == len(t.hierarchies)
		if len(wanted) == 0 && !h.v2 && (len(g.Dirs) > 0 || !last) {
			continue // it serves no limit, and there is or may come another to end the group by
		}
		dir, failed, err := h.make(name, l, wanted)
		if err != nil {
			why = append(why, err)
		} else {
			g.Dirs = append(g.Dirs, dir)
		}
		for _, c := range wanted {
			if problem := cmp.Or(err, failed[c]); problem != nil {
				lacks[c] = problem
			} else {
				delete(lacks, c)
			}
		}
	}
	if len(g.Dirs) == 0 {
		if reason = errors.Join(why...); reason == nil {
			reason = errors.New("no control group is mounted that could be used")
		}
	}
	return g, lacks, reason
}

// has reports whether the hierarchy has the controller, if perhaps not for groups that this process may make.
func (h *hierarchy) has(c Controller) bool {
	if !h.v2 {
		return slices.Contains(h.controllers, c)
	}
	has, err := lists(filepath.Join(h.mount, "cgroup.controllers"), c)
	return err == nil && has
}

// make makes the group in this hierarchy, below the first of its directories where all can be had, or else anything.
func (h *hierarchy) make(name string, l Limits, wanted []Controller) (string, Lacks, error) {
	var first error
	best, bestFailed := "", Lacks(nil)
	for _, below := range h.dirs {
		dir := filepath.Join(below, name)
		if err := h.mkdir(dir); err != nil {
			first = errors.Join(first, err)
			continue
		}
		failed := make(Lacks)
		for _, c := range wanted {
			if err := h.limit(below, dir, c, l); err != nil {
				failed[c] = err
			}
		}
		if err := usable(dir); err != nil {
			_ = os.Remove(dir)
			first = errors.Join(first, err)
			continue
		}
		if best == "" || len(failed) < len(bestFailed) {
			if best != "" {
				_ = os.Remove(best)
			}
			best, bestFailed = dir, failed
		} else {
			_ = os.Remove(dir)
		}
		if len(failed) == 0 {
			break
		}
	}
	if best == "" {
		return "", nil, first
	}
	return best, bestFailed, nil
}

func (h *hierarchy) mkdir(dir string) error {
	if h.named {
		return os.MkdirAll(dir, 0o755)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// periodMicros is the time in which a quota of the processors is used up, the kernel's default.
const periodMicros = 100_000

// A setting is a file of a group with what is written there. One that is optional need not be there.
type setting struct {
	file, value string
	optional    bool
}

// limit has one controller hold the group to its limits.
func (h *hierarchy) limit(below, dir string, c Controller, l Limits) error {
	settings := settings1
	if h.v2 {
		settings = settings2
		if err := h.pass(below, c); err != nil {
			return err
		}
	}
	for _, s := range settings(c, l) {
		// Not made if it is missing: on a file system of groups that could not be, and elsewhere nobody would read it.
		f, err := os.OpenFile(filepath.Join(dir, s.file), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(s.value)
			err = errors.Join(err, f.Close())
		}
		if err != nil && !s.optional {
			return fmt.Errorf("limit %s to %s: %w", c, s.value, err)
		}
	}
	return nil
}

func settings1(c Controller, l Limits) []setting {
	switch c {
	case Memory:
		bytes := strconv.FormatInt(l.Memory, 10)
		return []setting{{"memory.limit_in_bytes", bytes, false}, {"memory.memsw.limit_in_bytes", bytes, true}}
	case PIDs:
		return []setting{{"pids.max", strconv.FormatInt(l.PIDs, 10), false}}
	case CPU:
		var out []setting
		if l.CPUShare > 0 {
			out = append(out, setting{"cpu.shares", strconv.FormatInt(shares(l.CPUShare), 10), false})
		}
		if l.CPUQuota > 0 {
			out = append(out, setting{"cpu.cfs_period_us", strconv.Itoa(periodMicros), false},
				setting{"cpu.cfs_quota_us", strconv.FormatInt(quota(l.CPUQuota), 10), false})
		}
		return out
	}
	return nil
}

func settings2(c Controller, l Limits) []setting {
	switch c {
	case Memory:
		// What runs out of memory ends as a whole: half a program helps nobody.
		return []setting{{"memory.max", strconv.FormatInt(l.Memory, 10), false}, {"memory.swap.max", "0", true}, {"memory.oom.group", "1", true}}
	case PIDs:
		return []setting{{"pids.max", strconv.FormatInt(l.PIDs, 10), false}}
	case CPU:
		var out []setting
		if l.CPUShare > 0 {
			out = append(out, setting{"cpu.weight", strconv.FormatInt(weight(l.CPUShare), 10), false})
		}
		if l.CPUQuota > 0 {
			out = append(out, setting{"cpu.max", fmt.Sprintf("%d %d", quota(l.CPUQuota), periodMicros), false})
		}
		return out
	}
	return nil
}

// weight is that of version 2, from 1 to 10000, of which 100 is everybody's who says nothing.
func weight(milli int64) int64 { return min(max(milli, 1), 10_000) }

// shares are those of version 1, of which 1024 is everybody's who says nothing.
func shares(milli int64) int64 { return max(weight(milli)*1024/100, 2) }

// quota is the time in each period; the kernel takes no less than a millisecond.
func quota(milli int64) int64 { return max(milli*periodMicros/1000, 1000) }
