package api_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func webSpec() *setpointv1.JobSpec {
	return &setpointv1.JobSpec{Name: "web", Task: &setpointv1.TaskSpec{Command: []string{"/srv/web"}}}
}

func TestRunJobFillsInDefaults(t *testing.T) {
	s := serve(t, nil)
	var got engine.RunJob
	s.engine.answer(func(op engine.Op) (any, error) {
		got = op.(engine.RunJob)
		return engine.JobResult{Job: job("web", got.Spec.Count), Changed: true}, nil
	})
	c := s.as(pki.RoleOperator)
	res, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: webSpec(), IfVersion: 7, Reason: "because"}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.Count != 1 || got.Spec.Type != cluster.TypeReplicated || got.IfVersion != 7 || got.Reason != "because" {
		t.Errorf("the engine was asked %+v", got)
	}
	if !res.Msg.GetChanged() || res.Msg.GetJob().GetName() != "web" || res.Msg.GetJob().GetVersion() != 2 {
		t.Errorf("the answer is %v", res.Msg)
	}

	// A specification that has its defaults keeps its zeros.
	whole := webSpec()
	dry, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: whole, DryRun: true}))
	if err != nil {
		t.Fatal(err)
	}
	got = engine.RunJob{}
	none := dry.Msg.GetJob().GetSpec()
	none.Count = 0
	if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: none, HasDefaults: true})); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Name != "web" || got.Spec.Count != 0 {
		t.Errorf("the engine was asked for %d slots of %q, want 0 of web", got.Spec.Count, got.Spec.Name)
	}
}

func TestRunJobTellsAllProblemsAtOnce(t *testing.T) {
	s := serve(t, nil)
	s.engine.answer(func(op engine.Op) (any, error) {
		t.Errorf("the engine was asked %T", op)
		return nil, nil
	})
	s.plugins.list = []api.Plugin{{Name: "constraint", State: "running", Interfaces: []string{"filter"}}}
	s.plugins.problems = []cluster.Problem{{Path: `plugin["constraint"].constraints[0]`, Summary: "Unknown attribute", Detail: "There is no node.lables."}}
	spec := webSpec()
	spec.Type, spec.Priority = "globl", 101
	_, err := s.as(pki.RoleOperator).RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec, DryRun: true}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Fatalf("got %v, want code %v", err, connect.CodeInvalidArgument)
	}
	d := client.Detail(err)
	var paths []string
	for _, p := range d.GetProblems() {
		paths = append(paths, p.GetPath())
	}
	if d.GetCode() != "invalid" || len(paths) != 3 || paths[0] != "priority" || paths[1] != "type" || paths[2] != `plugin["constraint"].constraints[0]` {
		t.Errorf("the refusal says %v", d)
	}
	if detail := d.GetProblems()[1].GetDetail(); detail != `Did you mean "global"? Use "batch", "global", "global-batch" or "replicated".` {
		t.Errorf("the unknown type is explained by %q", detail)
	}
}

// A plugin that has not described itself may serve the type.
func TestUnknownTypeIsTakenWhileAPluginStarts(t *testing.T) {
	s := serve(t, nil)
	s.engine.answer(func(op engine.Op) (any, error) { return engine.JobResult{Job: job("web", 1)}, nil })
	s.plugins.list = []api.Plugin{{Name: "rack", State: "starting"}}
	spec := webSpec()
	spec.Type = "per-rack"
	c := s.as(pki.RoleOperator)
	if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec})); err != nil {
		t.Errorf("while a plugin starts: %v", err)
	}
	s.plugins.list = []api.Plugin{{Name: "rack", State: "running", Interfaces: []string{"job_type"}, JobTypes: []string{"per-rack"}}}
	if _, err := c.RunJob(t.Context(), connect.NewRequest(&apiv1.RunJobRequest{Spec: spec})); err != nil {
		t.Errorf("with the plugin: %v", err)
	}
}

