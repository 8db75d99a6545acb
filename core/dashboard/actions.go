package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// action is something that an operator can do about a node or a job.
type action struct {
	Name  string // in addresses
	Label string
	What  string // what it does, one sentence
	Field *field // what has to be said besides; nil: nothing
	Path  string // of its page

	order func(subject string, form url.Values) (order, error)
}

// field is what a form asks for.
type field struct {
	Name, Label, Hint string
	Type              string // of the input
	Value             string // at first
	Required          bool   // nothing can be previewed without it
}

// order is an action with all that it needs.
type order struct {
	try *apiv1.PlanCommand
	do  func(context.Context, apiv1connect.ApiServiceClient) error
}

// actionsOfNode returns what can be done about a node as it is.
func actionsOfNode(n *cluster.Node) []*action {
	var out []*action
	if n.Spec.Decommissioned {
		return nil
	}
	if n.Spec.Availability != cluster.Active {
		out = append(out, &action{Name: "activate", Label: "Activate", What: "The node takes new tasks again.", order: availability(cluster.Active)})
	}
	if n.Spec.Availability != cluster.Drain {
		out = append(out, &action{
			Name: "drain", Label: "Drain", What: "The node is emptied: each task is replaced elsewhere, within its job's budget, and told to stop.", order: availability(cluster.Drain),
			Field: &field{Name: "deadline", Label: "Deadline", Hint: "such as 10m; after it budgets are not waited for. Empty: no deadline", Type: "text"},
		})
	}
	if n.Spec.Availability != cluster.Pause {
		out = append(out, &action{Name: "pause", Label: "Pause", What: "The node keeps what runs and starts nothing new, restarts included.", order: availability(cluster.Pause)})
	}
	return addressed(out, "/nodes/"+n.Spec.Name)
}

func addressed(actions []*action, base string) []*action {
	for _, a := range actions {
		a.Path = base + "/do/" + a.Name
	}
	return actions
}

func availability(to cluster.Availability) func(string, url.Values) (order, error) {
	return func(node string, form url.Values) (order, error) {
		req := &apiv1.SetAvailabilityRequest{Nodes: []string{node}, Availability: string(to)}
		if text := form.Get("deadline"); text != "" && to == cluster.Drain {
			limit, err := time.ParseDuration(text)
			if err != nil || limit <= 0 {
				return order{}, refused("%q is no duration: write it like 90s, 10m or 1h30m", text)
			}
			req.DrainDeadline = durationpb.New(limit)
		}
		return order{
			try: &apiv1.PlanCommand{Command: &apiv1.PlanCommand_SetAvailability{SetAvailability: req}},
			do:  call(apiv1connect.ApiServiceClient.SetAvailability, req),
		}, nil
	}
}

// call returns a function that makes one call and keeps nothing of its answer.
func call[Q, A any](method func(apiv1connect.ApiServiceClient, context.Context, *connect.Request[Q]) (*connect.Response[A], error), req *Q) func(context.Context, apiv1connect.ApiServiceClient) error {
	return func(ctx context.Context, api apiv1connect.ApiServiceClient) error {
		_, err := method(api, ctx, connect.NewRequest(req))
		return err
	}
}

