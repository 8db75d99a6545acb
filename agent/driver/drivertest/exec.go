package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Command is what a test wants of a command that runs inside a task: it does what is said, in the order of the fields.
type Command struct {
	// Stdout and Stderr are lines that it writes first.
	Stdout, Stderr []string
	// Env are names of variables; of each it writes a line NAME=value.
	Env []string
	// Size has it read two lines of input, and after each write a line with the rows and columns of its terminal.
	Size bool
	// Cat has it copy its input to its output until the end of that.
	Cat bool
	// Hang has it run until it is ended.
	Hang bool
	// Exit is its exit code.
	Exit int
}

// errStopped is why tests end a command.
var errStopped = errors.New("the test has seen enough")

// execer is what the driver does with commands. A driver without it skips the test, unless its harness says that it has it.
func (s *suite) execer() driver.Execer {
	s.Helper()
	x := driver.OptionalOf(s.d).Exec
	switch {
	case x == nil && s.h.Exec != nil:
		s.Fatal("the harness has commands, and the driver is no Execer")
	case x == nil:
		s.Skip("the driver is no Execer")
	case s.h.Exec == nil:
		s.Fatal("the driver is an Execer, and the harness has no Exec to try it with")
	}
	return x
}

// lockedBuffer is a buffer that one writes and another looks into.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func execStreams(s *suite) {
	x := s.execer()
	spec := s.spec("job/1/1", Behaviour{})
	if spec.Env == nil {
		spec.Env = make(map[string]string)
	}
	spec.Env["MODE"], spec.Env["OF_THE_TASK"] = "prod", "kept"
	h, err := s.d.Start(s.ctx, spec)
	if err != nil {
		s.Fatal(err)
	}
	var out, errs bytes.Buffer
	started := 0
	code, err := x.Exec(s.ctx, h, driver.ExecRequest{
		Command: s.h.Exec(Command{Stdout: []string{"one", "two"}, Stderr: []string{"bad"}, Env: []string{"MODE", "OF_THE_TASK"}, Cat: true, Exit: 3}),
		Env:     map[string]string{"MODE": "looked at"}, Stdout: &out, Stderr: &errs, Started: func() { started++ },
	})
	if code != 3 || err != nil || started != 1 {
		s.Errorf("exit code is %d, error %v, started %d times; want code 3", code, err, started)
	}
	if got := out.String(); got != "one\ntwo\nMODE=looked at\nOF_THE_TASK=kept\n" {
		s.Errorf("stdout is %q", got)
	}
	if got := errs.String(); got != "bad\n" {
		s.Errorf("stderr is %q", got)
	}
	s.state(h, driver.StateRunning)
	s.reopen()
	if code, err := driver.OptionalOf(s.d).Exec.Exec(s.ctx, h, driver.ExecRequest{Command: s.h.Exec(Command{}), Stdout: io.Discard, Stderr: io.Discard}); code != 0 || err != nil {
		s.Errorf("by a driver made anew: code %d, error %v", code, err)
	}
}

// What goes in comes out, more of it than any buffer holds.
func execStdin(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	want := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	var out, errs bytes.Buffer
	code, err := x.Exec(s.ctx, h, driver.ExecRequest{
		Command: s.h.Exec(Command{Cat: true}), Stdin: io.NopCloser(bytes.NewReader(want)), Stdout: &out, Stderr: &errs,
	})
	if code != 0 || err != nil || errs.Len() > 0 || !bytes.Equal(out.Bytes(), want) {
		s.Errorf("code %d, error %v, %q, %d bytes of %d came back", code, err, errs.String(), out.Len(), len(want))
	}
}

func execTTY(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	in, typed := io.Pipe()
	var out, errs lockedBuffer
	resize := make(chan driver.WindowSize)
	started, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		code, err := x.Exec(s.ctx, h, driver.ExecRequest{
			Command: s.h.Exec(Command{Size: true, Exit: 4}), TTY: &driver.WindowSize{Rows: 24, Columns: 80}, Resize: resize,
			Stdin: in, Stdout: &out, Stderr: &errs, Started: func() { close(started) },
		})
		if code != 4 || err != nil {
			s.Errorf("code %d, error %v, want code 4", code, err)
		}
	}()
	select {
	case <-started:
	case <-done:
		return
	}
	enter := func() {
		if _, err := typed.Write([]byte("\n")); err != nil {
			s.Error(err)
		}
	}
	enter()
	s.until(func() bool { return strings.Contains(out.String(), "24 80") }, &out)
	select {
	case resize <- driver.WindowSize{Rows: 40, Columns: 100}:
	case <-s.ctx.Done():
		s.Fatal("nobody takes the terminal's new size")
	}
	time.Sleep(100 * time.Millisecond) // a size is set beside what is typed, with no word about it
	enter()
	<-done
	if got := out.String(); !strings.Contains(got, "40 100\r\n") || errs.String() != "" {
		s.Errorf("the terminal shows %q, stderr %q", got, errs.String())
	}
}