func TestJobCommands(t *testing.T) {
	s := serve(t, nil)
	var got engine.Op
	s.engine.answer(func(op engine.Op) (any, error) {
		got = op
		return engine.JobResult{Job: job("web", 1)}, nil
	})
	c, ctx := s.as(pki.RoleOperator), t.Context()
	for _, test := range []struct {
		call func() error
		want engine.Op
	}{
		{func() error {
			_, err := c.StopJob(ctx, connect.NewRequest(&apiv1.StopJobRequest{Job: "web"}))
			return err
		}, engine.StopJob{Job: "web", Grace: -1}},
		{func() error {
			_, err := c.StopJob(ctx, connect.NewRequest(&apiv1.StopJobRequest{Job: "web", Grace: durationpb.New(0)}))
			return err
		}, engine.StopJob{Job: "web"}},
		{func() error {
			_, err := c.StartJob(ctx, connect.NewRequest(&apiv1.StartJobRequest{Job: "web"}))
			return err
		}, engine.StartJob{Job: "web"}},
		{func() error {
			_, err := c.RestartJob(ctx, connect.NewRequest(&apiv1.RestartJobRequest{Job: "web"}))
			return err
		}, engine.RestartJob{Job: "web"}},
		{func() error {
			_, err := c.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 5}))
			return err
		}, engine.ScaleJob{Job: "web", Count: 5}},
		{func() error {
			_, err := c.RollbackJob(ctx, connect.NewRequest(&apiv1.RollbackJobRequest{Job: "web", To: 1}))
			return err
		}, engine.RollbackJob{Job: "web", To: 1}},
		{func() error {
			_, err := c.RebalanceJob(ctx, connect.NewRequest(&apiv1.RebalanceJobRequest{Job: "web"}))
			return err
		}, engine.RebalanceJob{Job: "web"}},
		{func() error {
			_, err := c.RemoveJob(ctx, connect.NewRequest(&apiv1.RemoveJobRequest{Job: "web"}))
			return err
		}, engine.RemoveJob{Job: "web"}},
		{func() error {
			_, err := c.ControlUpdate(ctx, connect.NewRequest(&apiv1.ControlUpdateRequest{Job: "web", Action: "pause"}))
			return err
		}, engine.ControlUpdate{Job: "web", Action: engine.PauseUpdate}},
	} {
		got = nil
		if err := test.call(); err != nil || got != test.want {
			t.Errorf("the engine was asked %+v, %v; want %+v", got, err, test.want)
		}
	}
	got = nil
	_, scale := c.ScaleJob(ctx, connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: -1}))
	_, stop := c.StopJob(ctx, connect.NewRequest(&apiv1.StopJobRequest{Job: "web", Grace: durationpb.New(-time.Second)}))
	_, control := c.ControlUpdate(ctx, connect.NewRequest(&apiv1.ControlUpdateRequest{Job: "web", Action: "hurry"}))
	for _, err := range []error{scale, stop, control} {
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(client.Detail(err).GetProblems()) != 1 || got != nil {
			t.Errorf("a wrong request got %v and asked the engine %v", err, got)
		}
	}
}

func TestRefusalsKeepTheirKind(t *testing.T) {
	s := serve(t, nil)
	c := s.as(pki.RoleOperator)
	for kind, code := range map[engine.Kind]connect.Code{
		engine.NotFound: connect.CodeNotFound, engine.Conflict: connect.CodeAborted, engine.Invalid: connect.CodeInvalidArgument,
		engine.Refused: connect.CodeFailedPrecondition,
	} {
		s.engine.answer(func(engine.Op) (any, error) { return nil, &engine.OpError{Kind: kind, Message: "no", Hint: "do this"} })
		_, err := c.StartJob(t.Context(), connect.NewRequest(&apiv1.StartJobRequest{Job: "web"}))
		d := client.Detail(err)
		if connect.CodeOf(err) != code || d.GetCode() != string(kind) || d.GetHint() != "do this" {
			t.Errorf("%s gave %v with %v, want code %v", kind, err, d, code)
		}
	}
}

func TestJobIsCounted(t *testing.T) {
	s := serve(t, nil)
	stale := with(running("web/2/3", "a"), func(t *cluster.Task) { t.SpecVersion, t.JobVersion = 1, 1 })
	leaving := with(running("web/4/3", "a"), func(t *cluster.Task) { t.Desired.State, t.Desired.Since = cluster.DesiredShutdown, at(8*time.Second) })
	lost := with(leaving, func(t *cluster.Task) { t.ID, t.Slot, t.Placement.Node = "web/1/2", "1", "b" })
	down := with(node("b", "n2"), func(n *cluster.Node) { n.Status.State = cluster.NodeDown })
	s.engine.set(9, node("a", "n1"), down, job("web", 3), slot("web", "1"), slot("web", "2"), slot("web", "3"),
		with(slot("web", "4"), func(s *cluster.Slot) { s.Unwanted = true }),
		running("web/1/3", "a"), stale, task("web/3/3"), leaving, lost, groupStall("web"),
	)
	res, err := s.as(pki.RoleReader).GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "web"}))
	if err != nil {
		t.Fatal(err)
	}
	j := res.Msg.GetJob()
	want := &apiv1.JobCounts{Wanted: 3, Up: 2, Stale: 1, Running: 3, Stopping: 2, StoppingLost: 1, Stalled: 1}
	if !proto.Equal(j.GetCounts(), want) {
		t.Errorf("counts are %v, want %v", j.GetCounts(), want)
	}
	if j.GetState() != "stalled" || len(j.GetSlots()) != 4 || len(j.GetVersions()) != 2 || len(j.GetStalls()) != 1 {
		t.Errorf("the job is %s with %d slots, %d versions, %d stalls", j.GetState(), len(j.GetSlots()), len(j.GetVersions()), len(j.GetStalls()))
	}
	if got := j.GetSlots()[2]; got.GetKey() != "3" || got.GetTask() != "web/3/3" || got.GetUp() {
		t.Errorf("slot 3 is %v", got)
	}
}

func TestSlotsInTurnAreCounted(t *testing.T) {
	s := serve(t, nil)
	batch := with(job("web", 4), func(j *cluster.Job) { j.Control.Spec.Type, j.Control.Spec.Parallelism = cluster.TypeBatch, 1 })
	done := with(slot("web", "1"), func(s *cluster.Slot) { s.Done = true })
	turns := &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectJob, ID: "web"}, Source: "core", Code: cluster.CodeWaitingForTurn}
	for want, more := range map[string][]any{
		"running":  {running("web/2/3", "a"), turns},
		"starting": {with(running("web/2/3", "a"), func(t *cluster.Task) { t.Observed.State = cluster.Starting }), turns},
		"stalled":  {task("web/2/3"), groupStall("web"), turns},
	} {
		s.engine.set(9, append(more, node("a", "n1"), batch, done, slot("web", "2"), slot("web", "3"), slot("web", "4"))...)
		res, err := s.as(pki.RoleReader).GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "web"}))
		if err != nil {
			t.Fatal(err)
		}
		if c := res.Msg.GetJob().GetCounts(); c.GetWanted() != 4 || c.GetDone() != 1 || c.GetQueued() != 2 || res.Msg.GetJob().GetState() != want {
			t.Errorf("the job is %s with %v, want it %s with 2 of 4 slots queued", res.Msg.GetJob().GetState(), c, want)
		}
	}
}

func TestSlotsOfAGlobalJob(t *testing.T) {
	s := serve(t, nil)
	global := with(job("mon", 0), func(j *cluster.Job) { j.Control.Spec.Type = cluster.TypeGlobal })
	pinned := func(id string) *cluster.Slot {
		return with(slot("mon", id), func(s *cluster.Slot) { s.Nodes = []cluster.NodeID{cluster.NodeID(id)} })
	}
	s.engine.set(9, node("a", "n1"), node("b", "n2"), node("c", "n3"), node("d", "n4"), global, pinned("a"), pinned("b"), pinned("c"),
		running("mon/a/3", "a"), &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "mon/c"}, Source: "core", Code: cluster.CodeNodePaused, Message: "node n3 is paused",
		})
	res, err := s.as(pki.RoleReader).GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: "mon"}))
	if err != nil {
		t.Fatal(err)
	}
	// The slot of n2 has neither task nor stall: filters refuse its node.
	want := &apiv1.JobCounts{Wanted: 2, Up: 1, Running: 1, Held: 1, Stalled: 1, Limited: true, Eligible: 2, EligibleOf: 4}
	if got := res.Msg.GetJob(); !proto.Equal(got.GetCounts(), want) || got.GetState() != "stalled" || got.GetSlots()[2].GetHeld() != "node n3 is paused" {
		t.Errorf("the job is %s, counts are %v, want %v", got.GetState(), got.GetCounts(), want)
	}
}

func TestWordForAJob(t *testing.T) {
	done := func(state cluster.ObservedState) []any {
		ended := with(running("web/1/3", "a"), func(t *cluster.Task) { t.Observed.State = state })
		return []any{job("web", 1), with(slot("web", "1"), func(s *cluster.Slot) { s.Done, s.Failed = true, state == cluster.Failed }), ended}
	}
	stopped := with(job("web", 1), func(j *cluster.Job) { j.Control.Stopped = true })
	updating := func(state cluster.UpdateState) *cluster.Job {
		return with(job("web", 1), func(j *cluster.Job) { j.Update = cluster.Update{State: state, From: 1, To: 2, Total: 1} })
	}
	for want, records := range map[string][]any{
		"running":  {job("web", 1), slot("web", "1"), running("web/1/3", "a")},
		"starting": {job("web", 1), slot("web", "1"), with(running("web/1/3", "a"), func(t *cluster.Task) { t.Observed.State = cluster.Starting })},
		"stalled":  {job("web", 1), slot("web", "1"), task("web/1/3"), groupStall("web")},
		"updating": {updating(cluster.Updating), slot("web", "1"), running("web/1/3", "a")},
		"paused":   {updating(cluster.UpdatePaused), slot("web", "1"), running("web/1/3", "a")},
		"complete": done(cluster.Complete),
		"failed":   done(cluster.Failed),
		"stopping": {stopped, slot("web", "1"), with(running("web/1/3", "a"), func(t *cluster.Task) { t.Desired.State, t.Desired.Since = cluster.DesiredShutdown, at(8*time.Second) })},
		"stopped":  {stopped, slot("web", "1")},
		"empty":    {job("web", 0)},
	} {
		t.Run(want, func(t *testing.T) {
			s := serve(t, nil)
			s.engine.set(9, append(records, node("a", "n1"))...)
			res, err := s.as(pki.RoleReader).ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Msg.GetJobs()[0].GetState(); got != want {
				t.Errorf("the job is %q, want %q", got, want)
			}
		})
	}
}
