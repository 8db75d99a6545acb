package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

const listJobs = "job ls lists those that there are"

// RunJob creates a job or makes a new version of it.
func (v *service) RunJob(ctx context.Context, req *connect.Request[apiv1.RunJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	m := req.Msg
	v.pinning.RLock()
	defer v.pinning.RUnlock()
	spec, err := v.checked(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.GetDryRun() {
		return connect.NewResponse(&apiv1.JobResponse{Job: &apiv1.Job{Name: spec.Name, Type: spec.Type, Spec: wire.JobSpecToProto(&spec)}}), nil
	}
	return v.job(ctx, engine.RunJob{Spec: spec, IfVersion: m.GetIfVersion(), Reason: m.GetReason()})
}

// checked returns the job of a request with defaults, or everything that is wrong with it.
func (v *service) checked(ctx context.Context, m *apiv1.RunJobRequest) (cluster.JobSpec, error) {
	if m.GetSpec() == nil {
		return cluster.JobSpec{}, invalid("the request", cluster.Problem{Path: "spec", Summary: "Missing job"})
	}
	spec, err := wire.JobSpecFromProto(m.GetSpec())
	if err != nil {
		return cluster.JobSpec{}, invalid("the job", cluster.Problem{Path: "spec", Summary: err.Error()})
	}
	if !m.GetHasDefaults() {
		spec = spec.WithDefaults()
	}
	problems := slices.Concat(spec.Validate(), v.pin(&spec), unknownType(&spec, v.opts.Plugins.Plugins()), v.opts.Plugins.CheckJob(ctx, spec))
	return spec, invalid("job "+spec.Name, problems...)
}

// unknownType says that nobody serves the job's type. While a plugin has not described itself, it may be the one: then the job waits, and a
// stall says so.
func unknownType(spec *cluster.JobSpec, plugins []Plugin) []cluster.Problem {
	known := []string{cluster.TypeReplicated, cluster.TypeBatch, cluster.TypeGlobal, cluster.TypeGlobalBatch}
	for _, p := range plugins {
		if len(p.Interfaces) == 0 {
			return nil
		}
		known = append(known, p.JobTypes...)
	}
	if slices.Contains(known, spec.Type) {
		return nil
	}
	slices.Sort(known)
	known = slices.Compact(known)
	detail := "Use " + cluster.Choice(known) + "."
	if near := cluster.Suggest(spec.Type, known); near != "" {
		detail = fmt.Sprintf("Did you mean %q? %s", near, detail)
	}
	return []cluster.Problem{{Path: "type", Summary: fmt.Sprintf("No plugin serves the job type %q", spec.Type), Detail: detail}}
}

// job runs a command about a job.
func (v *service) job(ctx context.Context, op engine.Op) (*connect.Response[apiv1.JobResponse], error) {
	r, err := do[engine.JobResult](ctx, v.opts.Engine, op)
	if err != nil {
		return nil, err
	}
	state, job := v.view(), r.Job
	if newest := state.Job(job.Name); newest != nil {
		job = newest
	}
	return connect.NewResponse(&apiv1.JobResponse{
		Job: jobView(state, job, slotStallsOf(state, job.Name), state.Rest(), false), Changed: r.Changed, Version: r.Job.Control.Version,
	}), nil
}

// GetJob returns one job, with all its slots or a page of them.
func (v *service) GetJob(_ context.Context, req *connect.Request[apiv1.GetJobRequest]) (*connect.Response[apiv1.GetJobResponse], error) {
	p, paged, err := optionalPage("slots_", req.Msg.GetSlotsPageSize(), req.Msg.GetSlotsPageToken())
	if err != nil {
		return nil, err
	}
	state := v.view()
	j := state.Job(req.Msg.GetJob())
	if j == nil {
		return nil, notFound("job", req.Msg.GetJob(), listJobs)
	}
	out := &apiv1.GetJobResponse{Job: jobView(state, j, slotStallsOf(state, j.Name), nil, true)}
	if paged {
		var rows []row[*apiv1.Slot]
		for _, s := range out.GetJob().GetSlots() {
			rows = append(rows, row[*apiv1.Slot]{slotOrder(s.GetKey()), s})
		}
		out.Job.Slots, out.NextSlotsPageToken = cut(p, rows)
	}
	return connect.NewResponse(out), nil
}

// ListJobs returns a page of jobs.
func (v *service) ListJobs(_ context.Context, req *connect.Request[apiv1.ListJobsRequest]) (*connect.Response[apiv1.ListJobsResponse], error) {
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	state := v.view()
	var rows []row[*cluster.Job]
	for j := range state.Jobs() {
		rows = append(rows, row[*cluster.Job]{j.Name, j})
	}
	jobs, next := cut(p, rows)
	out := &apiv1.ListJobsResponse{NextPageToken: next, Revision: uint64(state.Revision)}
	stalls, rest := slotStallsOf(state, ""), state.Rest()
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, jobView(state, j, stalls, rest, false))
	}
	return connect.NewResponse(out), nil
}