// actionsOfJob returns what can be done about a job as it is.
func actionsOfJob(j *cluster.Job) []*action {
	var out []*action
	switch j.Update.State {
	case cluster.Updating:
		out = append(out, control("hold", "pause", "Pause the update", "Nothing more is moved to the new version; what has moved stays."), cancelUpdate())
	case cluster.UpdatePaused:
		out = append(out, control("resume", "resume", "Resume the update", "The update goes on where it was paused."), cancelUpdate())
	}
	if j.Control.Stopped {
		out = append(out, &action{Name: "start", Label: "Start", What: "The job's slots are wanted again.", order: func(job string, _ url.Values) (order, error) {
			req := &apiv1.StartJobRequest{Job: job}
			return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_StartJob{StartJob: req}}, call(apiv1connect.ApiServiceClient.StartJob, req)}, nil
		}})
		return addressed(out, "/jobs/"+j.Name)
	}
	if j.Control.Spec.Numbered() {
		out = append(out, &action{
			Name: "scale", Label: "Scale", What: "The job has another number of slots.", order: scale,
			Field: &field{Name: "count", Label: "Slots", Type: "number", Value: strconv.Itoa(j.Control.Spec.Count), Required: true},
		})
	}
	out = append(out, &action{Name: "restart", Label: "Restart", What: "Every task is replaced, by the pace of the job's update section.", order: func(job string, _ url.Values) (order, error) {
		req := &apiv1.RestartJobRequest{Job: job}
		return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_RestartJob{RestartJob: req}}, call(apiv1connect.ApiServiceClient.RestartJob, req)}, nil
	}})
	if len(j.Control.Versions) > 1 {
		before := j.Control.Versions[len(j.Control.Versions)-2].Version
		out = append(out, &action{
			Name: "rollback", Label: "Roll back", What: "A new version is made with the content of an earlier one, and the job updated to it.", order: rollback,
			Field: &field{Name: "to", Label: "To version", Type: "number", Value: strconv.FormatUint(before, 10), Required: true},
		})
	}
	out = append(out, &action{Name: "stop", Label: "Stop", What: "Every task is told to stop; the job stays, and can be started again.", order: func(job string, _ url.Values) (order, error) {
		req := &apiv1.StopJobRequest{Job: job}
		return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_StopJob{StopJob: req}}, call(apiv1connect.ApiServiceClient.StopJob, req)}, nil
	}})
	return addressed(out, "/jobs/"+j.Name)
}

func cancelUpdate() *action {
	return control("cancel", "cancel", "End the update", "The update ends as far as it has come: slots keep the version that they run.")
}

func control(name, word, label, what string) *action {
	return &action{Name: name, Label: label, What: what, order: func(job string, _ url.Values) (order, error) {
		req := &apiv1.ControlUpdateRequest{Job: job, Action: word}
		return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_ControlUpdate{ControlUpdate: req}}, call(apiv1connect.ApiServiceClient.ControlUpdate, req)}, nil
	}}
}

func scale(job string, form url.Values) (order, error) {
	n, err := strconv.ParseInt(form.Get("count"), 10, 64)
	if err != nil {
		return order{}, refused("%q is no number of slots", form.Get("count"))
	}
	req := &apiv1.ScaleJobRequest{Job: job, Count: n}
	return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_ScaleJob{ScaleJob: req}}, call(apiv1connect.ApiServiceClient.ScaleJob, req)}, nil
}

func rollback(job string, form url.Values) (order, error) {
	n, err := strconv.ParseUint(form.Get("to"), 10, 64)
	if err != nil {
		return order{}, refused("%q is no version", form.Get("to"))
	}
	req := &apiv1.RollbackJobRequest{Job: job, To: n}
	return order{&apiv1.PlanCommand{Command: &apiv1.PlanCommand_RollbackJob{RollbackJob: req}}, call(apiv1connect.ApiServiceClient.RollbackJob, req)}, nil
}

// actionNamed returns what a path asks for: an action about a node or a job that can be taken as that is now.
func (d *Dashboard) actionNamed(on, subject, name string) (*action, error) {
	s := d.board.view()
	var all []*action
	switch on {
	case "nodes":
		n := s.NodeNamed(subject)
		if n == nil {
			return nil, notFound("node", subject)
		}
		all = actionsOfNode(n)
	default:
		j := s.Job(subject)
		if j == nil {
			return nil, notFound("job", subject)
		}
		all = actionsOfJob(j)
	}
	for _, a := range all {
		if a.Name == name {
			return a, nil
		}
	}
	return nil, refused("%s cannot be done to %s as it is now", fmt.Sprintf("%q", name), subject)
}