// until waits for what a command is to write.
func (s *suite) until(seen func() bool, out *lockedBuffer) {
	s.Helper()
	for !seen() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("it wrote no more than %q", out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// hang runs a command that does not end by itself, and returns once it runs.
func (s *suite) hang(x driver.Execer, h driver.Handle) (stop func(error), end <-chan error) {
	s.Helper()
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.Cleanup(func() { cancel(nil) })
	result := make(chan error, 1)
	var out lockedBuffer
	go func() {
		in, _ := io.Pipe() // on which nothing ever comes
		_, err := x.Exec(ctx, h, driver.ExecRequest{
			Command: s.h.Exec(Command{Stdout: []string{"hangs"}, Hang: true}), Stdin: in, Stdout: &out, Stderr: io.Discard,
		})
		result <- err
	}()
	s.until(func() bool {
		select {
		case err := <-result:
			s.Fatalf("it ended by itself: %v", err)
		default:
		}
		return out.String() == "hangs\n"
	}, &out)
	return cancel, result
}

func (s *suite) ends(end <-chan error, want error) {
	s.Helper()
	select {
	case err := <-end:
		if !errors.Is(err, want) {
			s.Errorf("it ended with %v, want %v", err, want)
		}
	case <-s.ctx.Done():
		s.Fatal("it does not end")
	}
}

func execEndsWithContext(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	stop, end := s.hang(x, h)
	stop(errStopped)
	s.ends(end, errStopped)
	s.state(h, driver.StateRunning)
}

func execEndsWithTask(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	_, end := s.hang(x, h)
	s.stop(h, driver.StopRequest{})
	s.ends(end, driver.ErrNotRunning)
	s.wait(h)
}

// Output that nobody takes is not gathered anywhere without a limit: the command waits, and what comes in waits with it.
func execIsHeldBack(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	out, in := stuck{ctx: ctx}, &endless{}
	end := make(chan error, 1)
	go func() {
		_, err := x.Exec(ctx, h, driver.ExecRequest{Command: s.h.Exec(Command{Cat: true}), Stdin: in, Stdout: out, Stderr: io.Discard})
		end <- err
	}()
	last := int64(-1)
	for now := in.taken(); now != last || now == 0; now = in.taken() {
		if last = now; now > 64<<20 {
			s.Fatalf("%d bytes were taken, and nothing of them came out", now)
		}
		time.Sleep(200 * time.Millisecond)
	}
	cancel(errStopped)
	s.ends(end, errStopped)
}

// stuck takes nothing until its context ends.
type stuck struct{ ctx context.Context }

func (w stuck) Write([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// endless gives as much as anybody takes.
type endless struct {
	mu   sync.Mutex
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read += int64(len(p))
	return len(p), nil
}

func (e *endless) Close() error { return nil }

func (e *endless) taken() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.read
}

func execRefused(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	ran := func() { s.Error("a command that is refused was started") }
	for _, test := range []struct {
		req  driver.ExecRequest
		code string
	}{
		{driver.ExecRequest{Command: []string{"/no/such/command"}}, driver.RejectNoCommand},
		{driver.ExecRequest{}, driver.RejectBadSpec},
		{driver.ExecRequest{Command: s.h.Exec(Command{}), Dir: "not/absolute"}, driver.RejectBadSpec},
		{driver.ExecRequest{Command: s.h.Exec(Command{}), Env: map[string]string{"A=B": "c"}}, driver.RejectBadSpec},
		{driver.ExecRequest{Command: s.h.Exec(Command{}), User: "nobody-of-that-name"}, driver.RejectUnknownUser},
	} {
		test.req.Stdout, test.req.Stderr, test.req.Started = io.Discard, io.Discard, ran
		_, err := x.Exec(s.ctx, h, test.req)
		var refused *driver.ExecRefusedError
		if !errors.As(err, &refused) || refused.Code != test.code || refused.Reason == "" {
			s.Errorf("%+v: %v, want a refusal for %s", test.req, err, test.code)
		}
	}
	s.state(h, driver.StateRunning)
}

func execNotRunning(s *suite) {
	x := s.execer()
	req := driver.ExecRequest{Command: s.h.Exec(Command{}), Stdout: io.Discard, Stderr: io.Discard}
	if _, err := x.Exec(s.ctx, driver.Handle{Driver: s.d.Name(), TaskID: "job/9/9"}, req); !errors.Is(err, driver.ErrNotFound) {
		s.Errorf("in a task that never was: %v", err)
	}
	h := s.start("job/1/1", Behaviour{Exit: code(0)})
	s.wait(h)
	if _, err := x.Exec(s.ctx, h, req); !errors.Is(err, driver.ErrNotRunning) {
		s.Errorf("in a task that has ended: %v", err)
	}
}

func execByMany(s *suite) {
	x := s.execer()
	h := s.start("job/1/1", Behaviour{})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			var out bytes.Buffer
			got, err := x.Exec(s.ctx, h, driver.ExecRequest{
				Command: s.h.Exec(Command{Stdout: []string{"here"}, Exit: i}), Stdout: &out, Stderr: io.Discard,
			})
			if got != i || err != nil || out.String() != "here\n" {
				s.Errorf("code %d, error %v, output %q, want code %d", got, err, out.String(), i)
			}
		})
	}
	all.Wait()
}