// StopJob makes every slot of a job unwanted.
func (v *service) StopJob(ctx context.Context, req *connect.Request[apiv1.StopJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	op, err := stopOp(req.Msg)
	if err != nil {
		return nil, err
	}
	return v.job(ctx, op)
}

func stopOp(m *apiv1.StopJobRequest) (engine.StopJob, error) {
	op := engine.StopJob{Job: m.GetJob(), Grace: -1, IfVersion: m.GetIfVersion()}
	if g := m.GetGrace(); g != nil {
		if op.Grace = g.AsDuration(); op.Grace < 0 {
			return op, invalid("the request", cluster.Problem{Path: "grace", Summary: "Negative duration"})
		}
	}
	return op, nil
}

// StartJob takes back StopJob.
func (v *service) StartJob(ctx context.Context, req *connect.Request[apiv1.StartJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	return v.job(ctx, engine.StartJob{Job: req.Msg.GetJob(), IfVersion: req.Msg.GetIfVersion()})
}

// RestartJob replaces every task of a job.
func (v *service) RestartJob(ctx context.Context, req *connect.Request[apiv1.RestartJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	return v.job(ctx, engine.RestartJob{Job: req.Msg.GetJob(), IfVersion: req.Msg.GetIfVersion()})
}

// ScaleJob changes how many slots a job has.
func (v *service) ScaleJob(ctx context.Context, req *connect.Request[apiv1.ScaleJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	op, err := scaleOp(req.Msg)
	if err != nil {
		return nil, err
	}
	return v.job(ctx, op)
}

func scaleOp(m *apiv1.ScaleJobRequest) (engine.ScaleJob, error) {
	n := m.GetCount()
	if n < 0 || n > cluster.MaxCount {
		return engine.ScaleJob{}, invalid("the request", cluster.Problem{
			Path: "count", Summary: "Number out of range", Detail: fmt.Sprintf("It is %d; it must be between 0 and %d.", n, cluster.MaxCount),
		})
	}
	return engine.ScaleJob{Job: m.GetJob(), Count: int(n), IfVersion: m.GetIfVersion()}, nil
}

// RollbackJob makes a new version with the content of an earlier one.
func (v *service) RollbackJob(ctx context.Context, req *connect.Request[apiv1.RollbackJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	v.pinning.RLock()
	defer v.pinning.RUnlock()
	op, err := v.rollbackOp(req.Msg)
	if err != nil {
		return nil, err
	}
	return v.job(ctx, op)
}

// RebalanceJob moves a job's tasks to where they would be placed now.
func (v *service) RebalanceJob(ctx context.Context, req *connect.Request[apiv1.RebalanceJobRequest]) (*connect.Response[apiv1.JobResponse], error) {
	return v.job(ctx, engine.RebalanceJob{Job: req.Msg.GetJob(), IfVersion: req.Msg.GetIfVersion()})
}

// RemoveJob forgets a job.
func (v *service) RemoveJob(ctx context.Context, req *connect.Request[apiv1.RemoveJobRequest]) (*connect.Response[apiv1.RemoveJobResponse], error) {
	if _, err := v.opts.Engine.Do(ctx, author(ctx), engine.RemoveJob{Job: req.Msg.GetJob(), IfVersion: req.Msg.GetIfVersion()}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apiv1.RemoveJobResponse{}), nil
}

// ControlUpdate pauses, resumes or cancels a job's update.
func (v *service) ControlUpdate(ctx context.Context, req *connect.Request[apiv1.ControlUpdateRequest]) (*connect.Response[apiv1.JobResponse], error) {
	op, err := controlOp(req.Msg)
	if err != nil {
		return nil, err
	}
	return v.job(ctx, op)
}

func controlOp(m *apiv1.ControlUpdateRequest) (engine.ControlUpdate, error) {
	action := engine.UpdateAction(m.GetAction())
	if !slices.Contains([]engine.UpdateAction{engine.PauseUpdate, engine.ResumeUpdate, engine.CancelUpdate}, action) {
		return engine.ControlUpdate{}, invalid("the request", unknownWord("action", string(action), string(engine.PauseUpdate), string(engine.ResumeUpdate), string(engine.CancelUpdate)))
	}
	return engine.ControlUpdate{Job: m.GetJob(), Action: action, IfVersion: m.GetIfVersion()}, nil
}

func unknownWord(path, given string, known ...string) cluster.Problem {
	return cluster.Problem{Path: path, Summary: fmt.Sprintf("Unknown word %q", given), Detail: "Use " + cluster.Choice(known) + "."}
}

// positive returns a duration that is 0 or more, 0 if it is absent.
func positive(path string, d interface{ AsDuration() time.Duration }) (time.Duration, error) {
	if n := d.AsDuration(); n >= 0 {
		return n, nil
	}
	return 0, invalid("the request", cluster.Problem{Path: path, Summary: "Negative duration"})
}
