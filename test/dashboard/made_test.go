package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/dashboard"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// made is a dashboard in front of a state that is made up.
type made struct {
	t      *testing.T
	d      *dashboard.Dashboard
	events *api.Events
	url    string

	mu    sync.Mutex // guards what follows
	state *engine.State
	uses  engine.InspectResult // of state, as an engine has it at hand
}

// serve serves one with the given records.
func serve(t *testing.T, records []any) *made {
	t.Helper()
	m := &made{t: t, events: api.NewEvents(1)}
	m.set(2, records)
	a, err := api.New(api.Options{Engine: m, Plugins: parts{}, Logs: parts{}, Tokens: parts{}, Signer: parts{}, Events: m.events, Log: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	m.d, err = dashboard.New(dashboard.Options{
		View: m.View, Name: "setpoint-1", Log: hclog.NewNullLogger(),
		Inspect: func(context.Context) (engine.InspectResult, error) { return m.inspect(), nil },
		Why:     func(_ context.Context, task cluster.TaskID) (engine.WhyResult, error) { return m.why(task), nil },
		Client:  func(who pki.Credential) apiv1connect.ApiServiceClient { return a.ClientFor(who) },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(m.d.Handler())
	m.url = server.URL
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.events.Run(ctx) })
	running.Go(func() { _ = m.d.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		server.Close()
	})
	return m
}

// link returns one that lets somebody in.
func (m *made) link(role pki.Role) string {
	m.t.Helper()
	link, _, err := m.d.Invite(pki.Credential{Identity: pki.Identity{ClusterID: "c1", Role: role, Name: "ann@ops"}, Expires: time.Now().Add(pki.Validity)})
	if err != nil {
		m.t.Fatal(err)
	}
	return m.url + link
}

// set replaces the state.
func (m *made) set(revision cluster.Revision, records []any) {
	state := engine.Assemble("c1", revision, ago(0), records...)
	uses := usesOf(state)
	m.mu.Lock()
	m.state, m.uses = state, uses
	m.mu.Unlock()
	m.events.Committed(engine.Turn{State: state})
	if m.d != nil {
		m.d.Committed(engine.Turn{State: state})
	}
}

func (m *made) View() *engine.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Do answers what pages ask.
func (m *made) Do(_ context.Context, _ string, op engine.Op) (any, error) {
	switch op := op.(type) {
	case engine.Inspect:
		return m.inspect(), nil
	case engine.Why:
		return m.why(op.Task), nil
	}
	return nil, errors.ErrUnsupported
}

func (m *made) inspect() engine.InspectResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uses
}

func usesOf(s *engine.State) engine.InspectResult {
	out := engine.InspectResult{State: s}
	for n := range s.Nodes() {
		use := engine.NodeUse{Node: n.ID}
		for t := range s.TasksOn(n.ID) {
			use.Tasks++
			use.Reserved = use.Reserved.Add(t.Reserve.Resources)
		}
		use.Free = n.Description.Capacity.Sub(use.Reserved)
		out.Nodes = append(out.Nodes, use)
	}
	return out
}

// why says of each node the one reason that its state or its labels give, as placement would say it.
func (m *made) why(task cluster.TaskID) engine.WhyResult {
	s := m.View()
	out := engine.WhyResult{Task: s.Task(task), Nearest: "n12", Clears: "2 cpu are freed on n12, or a node with gpu=a100 joins"}
	counts := map[string]int{}
	for n := range s.Nodes() {
		w := engine.WhyNode{Node: n.ID, Name: n.Spec.Name}
		say := func(source string, code cluster.Code, detail string) {
			w.Reasons = append(w.Reasons, engine.WhyReason{Source: source, Code: code, Detail: detail})
		}
		if n.Status.State != cluster.NodeReady {
			say("core", cluster.CodeNodeDown, "is "+string(n.Status.State))
		}
		if n.Spec.Availability == cluster.Drain {
			say("core", cluster.CodeNodeDraining, "is draining")
		}
		if n.Spec.Labels["gpu"] != "a100" {
			say("constraint", cluster.CodeConstraint, "fails node.labels.gpu == a100")
		} else {
			say("core", cluster.CodeInsufficientResources, fmt.Sprintf("lacks cpu (want 8, free %d)", 1+len(n.Spec.Name)%4))
		}
		counts[w.Reasons[0].Detail]++
		out.Nodes = append(out.Nodes, w)
	}
	out.Sentence = fmt.Sprintf("no node can run it (%d nodes: %d fail node.labels.gpu == a100, the rest lack cpu, want 8). Nearest: n12.", len(out.Nodes), counts["fails node.labels.gpu == a100"])
	return out
}

// parts stands for what these pages do without.
type parts struct{}

func (parts) Plugins() []api.Plugin {
	since := time.Now().Add(-3 * time.Hour)
	return []api.Plugin{
		{Name: "constraint", Version: "1.0.0", State: "running", Interfaces: []string{"filter"}, Since: since},
		{Name: "drain", Version: "1.0.0", State: "running", Interfaces: []string{"drainer"}, Since: since},
		{Name: "global", Version: "1.0.0", State: "running", Interfaces: []string{"job_type"}, JobTypes: []string{"global", "global-batch"}, Since: since},
	}
}
func (parts) CheckJob(context.Context, cluster.JobSpec) []cluster.Problem { return nil }
func (parts) Trial(context.Context, string, []engine.Class, []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	return nil, nil
}

func (parts) OpenLogs(context.Context, cluster.NodeID, *agentv1.LogRequest) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

func (parts) Create(context.Context, pki.Role, string, time.Duration) (t pki.Token, s pki.StoredToken, err error) {
	return t, s, errors.ErrUnsupported
}
func (parts) List(context.Context) ([]pki.StoredToken, error) { return nil, nil }
func (parts) Revoke(context.Context, pki.TokenHash) error     { return errors.ErrUnsupported }
func (parts) Find(context.Context, pki.Token) (pki.StoredToken, error) {
	return pki.StoredToken{}, errors.ErrUnsupported
}

func (parts) Sign(time.Time, pki.Identity, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }
