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

func TestPlan(t *testing.T) {
	plugins := &nobody{}
	s := serve(t, func(o *api.Options) { o.Aside = plugins })
	st := engine.Assemble("c1", 9, cluster.Time{Engine: 1}, node("a", "n1"), node("b", "n2"))
	real := engine.New(engine.Config{Plugins: []string{"f"}}, st, cluster.Time{Engine: 1})
	var there []engine.Input
	for _, id := range []cluster.NodeID{"a", "b"} {
		there = append(there, engine.AgentUp{Node: id, Session: 1, Description: st.Node(id).Description}, engine.AgentReports{Node: id, Session: 1, Full: true, Last: true})
	}
	real.Publish(real.Step(there, cluster.Time{Engine: 1}).Turn)
	s.engine.answer(func(op engine.Op) (any, error) {
		in := []engine.Input{engine.PluginUp{Name: "f", Session: 1, Filter: true}, engine.PluginApplied{Name: "f", Session: 1, Revision: 10}, engine.Command("test", op)}
		out := real.Step(in, cluster.Time{Engine: 2})
		return out.Replies[0].Result()
	})
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
