package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// maxLogRequests is how many requests for output a session serves at the same time.
	maxLogRequests = 64
	// logChunk is about how much output goes into one message, in bytes.
	logChunk = 32 << 10
	// logFlush is how long output may wait for more to go into the same message.
	logFlush = 20 * time.Millisecond
)

// logRequests are the requests for output of one session. The zero value has none.
type logRequests struct {
	group sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	live   map[uint64]*logRequest
}

// logRequest is a request that is served.
type logRequest struct {
	cancel context.CancelFunc
	window window
}

// begin serves a request until all was sent, or it is cancelled, or the session's context ends.
func (l *logRequests) begin(ctx context.Context, s *session, req *agentv1.LogRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.live == nil {
		l.live = make(map[uint64]*logRequest)
	}
	if _, taken := l.live[req.GetRequest()]; taken {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	full := len(l.live) >= maxLogRequests
	r := &logRequest{cancel: cancel, window: newWindow(req.GetWindowBytes())}
	l.live[req.GetRequest()] = r
	l.group.Go(func() {
		defer l.cancel(req.GetRequest())
		err := errors.New("the node serves too many requests for output")
		if !full {
			err = s.sendLogs(ctx, req, &r.window)
		}
		if ctx.Err() != nil {
			return // nobody waits for it
		}
		last := &agentv1.Logs{Request: req.GetRequest(), End: true}
		if err != nil {
			last.Err = err.Error()
		}
		s.say(ctx, &agentv1.FromAgent{Message: &agentv1.FromAgent_Logs{Logs: last}})
	})
}

// cancel ends a request.
func (l *logRequests) cancel(request uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.live[request]; r != nil {
		r.cancel()
		delete(l.live, request)
	}
}

// more lets a request send so many bytes more.
func (l *logRequests) more(request uint64, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.live[request]; r != nil {
		r.window.give(bytes)
	}
}

// close ends all requests and waits for them. The session's context has ended.
func (l *logRequests) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.group.Wait()
}

// sendLogs reads a task's output and sends it. Lines that come together go together.
func (s *session) sendLogs(ctx context.Context, req *agentv1.LogRequest, w *window) error {
	d, handle, found := s.agent.set.Find(cluster.TaskID(req.GetTask()))
	if !found {
		return fmt.Errorf("task %s is not known on this node", req.GetTask())
	}
	ask, err := logsRequest(req)
	if err != nil {
		return err
	}
	if req.GetTail() == 0 && !req.GetFollow() {
		return nil
	}
	chunks := newChunker(func(data []byte) {
		if w.take(ctx, int64(len(data))) != nil {
			return // nobody waits for it
		}
		s.say(ctx, &agentv1.FromAgent{Message: &agentv1.FromAgent_Logs{Logs: &agentv1.Logs{Request: req.GetRequest(), Data: data}}})
	})
	defer chunks.close()
	for line, err := range d.Logs(ctx, handle, ask) {
		if err != nil {
			return err
		}
		chunks.add(line)
	}
	return ctx.Err()
}

// window is how much may be sent before the reader has taken some of it.
type window struct {
	limited bool
	changed chan struct{} // holds a value when more may be sent

	mu   sync.Mutex // guards left
	left int64      // bytes; below 0 once a message was larger than what was left
}

func newWindow(bytes int64) window {
	return window{limited: bytes > 0, left: bytes, changed: make(chan struct{}, 1)}
}

// take waits until something may be sent, or the context ends, and counts what is.
func (w *window) take(ctx context.Context, bytes int64) error {
	for w.limited {
		w.mu.Lock()
		open := w.left > 0
		if open {
			if w.left -= bytes; w.left > 0 {
				notify(w.changed) // another may wait as well
			}
		}
		w.mu.Unlock()
		if open {
			break
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) give(bytes int64) {
	w.mu.Lock()
	w.left += bytes
	w.mu.Unlock()
	notify(w.changed)
}

// logsRequest reads a request. No last lines at all means only what is written from now on.
func logsRequest(req *agentv1.LogRequest) (driver.LogsRequest, error) {
	out := driver.LogsRequest{Follow: req.GetFollow()}
	switch req.GetStream() {
	case "":
	case driver.Stdout.String():
		out.Stream = driver.Stdout
	case driver.Stderr.String():
		out.Stream = driver.Stderr
	default:
		return driver.LogsRequest{}, fmt.Errorf("there is no stream %q; there are stdout and stderr", req.GetStream())
	}
	if since := req.GetSinceUnixNs(); since != 0 {
		out.Since = time.Unix(0, since)
	}
	switch tail := req.GetTail(); {
	case tail > 0:
		out.Tail = int(tail)
	case tail == 0:
		out.Since = time.Now()
	}
	return out, nil
}

// chunker gathers lines into messages.
type chunker struct {
	send  func(data []byte)
	timer *time.Timer // flushes what waits

	mu   sync.Mutex // guards data, and is held while that is sent, so that the order is kept
	data []byte
}

func newChunker(send func(data []byte)) *chunker {
	c := &chunker{send: send}
	c.timer = time.AfterFunc(time.Hour, c.flush)
	return c
}

func (c *chunker) add(line driver.LogLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.data) == 0 {
		c.timer.Reset(logFlush)
	}
	c.data = append(c.data, line.Text...)
	if !line.Partial {
		c.data = append(c.data, '\n')
	}
	if len(c.data) >= logChunk {
		c.sendLocked()
	}
}

func (c *chunker) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked()
}

// close sends what is left.
func (c *chunker) close() {
	c.timer.Stop()
	c.flush()
}

func (c *chunker) sendLocked() {
	if len(c.data) > 0 {
		c.send(c.data)
		c.data = nil
	}
}
