package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An identity names one process, for ever: a pid is used again, but not with the same start time under the same boot id.
type identity struct {
	// Boot is the kernel's random id of the time since the machine was started.
	Boot string `json:"boot"`
	Pid  int    `json:"pid"`
	// Start is field 22 of /proc/PID/stat, in clock ticks since boot.
	Start uint64 `json:"start"`
}

// A procStat holds the fields of /proc/PID/stat that matter here.
type procStat struct {
	state  byte
	parent int
	start  uint64
}

// dead is true of a process that only waits to be reaped.
func (s procStat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// parseStat reads the content of /proc/PID/stat. The command's name, in parentheses, may itself hold spaces and parentheses.
func parseStat(data []byte) (procStat, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return procStat{}, errors.New("parse stat: no command name")
	}
	fields := strings.Fields(string(data[end+1:])) // the first is field 3 of the file
	if len(fields) < 20 || len(fields[0]) != 1 {
		return procStat{}, fmt.Errorf("parse stat: %d fields after the command name", len(fields))
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return procStat{}, fmt.Errorf("parse stat: parent: %w", err)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("parse stat: start time: %w", err)
	}
	return procStat{state: fields[0][0], parent: parent, start: start}, nil
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(data)
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// identify returns the identity of a process that cannot be reaped meanwhile: the caller's own, or a child of it.
func identify(pid int) (identity, error) {
	boot, err := bootID()
	if err != nil {
		return identity{}, err
	}
	stat, err := readStat(pid)
	if err != nil {
		return identity{}, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return identity{Boot: boot, Pid: pid, Start: stat.start}, nil
}

// alive tells whether the process still runs.
func (id identity) alive(boot string) bool {
	if id.Pid <= 0 || id.Boot != boot {
		return false
	}
	stat, err := readStat(id.Pid)
	return err == nil && stat.start == id.Start && !stat.dead()
}

// signal sends a signal to that very process, or to none: the pidfd pins whoever has the pid now, and the start time then says who it is.
func (id identity) signal(boot string, sig unix.Signal) {
	if id.Pid <= 0 || id.Boot != boot {
		return
	}
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if id.alive(boot) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may end at any moment; callers look again
	}
}

func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// descendants returns every living process below root, which must be the caller itself or a child of it.
func descendants(root int, boot string) ([]identity, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	stats := make(map[int]procStat, len(all))
	children := make(map[int][]int, len(all))
	for _, pid := range all {
		stat, err := readStat(pid)
		if err != nil {
			continue // ended meanwhile
		}
		stats[pid] = stat
		children[stat.parent] = append(children[stat.parent], pid)
	}
	var out []identity
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		queue = append(queue, children[pid]...)
		if !stats[pid].dead() {
			out = append(out, identity{Boot: boot, Pid: pid, Start: stats[pid].start})
		}
	}
	return out, nil
}

// The variables by which processes are recognised as ours, each holding the task directory's path.
const (
	taskMark = "SETPOINT_TASK_DIR"
	shimMark = "SETPOINT_SHIM_DIR"
)

// A marked process carries a task directory in the environment it was started with.
type marked struct {
	identity
	dir  taskDir
	shim bool
}

// maxEnvironBytes bounds what is read of one process's environment.
const maxEnvironBytes = 1 << 20

// scanMarked returns the living processes that carry a mark for which want is true. What it may not look into is not ours.
func scanMarked(boot string, want func(taskDir) bool) ([]marked, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	var out []marked
	for _, pid := range all {
		if pid == os.Getpid() {
			continue
		}
		stat, err := readStat(pid)
		if err != nil || stat.dead() {
			continue
		}
		dir, shim, ok := readMark(pid)
		if ok && want(dir) {
			out = append(out, marked{identity: identity{Boot: boot, Pid: pid, Start: stat.start}, dir: dir, shim: shim})
		}
	}
	return out, nil
}

func readMark(pid int) (dir taskDir, shim, ok bool) {
	f, err := os.Open(procPath(pid, "environ"))
	if err != nil {
		return "", false, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvironBytes))
	if err != nil {
		return "", false, false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		switch name, value, _ := bytes.Cut(entry, []byte{'='}); string(name) {
		case taskMark:
			return taskDir(value), false, true
		case shimMark:
			return taskDir(value), true, true
		}
	}
	return "", false, false
}
