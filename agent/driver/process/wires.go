package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// endOfInput is what a person types at a terminal when there is no more.
const endOfInput = 4

// wires lead to a command's standard streams: pipes, or a terminal.
type wires struct {
	far      [3]*os.File // the command's; nil once they were handed over
	in       *os.File    // nil: its input is empty
	out      [2]*os.File // the second is nil with a terminal
	terminal *os.File    // nil: there is none

	pumps sync.WaitGroup
	input sync.WaitGroup
	ended chan struct{} // closed once the command has ended
	mu    sync.Mutex    // guards wrong
	wrong error         // why output could not be passed on
}

// openWires makes what the request asks for. A terminal belongs to who the command runs as.
func openWires(req *driver.ExecRequest, who *credential) (*wires, error) {
	w := &wires{ended: make(chan struct{})}
	var err error
	if req.TTY != nil {
		err = w.openTerminal(*req.TTY, who)
	} else {
		err = w.openPipes(req)
	}
	if err != nil {
		w.close(nil)
		return nil, fmt.Errorf("open its streams: %w", err)
	}
	return w, nil
}

func (w *wires) openPipes(req *driver.ExecRequest) (err error) {
	if req.Stdin == nil {
		w.far[0], err = os.Open(os.DevNull)
	} else {
		w.far[0], w.in, err = os.Pipe()
	}
	for i := range w.out {
		if err == nil {
			w.out[i], w.far[1+i], err = os.Pipe()
		}
	}
	return err
}

// openTerminal makes a pair of a terminal. Its near side is left so that what reads there can be interrupted, which a file that was asked for its number is not.
func (w *wires) openTerminal(size driver.WindowSize, who *credential) error {
	near, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	w.terminal = os.NewFile(uintptr(near), "terminal")
	w.in, w.out[0] = w.terminal, w.terminal
	number, err := unix.IoctlGetInt(near, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(near, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return fmt.Errorf("unlock the terminal: %w", err)
	}
	far, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	w.far = [3]*os.File{far, far, far}
	if who != nil {
		if err := far.Chown(int(who.UID), -1); err != nil {
			return err
		}
	}
	return w.resize(size)
}

func (w *wires) resize(size driver.WindowSize) error {
	raw, err := w.terminal.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
	return errors.Join(err, set)
}

// closeFar closes this process's copies of the command's ends.
func (w *wires) closeFar() {
	for i, f := range w.far {
		if f != nil && (i == 0 || f != w.far[0]) {
			_ = f.Close()
		}
	}
	w.far = [3]*os.File{}
}

// run begins to pass on what comes on either side. Output that cannot be passed on ends the command.
func (w *wires) run(ctx context.Context, req *driver.ExecRequest, cancel context.CancelCauseFunc) {
	for i, to := range []io.Writer{req.Stdout, req.Stderr} {
		if w.out[i] == nil {
			continue
		}
		w.pumps.Go(func() {
			if err := w.pump(w.out[i], to); err != nil {
				w.mu.Lock()
				w.wrong = errors.Join(w.wrong, err)
				w.mu.Unlock()
				cancel(fmt.Errorf("pass on its output: %w", err))
			}
		})
	}
	if req.Stdin != nil {
		w.input.Go(func() { w.feed(req.Stdin) })
	}
	if w.terminal != nil && req.Resize != nil {
		w.input.Go(func() {
			for {
				select {
				case size := <-req.Resize:
					_ = w.resize(size) // of a terminal that is closed
				case <-w.ended:
					return
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// pump passes output on until its end. Once the command has ended, somebody outside may hold the pipe: then what comes is waited for only so long.
func (w *wires) pump(from *os.File, to io.Writer) error {
	buf := make([]byte, 32<<10)
	for {
		select {
		case <-w.ended:
			_ = from.SetReadDeadline(time.Now().Add(drainTimeout))
		default:
		}
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end, which a terminal tells as an error of its own
		}
	}
}

// feed passes input on until its end, or until the command takes no more.
func (w *wires) feed(from io.ReadCloser) {
	_, err := io.Copy(w.in, from)
	switch {
	case w.terminal == nil:
		_ = w.in.Close()
		_ = from.Close()
	case err == nil:
		_, _ = w.in.Write([]byte{endOfInput})
	}
}

// hangUp closes a terminal, which tells those who sit at it.
func (w *wires) hangUp() {
	if w.terminal != nil {
		_ = w.terminal.Close()
	}
}

// drain waits until the last output was passed on, and returns why it could not be. The command has ended.
func (w *wires) drain() error {
	close(w.ended)
	for _, f := range w.out {
		if f != nil {
			_ = f.SetReadDeadline(time.Now().Add(drainTimeout))
		}
	}
	w.pumps.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// close closes everything, where the input comes from too, and waits for what passed it on.
func (w *wires) close(stdin io.Closer) {
	w.closeFar()
	for _, f := range []*os.File{w.in, w.out[0], w.out[1]} {
		if f != nil {
			_ = f.Close()
		}
	}
	if stdin != nil {
		_ = stdin.Close()
	}
	w.pumps.Wait()
	w.input.Wait()
}
