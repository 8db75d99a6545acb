package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/cgroup"
)

// guardPatience is how long the host waits for its guard: to take a note, or to end.
const guardPatience = time.Second

// guard is the host's side of a process that does one thing: when the host is gone, however that came, it kills the process groups and control groups of the
// plugins that the host had. The kernel ends the plugins by itself then, but not what these had started.
type guard struct {
	argv []string
	log  hclog.Logger

	mu      sync.Mutex     // guards what follows
	groups  map[int]string // of plugins that are not reaped, with the directory of the control group, "" if there is none
	notes   *os.File       // nil: no guard runs
	process *os.Process
	done    chan struct{} // closed when the guard was reaped
}

func newGuard(argv []string, log hclog.Logger) *guard {
	return &guard{argv: argv, log: log, groups: make(map[int]string)}
}

// ready starts the guard unless it runs.
func (g *guard) ready() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.notes != nil {
		select {
		case <-g.done:
			g.notes.Close()
			g.notes = nil
		default:
			return
		}
	}
	g.restart()
}

// add notes a group that is to end with the host, with its control group unless that is "".
func (g *guard) add(group int, control string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = control
	g.note(added(group, control))
}

// added is the note of a group.
func added(group int, control string) string {
	return strings.TrimSpace(fmt.Sprintf("+%d %s", group, control)) + "\n"
}

// gone is the note that a group is none any more.
func gone(group int) string { return fmt.Sprintf("-%d\n", group) }

// remove forgets a group. It is called before its leader is reaped: afterwards the number may belong to others.
func (g *guard) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	g.note(gone(group))
}

// note tells the guard of a group. A guard that has ended is replaced by one that is told of all groups. It is called with the lock held.
func (g *guard) note(text string) {
	if g.notes != nil && g.write(text) == nil {
		return
	}
	g.end()
	g.restart()
}

// restart starts a guard where none runs. It is called with the lock held.
func (g *guard) restart() {
	if err := g.start(); err != nil {
		g.end()
		g.log.Warn("no guard of plugins: what they start would outlive a host that is killed", "error", err)
	}
}

func (g *guard) write(text string) error {
	if err := g.notes.SetWriteDeadline(time.Now().Add(guardPatience)); err != nil {
		return err
	}
	_, err := g.notes.WriteString(text)
	return err
}

// start starts a guard and tells it of all groups.
func (g *guard) start() error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	defer null.Close()
	process, err := os.StartProcess(g.argv[0], g.argv, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{theirs, null, null},
		Sys: &syscall.SysProcAttr{Setsid: true}, // what is sent to the host's group is not meant for it
	})
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	g.notes, g.process, g.done = ours, process, make(chan struct{})
	go func(done chan struct{}) { // ends with the guard, which ends when its notes do
		_, _ = process.Wait()
		close(done)
	}(g.done)
	for _, group := range slices.Sorted(maps.Keys(g.groups)) {
		if err := g.write(added(group, g.groups[group])); err != nil {
			return err
		}
	}
	return nil
}

// end closes the guard's notes. Without groups left it then ends, which is waited for; one that was told of groups kills them, so those are taken back before.
func (g *guard) end() {
	if g.notes == nil {
		return
	}
	for group := range g.groups {
		_ = g.write(gone(group))
	}
	_ = g.notes.Close()
	timer := time.NewTimer(guardPatience)
	defer timer.Stop()
	select {
	case <-g.done:
	case <-timer.C:
	}
	g.notes = nil
}

// close ends the guard once no plugin is left.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

// GuardMain is the guard's whole program: it takes notes from standard input, and when they end, kills the groups that are noted. It returns the exit code.
func GuardMain() int {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // its host's end is what ends it
	for group, control := range readNotes(os.Stdin) {
		_ = unix.Kill(-group, unix.SIGKILL)
		if control != "" {
			g := cgroup.Group{Dirs: strings.Split(control, pathSeparator)}
			g.End(endLimit)
			_ = g.Remove() // or the next host does
		}
	}
	return 0
}

// readNotes returns the groups that are noted when the notes end, with their control groups. What is no whole note is skipped: half a number would be
// another's.
func readNotes(from io.Reader) map[int]string {
	groups := make(map[int]string)
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return groups
		}
		number, control, _ := strings.Cut(strings.TrimSpace(line[1:]), " ")
		group, err := strconv.Atoi(number)
		if err != nil || group <= 1 {
			continue
		}
		switch line[0] {
		case '+':
			groups[group] = control
		case '-':
			delete(groups, group)
		}
	}
}
