package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Limits of log streams: for each node, and for each stream what an agent may send before it was read, and what may wait at most.
const (
	maxLogStreams = 32
	logWindow     = 1 << 20
	maxLogBytes   = 4 << 20
)

// OpenLogs asks the agent of a node for a task's output. Only the request's number is set here. Reading gives io.EOF at the end, ErrLogsSlow
// if the agent sends more than was read of it, and the context's error once that ends; Close ends the stream early. The error is ErrNoSession if the
// node's agent is not connected, and ErrLogsBusy if the node serves too many streams.
func (d *Dispatcher) OpenLogs(ctx context.Context, node cluster.NodeID, req *agentv1.LogRequest) (io.ReadCloser, error) {
	s := d.session(node)
	if s == nil {
		return nil, fmt.Errorf("logs of %s: %w", req.GetTask(), ErrNoSession)
	}
	l, err := s.logs.open()
	if err != nil {
		return nil, fmt.Errorf("logs of %s: %w", req.GetTask(), err)
	}
	ask := &agentv1.LogRequest{
		Request: l.number, Task: req.GetTask(), Stream: req.GetStream(), Follow: req.GetFollow(), Tail: req.GetTail(),
		SinceUnixNs: req.GetSinceUnixNs(), WindowBytes: logWindow,
	}
	if !s.out.control(&agentv1.FromServer{Message: &agentv1.FromServer_LogRequest{LogRequest: ask}}) {
		s.logs.drop(l.number)
		return nil, fmt.Errorf("logs of %s: %w", req.GetTask(), ErrLogsBusy)
	}
	stop := context.AfterFunc(ctx, func() { l.finish(ctx.Err()) })
	return &logReader{logStream: l, session: s, stop: stop}, nil
}

// logReader is a log stream as its reader has it.
type logReader struct {
	*logStream
	session *session
	stop    func() bool
	read    int64 // bytes since more was asked for
}

// Read implements io.Reader. What was read makes room for more, if there can be more.
func (r *logReader) Read(p []byte) (int, error) {
	n, err := r.logStream.Read(p)
	if r.read += int64(n); r.read < logWindow/2 || !r.session.logs.has(r.number) {
		return n, err
	}
	more := &agentv1.LogMore{Request: r.number, Bytes: r.read}
	if r.session.out.control(&agentv1.FromServer{Message: &agentv1.FromServer_LogMore{LogMore: more}}) {
		r.read = 0
	} else {
		r.finish(ErrLogsBusy)
	}
	return n, err
}

// Close ends the stream; the agent is told if it had more to send.
func (r *logReader) Close() error {
	r.stop()
	if r.session.logs.drop(r.number) {
		r.session.out.control(cancelLogs(r.number))
	}
	return nil
}

func cancelLogs(request uint64) *agentv1.FromServer {
	return &agentv1.FromServer{Message: &agentv1.FromServer_LogCancel{LogCancel: &agentv1.LogCancel{Request: request}}}
}

// logStreams are the log streams of one session. The zero value has none.
type logStreams struct {
	mu     sync.Mutex // guards what follows
	next   uint64
	live   map[uint64]*logStream // the agent may send more of these
	closed error                 // why the session ended
}

func (l *logStreams) open() (*logStream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return nil, ErrNoSession
	case len(l.live) >= maxLogStreams:
		return nil, ErrLogsBusy
	case l.live == nil:
		l.live = make(map[uint64]*logStream)
	}
	l.next++
	s := &logStream{number: l.next, wake: make(chan struct{}, 1)}
	l.live[s.number] = s
	return s, nil
}

// deliver gives a stream what came for it, and reports whether anybody wants more of it.
func (l *logStreams) deliver(m *agentv1.Logs) bool {
	l.mu.Lock()
	s := l.live[m.GetRequest()]
	if m.GetEnd() {
		delete(l.live, m.GetRequest())
	}
	l.mu.Unlock()
	switch {
	case s == nil:
		return false
	case !s.append(m.GetData()):
		s.finish(ErrLogsSlow)
		l.drop(s.number)
		return false
	case m.GetErr() != "":
		s.finish(errors.New(clip(m.GetErr())))
	case m.GetEnd():
		s.finish(io.EOF)
	}
	return true
}

// has reports whether the agent may have more of a stream.
func (l *logStreams) has(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, live := l.live[number]
	return live
}

// drop forgets a stream, and reports whether the agent may have more of it.
func (l *logStreams) drop(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, live := l.live[number]
	delete(l.live, number)
	return live
}

// close ends all streams.
func (l *logStreams) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = why
	for _, s := range l.live {
		s.finish(fmt.Errorf("the session with the node's agent ended: %w", why))
	}
	clear(l.live)
}

// logStream is what came of one request and was not read yet.
type logStream struct {
	number uint64
	wake   chan struct{} // holds a value when something changed

	mu   sync.Mutex // guards what follows
	data []byte
	err  error // how it ended
}

// append adds data, and reports false if the reader is too far behind.
func (s *logStream) append(data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.data)+len(data) > maxLogBytes {
		return false
	}
	s.data = append(s.data, data...)
	s.notify()
	return true
}

// finish ends the stream after what came; the first reason counts.
func (s *logStream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.notify()
}

func (s *logStream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Read waits for output. One goroutine reads.
func (s *logStream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, err := copy(p, s.data), s.err
		if s.data = s.data[n:]; len(s.data) == 0 {
			s.data = nil
		}
		s.mu.Unlock()
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		<-s.wake
	}
}
