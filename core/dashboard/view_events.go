package dashboard

import (
	"context"
	"html/template"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// maxBurst is how many events of one message are shown; of more the latest are, and how many were left out.
const maxBurst = 100

// eventTail is what happened lately and what happens.
type eventTail struct {
	api             apiv1connect.ApiServiceClient
	pages           *pages
	job, node, task string // only of these; "": of any
	kinds           []string
	show            int // events at first
}

func (t *eventTail) request() *apiv1.WatchEventsRequest {
	return &apiv1.WatchEventsRequest{Job: t.job, Node: t.node, Task: t.task, Kinds: t.kinds}
}

// recent returns the latest events, newest first.
func (t *eventTail) recent(ctx context.Context) (string, template.HTML, uint64, error) {
	ask := t.request()
	ask.Recent = uint32(t.show)
	stream, err := t.api.WatchEvents(ctx, connect.NewRequest(ask))
	if err != nil {
		return "", "", 0, err
	}
	defer func() { _ = stream.Close() }() // it was only read
	var all []*apiv1.Event
	revision := uint64(0)
	for stream.Receive() {
		all = append(all, stream.Msg().GetEvents()...)
		all = all[max(0, len(all)-t.show):]
		revision = stream.Msg().GetRevision()
	}
	if err := stream.Err(); err != nil {
		return "", "", 0, err
	}
	html, err := t.render(all, 0)
	return "events", html, revision, err
}

// eventRows are events, newest first.
type eventRows struct {
	Rows    []*apiv1.Event
	LeftOut int
}

func (t *eventTail) render(oldestFirst []*apiv1.Event, leftOut int) (template.HTML, error) {
	rows := eventRows{LeftOut: leftOut}
	for i := len(oldestFirst) - 1; i >= 0; i-- {
		rows.Rows = append(rows.Rows, oldestFirst[i])
	}
	return t.pages.render("eventrows.html", rows)
}

// follow sends what happens after a revision until the context ends. If what happened meanwhile is not kept any more, the page is to be loaded again.
func (t *eventTail) follow(ctx context.Context, after uint64, to chan<- message) {
	send := func(m message) bool {
		select {
		case to <- m:
			return true
		case <-ctx.Done():
			return false
		}
	}
	ask := t.request()
	from := after + 1
	ask.FromRevision, ask.Follow = &from, true
	stream, err := t.api.WatchEvents(ctx, connect.NewRequest(ask))
	if err != nil {
		send(message{kind: "reload"})
		return
	}
	defer func() { _ = stream.Close() }() // it was only read
	for stream.Receive() {
		m := stream.Msg()
		all := m.GetEvents()
		if len(all) == 0 {
			continue
		}
		leftOut := max(0, len(all)-maxBurst)
		html, err := t.render(all[leftOut:], leftOut)
		if err != nil || !send(message{kind: "events", id: m.GetRevision(), data: html}) {
			return
		}
	}
	if ctx.Err() == nil {
		send(message{kind: "reload"})
	}
}

// eventFilter is what the page of events is about.
type eventFilter struct{ Job, Node, Task, Kind string }

func (d *Dashboard) eventsView(a *ask) (*view, error) {
	q := a.URL.Query()
	f := eventFilter{q.Get("job"), q.Get("node"), q.Get("task"), q.Get("kind")}
	t := &eventTail{api: a.session.api, pages: d.pages, job: f.Job, node: f.Node, task: f.Task, show: 100}
	if f.Kind != "" {
		t.kinds = []string{f.Kind}
	}
	return &view{title: "Events", tab: "events", frame: "events.html", fixed: f, tail: t}, nil
}
