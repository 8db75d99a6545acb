package dashboard

import (
	"bytes"
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// Limits of what is shown of a task's output.
const (
	logLines = 500
	logBytes = 256 << 10
)

func idOfTask(a *ask) string {
	id := a.PathValue("job") + "/" + a.PathValue("slot")
	if rev := a.PathValue("rev"); rev != "" {
		id += "/" + rev
	}
	return id
}

// taskDetail is what a task's page shows.
type taskDetail struct {
	*apiv1.Task
	Matrix   *matrix
	Sentence string
	Exceeds  string
	Clears   string
}

func (d *Dashboard) taskView(a *ask) (*view, error) {
	found, err := a.session.api.GetTask(a.Context(), connect.NewRequest(&apiv1.GetTaskRequest{Task: idOfTask(a)}))
	if err != nil {
		return nil, err
	}
	id := found.Msg.GetTask().GetId()
	past, err := a.session.api.TaskHistory(a.Context(), connect.NewRequest(&apiv1.TaskHistoryRequest{Task: id}))
	if err != nil {
		return nil, err
	}
	why := memo[*apiv1.WhyTaskResponse]{now: d.opts.Now}
	return &view{
		title: id, tab: "jobs", frame: "task.html", fixed: past.Msg, tail: &tail{api: a.session.api, task: id, show: 20},
		regions: func(ctx context.Context) ([]region, error) {
			now, err := a.session.api.GetTask(ctx, connect.NewRequest(&apiv1.GetTaskRequest{Task: id}))
			if err != nil {
				return nil, err
			}
			out := taskDetail{Task: now.Msg.GetTask()}
			if out.GetNode() == "" && !out.GetDead() {
				said, err := why.get(d.board.revision(), func() (*apiv1.WhyTaskResponse, error) {
					r, err := a.session.api.WhyTask(ctx, connect.NewRequest(&apiv1.WhyTaskRequest{Task: id}))
					if err != nil {
						return nil, err
					}
					return r.Msg, nil
				})
				if err != nil {
					return nil, err
				}
				out.Sentence, out.Exceeds, out.Clears = said.GetSentence(), said.GetExceeds(), said.GetClears()
				if len(said.GetNodes()) > 0 {
					out.Matrix = newMatrix(said)
				}
			}
			return []region{{"task", "taskhead.html", out}, {"why", "matrix.html", out}}, nil
		},
	}, nil
}

// logs is the end of what a task printed.
type logs struct {
	Task    string
	Text    string
	Problem string
	Cut     bool
}

func (d *Dashboard) logsView(a *ask) (*view, error) {
	id := idOfTask(a)
	out := logs{Task: id}
	stream, err := a.session.api.TaskLogs(a.Context(), connect.NewRequest(&apiv1.TaskLogsRequest{Task: id, Tail: logLines}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // it was only read
	var text bytes.Buffer
	for stream.Receive() {
		text.Write(stream.Msg().GetData())
		if over := text.Len() - logBytes; over > 0 {
			text.Next(over)
			out.Cut = true
		}
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		if connect.CodeOf(err) == connect.CodeNotFound {
			return nil, err
		}
		p := problemOf(err)
		out.Problem = p.Message
		if p.Hint != "" {
			out.Problem += "; " + p.Hint
		}
	}
	out.Text = text.String()
	return &view{title: "Output of " + id, tab: "jobs", frame: "logs.html", fixed: out}, nil
}
