package dashboard

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"io"
	"unicode/utf8"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// Limits of what is shown of a task's output. The page's script drops what is older by itself.
const (
	outputLines = 500
	outputBytes = 256 << 10
)

// outputTail is what a task printed last, and what it prints.
type outputTail struct {
	api   apiv1connect.ApiServiceClient
	pages *pages
	task  string
}

func (d *Dashboard) outputView(a *ask) (*view, error) {
	id := idOfTask(a)
	t := &outputTail{api: a.session.api, pages: d.pages, task: id}
	return &view{title: "Output of " + id, tab: "jobs", frame: "logs.html", fixed: id, tail: t}, nil
}

// output is the end of what a task printed.
type output struct {
	Text    string
	Problem string // why there is no more
	Cut     bool
}

// more is a piece of what a task prints. The first of a stream stands for all that a page shows.
type more struct {
	Text  string `json:"text"`
	First bool   `json:"first"`
}

func (t *outputTail) open(ctx context.Context, follow bool) (*connect.ServerStreamForClient[apiv1.TaskLogsResponse], error) {
	return t.api.TaskLogs(ctx, connect.NewRequest(&apiv1.TaskLogsRequest{Task: t.task, Tail: outputLines, Follow: follow}))
}

func (t *outputTail) recent(ctx context.Context) (string, template.HTML, uint64, error) {
	out, err := t.read(ctx)
	if err != nil {
		return "", "", 0, err
	}
	text, err := t.pages.render("output.html", out)
	return "output", text, 0, err
}

func (t *outputTail) read(ctx context.Context) (*output, error) {
	stream, err := t.open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // it was only read
	var text bytes.Buffer
	out := &output{}
	for stream.Receive() {
		text.Write(stream.Msg().GetData())
		if over := text.Len() - outputBytes; over > 0 {
			text.Next(over)
			out.Cut = true
		}
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		if connect.CodeOf(err) == connect.CodeNotFound {
			return nil, err
		}
		out.Problem = sentence(err)
	}
	out.Text = text.String()
	return out, nil
}

// follow sends the end of what was printed and then what is printed, as long as the task runs. A browser that takes it slowly slows the reading down, and nothing else.
func (t *outputTail) follow(ctx context.Context, _ uint64, to chan<- message) {
	end := "the output has ended"
	defer func() {
		select {
		case to <- message{kind: "finished", data: end}:
		case <-ctx.Done():
		}
	}()
	stream, err := t.open(ctx, true)
	if err != nil {
		end = sentence(err)
		return
	}
	defer func() { _ = stream.Close() }() // it was only read
	first := true
	var held []byte
	for stream.Receive() {
		var text []byte
		if text, held = whole(append(held, stream.Msg().GetData()...)); len(text) == 0 {
			continue // the first tells only that the agent has answered
		}
		select {
		case to <- message{kind: "output", data: more{string(text), first}}:
			first = false
		case <-ctx.Done():
			return
		}
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		end = sentence(err)
	}
}

// sentence returns what a page says of an error.
func sentence(err error) string {
	p := problemOf(err)
	if p.Hint == "" {
		return p.Message
	}
	return p.Message + "; " + p.Hint
}

// whole splits off the beginning of a character whose other bytes have not come yet.
func whole(text []byte) (ready, held []byte) {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return text[:len(text)-n], bytes.Clone(text[len(text)-n:])
			}
			break
		}
	}
	return text, nil
}
