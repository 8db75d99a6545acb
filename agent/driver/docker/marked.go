package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// markExec is the variable by which a command that runs in a container, and all that it starts, is found on this machine. Its value begins with the driver's mark.
const markExec = "SETPOINT_EXEC"

// maxEnviron bounds what is read of one process's environment, in bytes.
const maxEnviron = 1 << 20

// noteExec notes that a command is looked after, or not any more.
func (d *Driver) noteExec(mark string, live bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if live {
		d.execs[mark] = struct{}{}
	} else {
		delete(d.execs, mark)
	}
}

// endForgotten kills commands that an earlier driver on the same data had run, and that nobody looks after.
func (d *Driver) endForgotten() {
	endMarked(func(mark string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, live := d.execs[mark]
		return !live && strings.HasPrefix(mark, d.owner+".")
	}, unix.SIGKILL, 0)
}

// endMarked signals the processes with a mark, each once, and kills what is left after a grace. It returns when none is left, or cannot be killed.
func endMarked(ours func(mark string) bool, signal unix.Signal, grace time.Duration) {
	asked := make(map[int]bool)
	for begun, wait := time.Now(), time.Millisecond; time.Since(begun) < grace+killTimeout; wait = min(2*wait, 100*time.Millisecond) {
		left := marked(ours)
		if len(left) == 0 {
			return
		}
		if time.Since(begun) >= grace {
			signal = unix.SIGKILL
		}
		for _, pid := range left {
			if signal == unix.SIGKILL || !asked[pid] {
				asked[pid] = true
				signalMarked(pid, signal, ours)
			}
		}
		time.Sleep(wait)
	}
}

// marked returns the living processes with a mark. What this process may not look into is not ours.
func marked(ours func(mark string) bool) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []int
	for _, dir := range entries {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && carries(pid, ours) {
			out = append(out, pid)
		}
	}
	return out
}

// carries reports whether a process has a mark. One that has ended has no environment.
func carries(pid int, ours func(mark string) bool) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(data) > maxEnviron {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if mark, ok := strings.CutPrefix(string(entry), markExec+"="); ok && ours(mark) {
			return true
		}
	}
	return false
}

// signalMarked signals a process if it is still the one with the mark.
func signalMarked(pid int, signal unix.Signal, ours func(mark string) bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if carries(pid, ours) {
		_ = unix.PidfdSendSignal(fd, signal, nil, 0)
	}
}
