package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerTimeout is how long a living shim may take for an answer.
	answerTimeout = 5 * time.Second
	// maxMessageBytes bounds a line on the socket.
	maxMessageBytes = 64 << 10
)

// socketPath opens the directory and returns a path of its socket that is short however long the directory's own path is: the kernel takes
// at most 107 bytes. The path is good until the file is closed.
func (d taskDir) socketPath() (string, *os.File, error) {
	fd, err := unix.Open(string(d), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: string(d), Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + socketName, os.NewFile(uintptr(fd), string(d)), nil
}

func (d taskDir) listen() (*net.UnixListener, error) {
	path, dir, err := d.socketPath()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path is gone with the descriptor; the directory's owner removes the file
	return l, os.Chmod(path, 0o600)
}

// A call is a connection to a shim that has proved who it is.
type call struct {
	conn   *net.UnixConn
	reader *bufio.Reader
	want   request
	shim   identity
}

// errStranger: who answered is not the shim of this start.
var errStranger = errors.New("answer from another shim")

// dial connects to the shim, sends the request and takes the first answer.
func (d taskDir) dial(ctx context.Context, req request, shim identity) (*call, error) {
	path, dir, err := d.socketPath()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &call{conn: conn.(*net.UnixConn), reader: bufio.NewReader(io.LimitReader(conn, maxMessageBytes)), want: req, shim: shim}
	req.Version = protocolVersion
	line, err := json.Marshal(req)
	if err == nil {
		stop := context.AfterFunc(ctx, c.interrupt)
		if _, err = conn.Write(append(line, '\n')); err == nil {
			_, err = c.answer()
		}
		stop()
	}
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), fmt.Errorf("ask the shim to %s: %w", req.Op, err), conn.Close())
	}
	return c, nil
}

// answer reads the next answer and checks whose it is.
func (c *call) answer() (answer, error) {
	line, err := c.reader.ReadBytes('\n')
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, fmt.Errorf("parse answer: %w", err)
	}
	if a.TaskID != c.want.TaskID || a.Mark != c.want.Mark || a.Shim != c.shim {
		return answer{}, errStranger
	}
	if a.Err != "" {
		return answer{}, errors.New(a.Err)
	}
	return a, nil
}

// interrupt makes reads and writes that are under way, and later ones, return at once.
func (c *call) interrupt() {
	_ = c.conn.SetDeadline(time.Unix(1, 0))
}

func (c *call) close() { _ = c.conn.Close() }
