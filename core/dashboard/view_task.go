package dashboard

import (
	"context"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
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
		title: id, tab: "jobs", frame: "task.html", fixed: past.Msg, tail: &eventTail{api: a.session.api, pages: d.pages, task: id, show: 20},
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
