package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Group is a control group: its directory in each hierarchy where it has one. The zero value is none; it has no processes and nothing happens to it.
type Group struct {
	Dirs []string `json:"dirs,omitempty"`
}

// At is the group of one directory.
func At(dir string) Group { return Group{Dirs: []string{dir}} }

// JoinFiles are the files into which a process writes "0" to become a member, before it has any child.
func (g Group) JoinFiles() []string {
	out := make([]string, len(g.Dirs))
	for i, dir := range g.Dirs {
		out[i] = filepath.Join(dir, procsFile)
	}
	return out
}

const procsFile = "cgroup.procs"

// Join makes this process a member.
func (g Group) Join() error {
	for _, file := range g.JoinFiles() {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("0")
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Version is "v1" or "v2", by the group's first directory.
func (g Group) Version() string {
	if len(g.Dirs) == 0 {
		return "none"
	}
	if _, err := os.Stat(filepath.Join(g.Dirs[0], "cgroup.controllers")); err == nil {
		return "v2"
	}
	return "v1"
}

// Processes returns the numbers of the members in order, those of groups below included.
func (g Group) Processes() []int {
	var out []int
	for _, dir := range g.Dirs {
		out = append(out, processesIn(dir)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func processesIn(dir string) []int {
	var out []int
	text, err := os.ReadFile(filepath.Join(dir, procsFile))
	if err != nil {
		return nil // removed
	}
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			out = append(out, pid)
		}
	}
	for _, below := range groupsIn(dir) {
		out = append(out, processesIn(below)...)
	}
	return out
}

// groupsIn returns the groups directly below one.
func groupsIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// OOMKills returns how many processes of the group the kernel has killed for want of memory; 0 if nobody counts that.
func (g Group) OOMKills() int64 {
	for _, dir := range g.Dirs {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
				if count, ok := strings.CutPrefix(s.Text(), "oom_kill "); ok {
					if n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64); err == nil && n > 0 {
						return n
					}
				}
			}
		}
	}
	return 0
}

// Kill kills what is in the group, wherever it has moved otherwise. It takes one look, and does not wait: what it returns is how many members it saw that the
// kernel did not take upon itself to kill, which may have forked meanwhile. Callers come again until there is none.
func (g Group) Kill() int {
	for _, dir := range g.Dirs {
		if write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
			return 0
		}
	}
	for _, dir := range g.Dirs { // of version 1, or older than Linux 5.14
		_ = write(filepath.Join(dir, "pids.max"), "0") // nothing of it forks any more, if anybody counts
	}
	members := g.Processes()
	for _, pid := range members {
		g.kill(pid)
	}
	return len(members)
}

func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// kill kills a member. That it still is one is looked at once the process is held, for its number could be another's by now.
func (g Group) kill(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	own, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	name := "/" + filepath.Base(g.Dirs[0])
	if err == nil && (bytes.Contains(own, []byte(name+"\n")) || bytes.Contains(own, []byte(name+"/"))) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// End kills all that is in the group and waits until none is left, for as long as that may take at most. It reports whether the group is empty.
func (g Group) End(limit time.Duration) bool {
	pause := time.Millisecond
	for end := time.Now().Add(limit); ; pause = min(2*pause, 50*time.Millisecond) {
		g.Kill()
		if len(g.Processes()) == 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
}

// Remove removes the group once its last process is gone, which the kernel may notice a moment late: it is tried for a while. Groups that the members made below
// go with it. A group that is not there is no error.
func (g Group) Remove() error {
	var problems []error
	for _, dir := range g.Dirs {
		problems = append(problems, remove(dir))
	}
	return errors.Join(problems...)
}

func remove(dir string) error {
	var err error
	for range 20 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for _, below := range groupsIn(dir) {
			_ = remove(below) // or else this one cannot be removed, and says so
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
