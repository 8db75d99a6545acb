package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"
)

// How often a page is made again at most, how often it is looked whether what depends on time alone has changed, and how long a browser may take nothing.
const (
	livePace     = time.Second
	liveIdle     = 5 * time.Second
	stallTimeout = 30 * time.Second
)

// message is one server-sent event.
type message struct {
	kind string // region, stalled, events
	id   uint64 // revision that a browser names when it comes back; 0: none
	data any
}

// follow sends what changes of a view, until the browser goes, takes nothing for too long, or the session ends. A page that changes often is made again once a
// second at most, so a browser costs the server what it is shown, whatever happens.
func (d *Dashboard) follow(w http.ResponseWriter, a *ask, v *view) {
	if v.regions == nil && v.tail == nil {
		http.Error(w, "this page is not kept up to date", http.StatusNotFound)
		return
	}
	if !d.sessions.open(a.session) {
		http.Error(w, fmt.Sprintf("this session keeps %d pages up to date already", maxStreams), http.StatusTooManyRequests)
		return
	}
	defer d.sessions.shut(a.session)
	ctx, cancel := context.WithCancel(a.Context())
	defer cancel()
	stop := context.AfterFunc(a.session.ctx, cancel)
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{d: d, w: w, sent: map[string]template.HTML{}, stalled: -1}
	if v.tail != nil {
		happened := make(chan message)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			v.tail.follow(ctx, afterOf(a), happened)
		}()
		defer func() {
			cancel()
			<-ended
		}()
		s.happened = happened
	}
	if err := s.run(ctx, v); err != nil && ctx.Err() == nil {
		d.opts.Log.Debug("dashboard stream ended", "path", a.URL.Path, "caller", a.session.id.Name, "error", err)
	}
}

// afterOf returns the revision up to which a browser has seen what happened.
func afterOf(a *ask) uint64 {
	text := a.Header.Get("Last-Event-ID")
	if text == "" {
		text = a.URL.Query().Get("after")
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return a.dashboard.board.revision()
	}
	return n
}

// stream is what is sent to one page.
type stream struct {
	d        *Dashboard
	w        http.ResponseWriter
	happened <-chan message
	sent     map[string]template.HTML
	stalled  int
	wrote    time.Time
}

func (s *stream) run(ctx context.Context, v *view) error {
	for ctx.Err() == nil {
		changed := s.d.board.changed()
		if err := s.update(ctx, v); err != nil {
			return err
		}
		if err := s.between(ctx, time.After(livePace), nil); err != nil {
			return err
		}
		if err := s.between(ctx, time.After(liveIdle), changed); err != nil {
			return err
		}
		if time.Since(s.wrote) > stallTimeout/2 {
			if err := s.write(":\n\n"); err != nil { // finds browsers that are gone
				return err
			}
		}
	}
	return nil
}

// between sends what happens, until a moment has come or something has changed.
func (s *stream) between(ctx context.Context, until <-chan time.Time, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-s.happened:
			if err := s.send(m); err != nil {
				return err
			}
		case <-until:
			return nil
		case <-changed:
			return nil
		}
	}
}

// update sends the regions that are not as they were sent.
func (s *stream) update(ctx context.Context, v *view) error {
	ids, parts, err := s.d.made(ctx, v)
	if err != nil {
		return s.send(message{kind: "gone", data: problemOf(err).Message})
	}
	for _, id := range ids {
		if old, ok := s.sent[id]; ok && old == parts[id] {
			continue
		}
		if err := s.send(message{kind: "region", data: map[string]any{"id": id, "html": parts[id]}}); err != nil {
			return err
		}
		s.sent[id] = parts[id]
	}
	if n := s.d.board.waiting(ctx); n != s.stalled {
		s.stalled = n
		return s.send(message{kind: "stalled", data: n})
	}
	return nil
}

func (s *stream) send(m message) error {
	text, err := json.Marshal(m.data)
	if err != nil {
		return err
	}
	head := "event: " + m.kind + "\n"
	if m.id != 0 {
		head += "id: " + strconv.FormatUint(m.id, 10) + "\n"
	}
	return s.write(head + "data: " + string(text) + "\n\n")
}

func (s *stream) write(text string) error {
	if err := s.d.writeBy(s.w); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	s.wrote = time.Now()
	return http.NewResponseController(s.w).Flush()
}
