package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdTerminal plays a command in a terminal of its own. Each line of FILE is one step:
//
//	expect REGEXP     wait until the window shows it
//	lacks REGEXP      wait until the window does not show it any more
//	type TEXT         press keys; \r, \t and \x1b are as in Go
//	size COLUMNSxROWS make the window so large
//	run COMMAND …     run another command meanwhile
//	exits CODE        wait until the command has ended
//
//	terminal COLUMNSxROWS FILE COMMAND [ARG…]
func cmdTerminal(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: terminal COLUMNSxROWS FILE COMMAND [ARG…]")
	}
	env := append(environ(ts), "TERM=xterm-256color", "SETPOINT_DATA_DIR="+worldOf(ts).dir, "NO_COLOR="+ts.Getenv("NO_COLOR"))
	t, err := openWindow(args[0], env, args[2:]...)
	ts.Check(err)
	defer t.close()
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		line = strings.TrimSpace(line)
		what, rest, _ := strings.Cut(line, " ")
		switch what {
		case "", "#":
		case "expect", "lacks":
			re, err := regexp.Compile(rest)
			ts.Check(err)
			if !t.await(func(text string) bool { return re.MatchString(text) == (what == "expect") }, what == "lacks") {
				ts.Fatalf("%s: not so in 20s; the window shows\n%s\nand showed\n%q", line, t.text(), t.before)
			}
		case "type":
			keys, err := strconv.Unquote(`"` + rest + `"`)
			ts.Check(err)
			t.forget()
			_, err = t.near.WriteString(keys)
			ts.Check(err)
		case "size":
			ts.Check(t.resize(rest))
		case "run":
			t.forget()
			words := strings.Fields(os.Expand(rest, ts.Getenv))
			ts.Check(ts.Exec(words[0], words[1:]...))
		case "exits":
			code, err := t.exit()
			ts.Check(err)
			if fmt.Sprint(code) != rest {
				ts.Fatalf("exit code %d, want %s; the window shows\n%s", code, rest, t.text())
			}
		default:
			ts.Fatalf("unknown step %q", line)
		}
	}
}

// window is a terminal with a command in it.
type window struct {
	cmd  *exec.Cmd
	near *os.File
	done chan struct{} // closed once the command has ended

	columns, rows int
	fills         bool // the program draws the whole window

	mu     sync.Mutex // guards what follows
	shown  bytes.Buffer
	before string // what was shown before it was drawn anew
}

func openWindow(size string, env []string, args ...string) (*window, error) {
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	far, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	defer far.Close()
	t := &window{near: near, done: make(chan struct{})}
	if err := t.resize(size); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	path := args[0]
	if path == "setpoint" {
		path = binary + "/setpoint"
	}
	t.cmd = exec.Command(path, args[1:]...)
	t.cmd.Env, t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = env, far, far, far
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := t.cmd.Start(); err != nil {
		return nil, errors.Join(err, near.Close())
	}
	go t.read() // ends with the terminal
	go func() {
		_ = t.cmd.Wait()
		close(t.done)
	}()
	return t, nil
}

func (t *window) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.near.Read(buf)
		t.mu.Lock()
		t.shown.Write(buf[:n])
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// resize makes the window so large: what is in it is drawn anew.
func (t *window) resize(size string) error {
	if _, err := fmt.Sscanf(size, "%dx%d", &t.columns, &t.rows); err != nil {
		return fmt.Errorf("size %q: %w", size, err)
	}
	return unix.IoctlSetWinsize(int(t.near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(t.columns), Row: uint16(t.rows)})
}

// forget drops what was drawn by a program that fills the window: what is read from now on was drawn from now on.
func (t *window) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fills = t.fills || strings.Contains(t.shown.String(), "\x1b[?1049h"); t.fills {
		t.before = t.shown.String()
		t.shown.Reset()
	}
}

// redraw has a program that fills the window draw all of it, so that what is read is what is shown, and not what has changed of it.
func (t *window) redraw() error {
	t.forget()
	if !t.fills {
		return nil
	}
	t.columns ^= 1
	return t.resize(fmt.Sprintf("%dx%d", t.columns, t.rows))
}

// await looks until the window shows what is wanted. What is not seen at once is looked for in all of the window, drawn anew; with whole, always.
func (t *window) await(want func(string) bool, whole bool) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		for range 10 {
			if text := t.text(); !whole && want(text) {
				return true
			}
			pause(50 * time.Millisecond)
		}
		if text := t.text(); text != "" && want(text) {
			return true
		}
		if t.redraw() != nil {
			return false
		}
	}
	return false
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?<=>$"' ]*[@-~]|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()#].|\x1b[=>78]`)

// text is what was drawn, without colours and the like.
func (t *window) text() string {
	return escapes.ReplaceAllStringFunc(strings.NewReplacer("\r", "", "\t", " ").Replace(t.raw()), func(e string) string {
		if strings.ContainsAny(e[len(e)-1:], "ABCDGHXdf") { // the cursor moves
			return " "
		}
		return ""
	})
}

func (t *window) raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown.String()
}

// exit waits until the command has ended.
func (t *window) exit() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	select {
	case <-t.done:
		return t.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, errors.New("the command in the terminal still runs")
	}
}

func (t *window) close() {
	_ = t.cmd.Process.Kill()
	<-t.done
	_ = t.near.Close()
}
