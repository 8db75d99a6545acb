package bolt

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/store"
)

// pidFile names the file in which the holder of a store says who it is. It is written for people; the lock is what counts.
func pidFile(path string) string { return path + ".pid" }

// writePID says that this process holds the store.
func writePID(path string) error {
	text := fmt.Sprintf("%d\n%s\n", os.Getpid(), filepath.Base(os.Args[0]))
	if err := os.WriteFile(pidFile(path), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// removePID takes back what writePID wrote. It is to be called while the lock is held: afterwards the file may be somebody else's.
func removePID(path string) error {
	if err := os.Remove(pidFile(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pid file: %w", err)
	}
	return nil
}

// inUse says who holds the file, as far as the kernel's list of locks and the pid file tell.
func inUse(f *os.File, path string) error {
	e := &store.InUseError{File: path}
	written, command := readPID(path)
	e.PID = lockHolder(f)
	if e.PID == 0 && alive(written) {
		e.PID = written
	}
	if e.PID == 0 {
		return e
	}
	if e.PID == written {
		e.Command = command
		if info, err := os.Stat(pidFile(path)); err == nil {
			e.Since = info.ModTime()
		}
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", e.PID)); err == nil {
		e.Command = strings.TrimSpace(string(name))
	}
	return e
}

// readPID reads the pid file; 0 if there is none that makes sense.
func readPID(path string) (pid int, command string) {
	text, err := os.ReadFile(pidFile(path))
	if err != nil {
		return 0, ""
	}
	first, second, _ := strings.Cut(string(text), "\n")
	pid, err = strconv.Atoi(first)
	if err != nil || pid <= 0 {
		return 0, ""
	}
	return pid, strings.TrimSpace(second)
}

func alive(pid int) bool {
	return pid > 0 && unix.Kill(pid, 0) != unix.ESRCH
}

// lockHolder looks the file up in /proc/locks; 0 if it is not there, as in other kernels, in some containers, and on file systems whose
// device has two numbers.
func lockHolder(f *os.File) int {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer list.Close() // it was only read
	dev := stat.Dev
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), stat.Ino)
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 fd:01:131090 0 EOF; somebody who waits has an arrow in the second place
		fields := strings.Fields(lines.Text())
		if len(fields) >= 6 && fields[1] == "FLOCK" && fields[5] == file {
			pid, err := strconv.Atoi(fields[4])
			if err == nil && pid > 0 {
				return pid
			}
		}
	}
	return 0
}
