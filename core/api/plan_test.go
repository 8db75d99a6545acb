package api_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// nobody converses with no plugin.
type nobody struct{ asked []string }

func (n *nobody) Converse(_ context.Context, plugin string, _ uint64, _ func(engine.Input)) (engine.Conversation, error) {
	n.asked = append(n.asked, plugin)
	return nil, errors.New("it is busy")
}

// tries answers with what a real engine would, which has these records, and nodes whose agents report the tasks that are theirs.
func (s *server) tries(conf engine.Config, records ...any) {
	st := engine.Assemble("c1", 9, cluster.Time{Engine: 1}, records...)
	s.engine.set(9, records...)
	real := engine.New(conf, st, cluster.Time{Engine: 1})
	var there []engine.Input
	for n := range st.Nodes() {
		full := engine.AgentReports{Node: n.ID, Session: 1, Full: true, Last: true}
		for t := range st.TasksOn(n.ID) {
			full.Tasks = append(full.Tasks, engine.TaskReport{Task: t.ID, State: t.Observed.State, Healthy: t.Observed.Healthy})
		}
		there = append(there, engine.AgentUp{Node: n.ID, Session: 1, Description: n.Description}, full)
	}
	real.Publish(real.Step(there, cluster.Time{Engine: 1}).Turn)
	s.engine.answer(func(op engine.Op) (any, error) {
		var in []engine.Input
		for _, p := range conf.Plugins {
			in = append(in, engine.PluginUp{Name: p, Session: 1, Filter: true}, engine.PluginApplied{Name: p, Session: 1, Revision: 10})
		}
		out := real.Step(append(in, engine.Command("test", op)), cluster.Time{Engine: 2})
		return out.Replies[0].Result()
	})
}

func TestPlan(t *testing.T) {
	plugins := &nobody{}
	s := serve(t, func(o *api.Options) { o.Aside = plugins })
	s.tries(engine.Config{Plugins: []string{"f"}}, node("a", "n1"), node("b", "n2"))
	spec := cluster.JobSpec{Name: "web", Type: cluster.TypeReplicated, Count: 2, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	run := &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RunJob{RunJob: &apiv1.RunJobRequest{Spec: wire.JobSpecToProto(&spec), HasDefaults: true}}}
	c := s.as(pki.RoleReader)
	res, err := c.Plan(t.Context(), connect.NewRequest(&apiv1.PlanRequest{Commands: []*apiv1.PlanCommand{run}}))
	if err != nil {
		t.Fatal(err)
	}
	m := res.Msg
	// The filter cannot be asked about the new job, so nothing of it is placed.
	if m.GetCounts().GetCreate() != 0 || m.GetCounts().GetStall() != 1 || !m.GetSettled() || m.GetRevision() != 9 || !slices.Equal(plugins.asked, []string{"f"}) {
		t.Errorf("the plan is %v, asked were %v", m, plugins.asked)
	}
	if x := m.GetStalls()[0]; len(m.GetStalls()) != 1 || x.GetTasks() != 2 || x.GetStall().GetCode() != string(cluster.CodePluginUnavailable) || x.GetStall().GetJob() != "web" {
		t.Errorf("it stalls by %v", x)
	}
	if !slices.Contains(m.GetAssumptions(), "plugin f could not be asked (it is busy): what it has not judged yet stays unjudged") {
		t.Errorf("assumptions are %q", m.GetAssumptions())
	}
	for what, req := range map[string]*apiv1.PlanRequest{
		"nothing":     {},
		"no command":  {Commands: []*apiv1.PlanCommand{{}}},
		"a bad count": {Commands: []*apiv1.PlanCommand{{Command: &apiv1.PlanCommand_ScaleJob{ScaleJob: &apiv1.ScaleJobRequest{Job: "web", Count: -1}}}}},
	} {
		if _, err := c.Plan(t.Context(), connect.NewRequest(req)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone := &apiv1.PlanCommand{Command: &apiv1.PlanCommand_RemoveJob{RemoveJob: &apiv1.RemoveJobRequest{Job: "none"}}}
	if _, err := c.Plan(t.Context(), connect.NewRequest(&apiv1.PlanRequest{Commands: []*apiv1.PlanCommand{gone}})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("removing a job that there is not: %v", err)
	}
}

// What is done about an update, or to one task, is tried as everything else is.
func TestPlanOfWhatIsUnderWay(t *testing.T) {
	s := serve(t, nil)
	paused := with(job("web", 1), func(j *cluster.Job) {
		j.Control.Spec = j.Control.Spec.WithDefaults()
		j.Update = cluster.Update{State: cluster.UpdatePaused, From: 1, To: 2, Total: 1}
	})
	old := with(running("web/1/3", "a"), func(t *cluster.Task) { t.JobVersion, t.SpecVersion, t.Placement.Ports = 1, 1, nil })
	s.tries(engine.Config{}, node("a", "n1"), node("b", "n2"), paused, with(slot("web", "1"), func(s *cluster.Slot) { s.Version, s.SpecVersion = 1, 1 }), old)
	control := func(action string) *apiv1.PlanCommand {
		return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_ControlUpdate{ControlUpdate: &apiv1.ControlUpdateRequest{Job: "web", Action: action}}}
	}
	stop := func(task string) *apiv1.PlanCommand {
		return &apiv1.PlanCommand{Command: &apiv1.PlanCommand_StopTask{StopTask: &apiv1.StopTaskRequest{Task: task}}}
	}
	for what, test := range map[string]struct {
		command *apiv1.PlanCommand
		change  engine.SlotChange // of slot 1; "": none
		code    connect.Code
	}{
		"resume":              {command: control("resume"), change: engine.SlotReplaced},
		"cancel":              {command: control("cancel")},
		"an unknown word":     {command: control("forget"), code: connect.CodeInvalidArgument},
		"a task":              {command: stop("web/1"), change: engine.SlotReplaced},
		"a task there is not": {command: stop("web/9"), code: connect.CodeNotFound},
	} {
		t.Run(what, func(t *testing.T) {
			res, err := s.as(pki.RoleReader).Plan(t.Context(), connect.NewRequest(&apiv1.PlanRequest{Commands: []*apiv1.PlanCommand{test.command}}))
			if test.code != 0 {
				if connect.CodeOf(err) != test.code {
					t.Errorf("got %v, want %v", err, test.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got engine.SlotChange
			for _, x := range res.Msg.GetSlots() {
				got = engine.SlotChange(x.GetChange())
			}
			if got != test.change {
				t.Errorf("slot 1 would be %q, want %q; the plan is %v", got, test.change, res.Msg)
			}
		})
	}
}
