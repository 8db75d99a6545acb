package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

// What a child process is told to do with a file.
const (
	childCommit = "commit-until-killed"
	childHold   = "hold-until-killed"
)

// crashOptions fold and drop often, so that a kill finds the file in every state.
func crashOptions() bolt.Options {
	return bolt.Options{Retention: store.Retention{Revisions: 30}}.Folding(100, 64<<10, 20)
}

// crashBatch is the same for a revision in every process.
func crashBatch(revision uint64) store.Batch {
	random := rand.New(rand.NewPCG(revision, 1))
	var changes []string
	for _, k := range random.Perm(200)[:random.IntN(20)] {
		value := ""
		if random.IntN(4) > 0 {
			value = fmt.Sprintf("%d/%s", revision, strings.Repeat("x", random.IntN(500)))
		}
		changes = append(changes, fmt.Sprintf("key/%03d", k), value)
	}
	return turn(revision, changes...)
}

// commitUntilKilled commits batch after batch and prints each revision once it is acknowledged.
func commitUntilKilled(path string) error {
	b, err := bolt.Open(path, crashOptions())
	if err != nil {
		return err
	}
	ctx := context.Background()
	head, err := b.Load(ctx, func(store.Record) error { return nil })
	if err != nil {
		return err
	}
	for r := head.Revision + 1; ; r++ {
		if err := b.Commit(ctx, crashBatch(r)); err != nil {
			return err
		}
		fmt.Println(r)
	}
}

// holdUntilKilled opens the file, says so, and waits for the end of its input.
func holdUntilKilled(path string) error {
	if _, err := bolt.Open(path, bolt.Options{}); err != nil {
		return err
	}
	fmt.Println("held")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a process made of this test binary.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
	err *strings.Builder
}

func start(t *testing.T, task, path string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), exe, task, path), err: &strings.Builder{}}
	c.cmd.Stderr = c.err
	if _, err := c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill ends the child and returns the lines that it had printed by then.
func (c *child) kill(t *testing.T) []string {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for c.out.Scan() {
		lines = append(lines, c.out.Text())
	}
	var exit *exec.ExitError
	if err := c.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("child ended by itself: %v: %s", err, c.err)
	}
	return lines
}

// witness knows what was committed, and compares it with what a file holds after each crash.
type witness struct {
	held map[string]string
	at   uint64
}

// check opens the file after a crash. Everything up to revision acked must be there, and one more may be: durable and not acknowledged.
func (w *witness) check(t *testing.T, path string, acked uint64) {
	t.Helper()
	b, head, held := open(t, path, crashOptions())
	if head.Revision != acked && head.Revision != acked+1 {
		t.Fatalf("revision %d was acknowledged and the head is %d", acked, head.Revision)
	}
	for ; w.at < head.Revision; w.at++ {
		for _, r := range crashBatch(w.at + 1).Records {
			if r.Value == nil {
				delete(w.held, r.Key)
			} else {
				w.held[r.Key] = string(r.Value)
			}
		}
	}
	if !maps.Equal(held, w.held) {
		t.Fatalf("at revision %d the state is not what was committed", w.at)
	}
	next := head.Oldest + 1
	err := b.Read(t.Context(), head.Oldest, func(batch store.Batch) error {
		if batch.Revision != next {
			return fmt.Errorf("revision %d, want %d", batch.Revision, next)
		}
		next++
		return nil
	})
	if err != nil || next != head.Revision+1 {
		t.Fatalf("log read to revision %d of %d: %v", next-1, head.Revision, err)
	}
	closed(t, b)
}

// commitSome lets a child commit a number of batches, crashes it, and returns the last revision that was acknowledged.
func commitSome(t *testing.T, path string, n int, crash func(*child)) uint64 {
	t.Helper()
	c := start(t, childCommit, path)
	for range n {
		if !c.out.Scan() {
			t.Fatalf("child ended: %s", c.err)
		}
	}
	last := c.out.Text()
	crash(c)
	for c.out.Scan() {
		last = c.out.Text()
	}
	if err := c.cmd.Wait(); err == nil {
		t.Fatal("child ended by itself")
	}
	acked, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return acked
}

func TestKill(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	path := filepath.Join(t.TempDir(), "state.db")
	random := rand.New(rand.NewPCG(7, 7))
	w := witness{held: map[string]string{}}
	for range rounds {
		acked := commitSome(t, path, 1+random.IntN(80), func(c *child) {
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		})
		w.check(t, path, acked)
	}
	t.Logf("%d kills, %d commits, none lost", rounds, w.at)
}

func TestKilledWhileClean(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	c := start(t, childCommit, path)
	for range 40 {
		c.out.Scan()
	}
	c.kill(t)
	if report, err := bolt.Check(t.Context(), path); err != nil || report.Clean {
		t.Fatalf("after a kill: %+v, %v; want a good file that is not clean", report, err)
	}
	b, head, _ := open(t, path, bolt.Options{})
	commit(t, b, crashBatch(head.Revision+1))
	closed(t, b)
	report, err := bolt.Check(t.Context(), path)
	if err != nil || !report.Clean {
		t.Fatalf("after a close: %+v, %v; want a good file that is clean", report, err)
	}
	if report.Head.Revision != head.Revision+1 {
		t.Errorf("head = %d, want %d", report.Head.Revision, head.Revision+1)
	}
	// Opened and closed without a write, it stays clean, and so does one that is killed before its first write.
	c = start(t, childHold, path)
	c.out.Scan()
	c.kill(t)
	if report, err := bolt.Check(t.Context(), path); err != nil || !report.Clean {
		t.Errorf("after a kill without a write: %+v, %v; want a clean file", report, err)
	}
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	before := time.Now().Add(-time.Second)
	c := start(t, childHold, path)
	if !c.out.Scan() {
		t.Fatalf("child ended: %s", c.err)
	}
	began := time.Now()
	_, err := bolt.Open(path, bolt.Options{})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("refused after %v, want within 2 s", took)
	}
	var inUse *store.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("error = %v, want an InUseError", err)
	}
	if inUse.File != path || inUse.PID != c.cmd.Process.Pid || inUse.Command == "" || inUse.Since.Before(before) {
		t.Errorf("error says %+v, want file %s, pid %d, a command and a time", inUse, path, c.cmd.Process.Pid)
	}
	if text := err.Error(); !strings.Contains(text, path) || !strings.Contains(text, strconv.Itoa(c.cmd.Process.Pid)) {
		t.Errorf("message %q does not name file and holder", text)
	}
	if _, err := bolt.Check(t.Context(), path); !errors.As(err, &inUse) {
		t.Errorf("check: error = %v, want an InUseError", err)
	}
	c.kill(t)
	open(t, path, bolt.Options{}) // the lock ends with its holder
}
