package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// followInterval is how often a follower looks for more.
const followInterval = 100 * time.Millisecond

// A logCursor reads one stream's lines across its files.
type logCursor struct {
	dir    string
	stream driver.Stream

	segment int // number of file, or of the last one read
	file    *os.File
	buf     []byte // read, not yet yielded
	done    int    // of buf, bytes that were yielded
	head    driver.LogLine
	ready   bool // head is set
}

// peek makes head the next line. It returns false if there is none now.
func (c *logCursor) peek() (bool, error) {
	for !c.ready {
		line, rest, found := bytes.Cut(c.buf[c.done:], []byte{'\n'})
		if found {
			c.done = len(c.buf) - len(rest)
			c.head, c.ready = parseLine(line, c.stream)
			continue
		}
		more, err := c.fill()
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// fill reads more bytes, from the next file if this one is at its end.
func (c *logCursor) fill() (bool, error) {
	if c.file != nil {
		if n, err := c.read(); n > 0 || err != nil {
			return n > 0, err
		}
	}
	all, err := segments(c.dir, c.stream)
	if err != nil {
		return false, err
	}
	for _, n := range all {
		if n <= c.segment {
			continue
		}
		if c.file != nil {
			// The writer has left this file, so what can be read now is all of it.
			if n, err := c.read(); n > 0 || err != nil {
				return n > 0, err
			}
		}
		ok, err := c.open(n)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (c *logCursor) read() (int, error) {
	c.buf = append(c.buf[:0], c.buf[c.done:]...)
	c.done = 0
	if len(c.buf) > maxLineBytes+headerBytes {
		c.buf = c.buf[:0] // no line of ours is that long; go on at the next line's end
	}
	have := len(c.buf)
	c.buf = append(c.buf, make([]byte, 32<<10)...)
	n, err := c.file.Read(c.buf[have:])
	c.buf = c.buf[:have+n]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// open goes on with file n. It returns false if the writer has deleted it meanwhile.
func (c *logCursor) open(n int) (bool, error) {
	f, err := os.Open(segmentName(c.dir, c.stream, n))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c.close()
	c.file, c.segment, c.buf, c.done = f, n, c.buf[:0], 0
	return true, nil
}

func (c *logCursor) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// parseLine takes a written line apart. It returns false for what is not one, such as the end of a write that was cut short.
func parseLine(line []byte, s driver.Stream) (driver.LogLine, bool) {
	if len(line) < headerBytes || line[len(stampLayout)] != ' ' || line[headerBytes-1] != ' ' {
		return driver.LogLine{}, false
	}
	at, err := time.Parse(stampLayout, string(line[:len(stampLayout)]))
	kind := line[len(stampLayout)+1]
	if err != nil || kind != lineFull && kind != linePart {
		return driver.LogLine{}, false
	}
	return driver.LogLine{Time: at, Stream: s, Text: line[headerBytes:], Partial: kind == linePart}, true
}

// seekTail places the cursor before at most the last n lines and returns how many these are.
func (c *logCursor) seekTail(n int) (int, error) {
	all, err := segments(c.dir, c.stream)
	if err != nil {
		return 0, err
	}
	count, first := 0, 0
	for i := len(all) - 1; i >= 0 && count < n; i-- {
		lines, err := countLines(segmentName(c.dir, c.stream, all[i]))
		if err != nil {
			return 0, err
		}
		count, first = count+lines, all[i]
	}
	if first == 0 {
		return 0, nil
	}
	c.segment = first - 1
	for ; count > n; count-- {
		if ok, err := c.peek(); !ok || err != nil {
			return 0, err
		}
		c.ready = false
	}
	return count, nil
}

func countLines(path string) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 32<<10)
	for lines := 0; ; {
		n, err := f.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// readLogs yields the lines of the streams in the order of their stamps. ended tells whether the task has ended; what was written before it
// says so is still read.
func readLogs(ctx context.Context, dir string, req driver.LogsRequest, ended func() (bool, error), yield func(driver.LogLine) bool) error {
	var cursors []*logCursor
	for _, s := range []driver.Stream{driver.Stdout, driver.Stderr} {
		if req.Stream == driver.StreamBoth || req.Stream == s {
			cursors = append(cursors, &logCursor{dir: dir, stream: s})
		}
	}
	defer func() {
		for _, c := range cursors {
			c.close()
		}
	}()
	skip, err := seekTails(cursors, req.Tail)
	if err != nil {
		return fmt.Errorf("read logs in %s: %w", dir, err)
	}
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		last := !req.Follow
		if req.Follow {
			if last, err = ended(); err != nil {
				return err
			}
		}
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			c, err := earliest(cursors)
			if err != nil {
				return fmt.Errorf("read logs in %s: %w", dir, err)
			}
			if c == nil {
				break
			}
			c.ready = false
			if skip > 0 {
				skip--
				continue
			}
			if !c.head.Time.Before(req.Since) && !yield(c.head) {
				return nil
			}
		}
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// seekTails places each cursor before its last lines, and returns how many of those, in the order of their stamps, are too many in all.
func seekTails(cursors []*logCursor, tail int) (skip int, err error) {
	if tail <= 0 {
		return 0, nil
	}
	total := 0
	for _, c := range cursors {
		n, err := c.seekTail(tail)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return max(0, total-tail), nil
}

// earliest returns the cursor with the oldest line at its head, or nil if there is no line.
func earliest(cursors []*logCursor) (*logCursor, error) {
	var first *logCursor
	for _, c := range cursors {
		ok, err := c.peek()
		if err != nil {
			return nil, err
		}
		if ok && (first == nil || c.head.Time.Before(first.head.Time)) {
			first = c
		}
	}
	return first, nil
}
