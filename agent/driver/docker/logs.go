package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strconv"
	"time"

	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

const (
	// engineChunk is the size at which engines cut a line that is longer, in bytes.
	engineChunk = 16 << 10
	// settlePause is how long to wait until it is asked whether what ended its output has ended.
	settlePause = 20 * time.Millisecond
	// maxFrame bounds what is read of one of the engine's frames, which holds one line or chunk.
	maxFrame = 4 << 20
)

// Logs asks the engine for the task's output.
func (d *Driver) Logs(ctx context.Context, h driver.Handle, req driver.LogsRequest) iter.Seq2[driver.LogLine, error] {
	return func(yield func(driver.LogLine, error) bool) {
		r := reader{driver: d, req: req, yield: yield}
		err := r.read(ctx, h.TaskID)
		if err != nil && !r.left {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(driver.LogLine{}, fmt.Errorf("read logs of task %s: %w", h.TaskID, err))
		}
	}
}

// A reader yields one task's output. The times of one stream's lines never go back, those of both together may. So where it stands is told for each stream, and
// it can go on from there in another of the engine's answers.
type reader struct {
	driver *Driver
	req    driver.LogsRequest
	yield  func(driver.LogLine, error) bool
	left   bool // whoever ranges over it wants no more
	stands map[driver.Stream]position
}

// A position is the time of a line, and how many lines of that time there were.
type position struct {
	at    time.Time
	lines int
}

// errLeft ends a stream that nobody wants any more.
var errLeft = errors.New("nobody reads on")

func (r *reader) read(ctx context.Context, taskID string) error {
	c, err := r.driver.look(ctx, taskID)
	if err != nil {
		return err
	}
	r.stands = make(map[driver.Stream]position)
	if r.req.Tail > 0 {
		if err := r.tail(ctx, c.ID); err != nil || !r.req.Follow {
			return err
		}
	}
	for {
		// Whether it runs is asked before its output, so that of what has ended all is read.
		c, err := r.driver.look(ctx, taskID)
		switch {
		case errors.Is(err, driver.ErrNotFound): // removed meanwhile
			return nil
		case errors.Is(err, errForeign), err != nil && !r.req.Follow:
			return err
		}
		runs := err != nil || statusOf(c).State == driver.StateRunning
		if err == nil {
			err = r.stream(ctx, c.ID, r.req.Follow && runs, "", r.give)
		}
		switch {
		case errors.Is(err, errLeft), ctx.Err() != nil, err != nil && !r.req.Follow:
			return err
		case err == nil && (!r.req.Follow || !runs):
			return nil
		}
		// The stream of something that ran came to its end: it has ended, or the engine is away.
		wait := settlePause
		if err != nil {
			wait = retryPause
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// give hands a line on.
func (r *reader) give(line driver.LogLine) error {
	if !r.yield(line, nil) {
		r.left = true
		return errLeft
	}
	return nil
}

// tail yields the last lines of what there is. The engine counts the lines of both streams, and where each of them stands it shows only with all its lines; so
// it counts only if both are wanted and nothing follows.
func (r *reader) tail(ctx context.Context, id string) error {
	last, kept := "", make([]driver.LogLine, 0, min(r.req.Tail, 1024))
	if r.req.Stream == driver.StreamBoth && !r.req.Follow {
		last = strconv.Itoa(r.req.Tail)
	}
	err := r.stream(ctx, id, false, last, func(line driver.LogLine) error {
		if len(kept) == r.req.Tail {
			copy(kept, kept[1:])
			kept = kept[:len(kept)-1]
		}
		kept = append(kept, line)
		return nil
	})
	if err != nil {
		return err
	}
	for _, line := range kept {
		if err := r.give(line); err != nil {
			return err
		}
	}
	return nil
}

// stream reads one answer of the engine from where the reader stands, with the last lines only if last says how many.
func (r *reader) stream(ctx context.Context, id string, follow bool, last string, take func(driver.LogLine) error) error {
	options := client.ContainerLogsOptions{
		ShowStdout: r.req.Stream != driver.Stderr, ShowStderr: r.req.Stream != driver.Stdout, Timestamps: true, Follow: follow, Tail: last,
	}
	if since := r.since(options); !since.IsZero() {
		options.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	answer, err := r.driver.engine.ContainerLogs(ctx, id, options)
	if err != nil {
		return plain(err)
	}
	defer answer.Close()
	from := maps.Clone(r.stands)
	frames := bufio.NewReaderSize(answer, 32<<10)
	for {
		line, err := readFrame(frames)
		switch {
		case errors.Is(err, io.EOF):
			return ctx.Err()
		case err != nil:
			return err
		}
		if r.seen(from, line) {
			continue
		}
		if err := take(line); err != nil {
			return err
		}
	}
}

// since returns the time from which the engine has to tell, which is that of the stream that stands further back.
func (r *reader) since(options client.ContainerLogsOptions) time.Time {
	var out time.Time
	for stream, wanted := range map[driver.Stream]bool{driver.Stdout: options.ShowStdout, driver.Stderr: options.ShowStderr} {
		stand, known := r.stands[stream]
		switch {
		case !wanted:
		case !known:
			return r.req.Since
		case out.IsZero() || stand.at.Before(out):
			out = stand.at
		}
	}
	return out
}

// seen reports whether a line is one of those up to where the reader stood, and otherwise notes it.
func (r *reader) seen(from map[driver.Stream]position, line driver.LogLine) bool {
	before := from[line.Stream]
	switch {
	case line.Time.Before(before.at):
		return true
	case line.Time.Equal(before.at) && before.lines > 0:
		before.lines--
		from[line.Stream] = before
		return true
	}
	now := r.stands[line.Stream]
	if !line.Time.Equal(now.at) {
		now = position{at: line.Time}
	}
	now.lines++
	r.stands[line.Stream] = now
	return false
}

// readFrame reads one line: eight bytes with the stream and the length, then a time, a blank and the text.
func readFrame(from *bufio.Reader) (driver.LogLine, error) {
	var head [8]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return driver.LogLine{}, err
	}
	out := driver.LogLine{Stream: driver.Stdout}
	size := binary.BigEndian.Uint32(head[4:])
	switch {
	case head[0] == 2:
		out.Stream = driver.Stderr
	case head[0] != 1 && head[0] != 0:
		return out, fmt.Errorf("the engine's log has a frame of stream %d", head[0])
	}
	if size > maxFrame {
		return out, fmt.Errorf("the engine's log has a frame of %d bytes", size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(from, data); err != nil {
		return out, io.ErrUnexpectedEOF
	}
	at, text, found := bytes.Cut(data, []byte(" "))
	var err error
	if out.Time, err = time.Parse(time.RFC3339Nano, string(at)); err != nil || !found {
		return out, fmt.Errorf("the engine's log has a line without a time: %.40q", data)
	}
	var whole bool
	out.Text, whole = bytes.CutSuffix(text, []byte("\n"))
	out.Partial = !whole && len(text) >= engineChunk
	return out, nil
}
