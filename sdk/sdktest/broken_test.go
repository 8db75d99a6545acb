package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// needs is a filter that wants a label on nodes; compile, if set, replaces how it compiles.
type needs struct {
	compile func(ctx context.Context, label string) (sdk.Matcher, error)
}

type needsSettings struct {
	Label string `setpoint:"label,required"`
	Key   string `setpoint:"key,sensitive"`
}

func (f needs) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	if req.Settings == "" {
		return nil, nil
	}
	var s needsSettings
	if err := req.Settings.Decode(&s); err != nil {
		return nil, err
	}
	if f.compile != nil {
		return f.compile(ctx, s.Label)
	}
	return match(func(n *cluster.Node) error { return hasLabel(n, s.Label) }), nil
}

func hasLabel(n *cluster.Node, label string) error {
	if _, ok := n.Spec.Labels[label]; !ok {
		return &sdk.Stall{Code: "no_label", Detail: label}
	}
	return nil
}

type match func(n *cluster.Node) error

func (m match) Match(n *cluster.Node) error { return m(n) }

func filter(f sdk.Filter) sdk.Plugin {
	return sdk.Plugin{Name: "broken", Version: "1.0.0", Filter: f, Job: sdk.SchemaOf[needsSettings](), Watches: []sdk.Watch{sdk.WatchLabels}}
}

func matching(m func(n *cluster.Node, label string) error) sdk.Plugin {
	return filter(needs{compile: func(_ context.Context, label string) (sdk.Matcher, error) {
		return match(func(n *cluster.Node) error { return m(n, label) }), nil
	}})
}

// drainer is a function that drains.
type drainer func(req sdk.DrainRequest) sdk.DrainResponse

func (d drainer) Drain(_ context.Context, req sdk.DrainRequest) (sdk.DrainResponse, error) {
	return d(req), nil
}

func draining(d drainer) sdk.Plugin { return sdk.Plugin{Name: "broken", Version: "1.0.0", Drainer: d} }

// slots is a function that says which slots there are.
type slots func(req sdk.SlotsRequest) (sdk.SlotsResponse, error)

func (s slots) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	return s(req)
}

// adding is a filter that adds to its configuration where it should replace it.
type adding struct {
	mu     sync.Mutex
	labels []string
}

type addingConfig struct {
	Label string `setpoint:"label,required"`
}

func (a *adding) Configure(_ context.Context, req sdk.ConfigureRequest) error {
	var c addingConfig
	if err := req.Config.Decode(&c); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.labels = append(a.labels, c.Label)
	return nil
}

func (a *adding) Compile(context.Context, sdk.CompileRequest) (sdk.Matcher, error) {
	a.mu.Lock()
	detail := strings.Join(a.labels, " ")
	a.mu.Unlock()
	return match(func(*cluster.Node) error { return &sdk.Stall{Code: "no_label", Detail: detail} }), nil
}

// lasting is a filter whose session runner does not end with its session.
type lasting struct {
	needs
	until <-chan struct{}
}

func (l *lasting) RunSession(context.Context, sdk.Session) error {
	<-l.until
	return nil
}

// altered is a plugin of the SDK's whose messages are changed on their way.
type altered struct {
	pluginv1.PluginServer
	describe func(*pluginv1.DescribeResponse)
	sessions int
	say      func(session int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin
}

func (a *altered) Describe(ctx context.Context, req *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	resp, err := a.PluginServer.Describe(ctx, req)
	if err == nil && a.describe != nil {
		a.describe(resp)
	}
	return resp, err
}

func (a *altered) Session(st pluginv1.Plugin_SessionServer) error {
	a.sessions++
	return a.PluginServer.Session(&alteredStream{Plugin_SessionServer: st, number: a.sessions, say: a.say})
}

type alteredStream struct {
	pluginv1.Plugin_SessionServer
	number int
	say    func(int, *pluginv1.FromPlugin) *pluginv1.FromPlugin
}

func (s *alteredStream) Send(m *pluginv1.FromPlugin) error {
	if s.say != nil {
		m = s.say(s.number, proto.CloneOf(m))
	}
	return s.Plugin_SessionServer.Send(m)
}

func altering(t *testing.T, a altered) sdktest.Target {
	t.Helper()
	return sdktest.Server(func() pluginv1.PluginServer {
		server, err := sdk.NewServer(filter(needs{}), hclog.NewNullLogger(), nil)
		if err != nil {
			t.Fatal(err)
		}
		made := a
		made.PluginServer = server
		return &made
	})
}

// renamed gives each refusal of the classes that it is for another detail.
func renamed(m *pluginv1.FromPlugin, of func(class uint32) bool) *pluginv1.FromPlugin {
	for _, c := range slices.Concat(m.GetVerdicts().GetClasses(), m.GetAnswer().GetTrial().GetClasses()) {
		class := c.Class
		if m.GetAnswer() != nil {
			class++ // trials number from 0
		}
		for _, r := range slices.Concat(c.GetFull().GetRejections(), c.GetFlips().GetRejections()) {
			if of(class) {
				r.Detail += " altered"
			}
		}
	}
	return m
}

func cases() sdktest.Cases {
	c := sdktest.Cases{Rounds: 8, Deadline: 500 * time.Millisecond}
	for _, label := range []string{"disk", "zone", "gpu"} {
		c.Classes = append(c.Classes, sdk.CompileRequest{Settings: sdk.Settings(fmt.Sprintf(`{"label":%q}`, label))})
	}
	return c
}

// brokenPlugin breaks exactly one rule.
type brokenPlugin struct {
	rule   sdktest.Rule
	name   string
	target func(t *testing.T) sdktest.Target
	cases  func(*sdktest.Cases)
	says   string // part of the violation
}

func goPlugin(p func() sdk.Plugin) func(*testing.T) sdktest.Target {
	return func(*testing.T) sdktest.Target { return sdktest.Go(p) }
}

func brokenPlugins() []brokenPlugin {
	var random atomic.Uint64
	return []brokenPlugin{
		{rule: sdktest.RuleDescribe, name: "counts its descriptions in its version", says: "Describe a second time", target: func(t *testing.T) sdktest.Target {
			var n atomic.Uint64
			return altering(t, altered{describe: func(d *pluginv1.DescribeResponse) { d.Version += fmt.Sprint(".", n.Add(1)) }})
		}},
		{
			rule: sdktest.RuleConfig, name: "adds to its configuration", says: `disk disk`,
			cases: func(c *sdktest.Cases) { c.Config = `{"label":"disk"}` },
			target: goPlugin(func() sdk.Plugin {
				p := filter(&adding{})
				p.Config = sdk.SchemaOf[addingConfig]()
				return p
			}),
		},
		{
			rule: sdktest.RuleConfig, name: "has a setting that is required and gets none", says: `"label" is required`,
			target: goPlugin(func() sdk.Plugin {
				p := filter(&adding{})
				p.Config = sdk.SchemaOf[addingConfig]()
				return p
			}),
		},
		{rule: sdktest.RuleProtocol, name: "names a revision that it was not told of", says: "revision", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(_ int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				if v := m.GetVerdicts(); v != nil {
					v.Revision += 100
				}
				return m
			}})
		}},
		{rule: sdktest.RuleProtocol, name: "ranks beyond the limits", says: "rank 1000 is not between", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(_ int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				for _, c := range m.GetVerdicts().GetClasses() {
					if f := c.GetFull(); f != nil && len(f.Allowed) > 0 {
						f.Ranks = []int32{1000}
					}
				}
				return m
			}})
		}},
		{rule: sdktest.RuleProtocol, name: "changes verdicts that it has not given", says: "has not given", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(_ int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				for _, c := range m.GetVerdicts().GetClasses() {
					if c.GetFull() != nil {
						c.Answer = &pluginv1.ClassVerdict_Flips{Flips: &pluginv1.FlipVerdict{}}
					}
				}
				return m
			}})
		}},
		{rule: sdktest.RuleProtocol, name: "leaves a node out", says: "nothing was said about node", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(_ int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				for _, c := range m.GetVerdicts().GetClasses() {
					if f := c.GetFull(); f != nil && len(f.Nodes) > 0 {
						f.Nodes, f.Reasons = f.Nodes[1:], f.Reasons[1:]
					}
				}
				return m
			}})
		}},
		{
			rule: sdktest.RuleAnswers, name: "fails for a job", says: "the inventory is away",
			cases: func(c *sdktest.Cases) { c.Jobs = []sdk.Job{sdktest.Job("one", "rack"), sdktest.Job("two", "rack")} },
			target: goPlugin(func() sdk.Plugin {
				return sdk.Plugin{Name: "broken", Version: "1.0.0", JobTypes: map[string]sdk.JobType{"rack": slots(func(req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
					if req.Job.Name == "two" {
						return sdk.SlotsResponse{}, errors.New("the inventory is away")
					}
					return sdk.SlotsResponse{Slots: []sdk.Slot{{Key: "1"}}}, nil
				})}}
			}),
		},
		{
			rule: sdktest.RuleDeadline, name: "waits for ever to compile one class", says: "failure (timeout)",
			target: goPlugin(func() sdk.Plugin {
				return filter(needs{compile: func(ctx context.Context, label string) (sdk.Matcher, error) {
					if label == "gpu" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return match(func(n *cluster.Node) error { return hasLabel(n, label) }), nil
				}})
			}),
		},
		{
			rule: sdktest.RulePanic, name: "takes the first letter of each label", says: "index out of range",
			target: goPlugin(func() sdk.Plugin {
				return matching(func(n *cluster.Node, label string) error {
					for _, v := range n.Spec.Labels {
						if v[0] == '~' {
							return sdk.NewStall("tilde", "no")
						}
					}
					return hasLabel(n, label)
				})
			}),
		},
		{
			rule: sdktest.RuleDeterministic, name: "throws dice", says: "allowed, rank 0",
			target: goPlugin(func() sdk.Plugin {
				return matching(func(*cluster.Node, string) error {
					if rand.New(rand.NewPCG(random.Add(1), 1)).IntN(2) == 0 {
						return sdk.NewStall("dice", "no luck")
					}
					return nil
				})
			}),
		},
		{rule: sdktest.RuleReconnect, name: "answers otherwise from its second session on", says: "altered", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(session int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				return renamed(m, func(uint32) bool { return session > 1 })
			}})
		}},
		{rule: sdktest.RuleOrder, name: "answers by the number of the class", says: "altered", target: func(t *testing.T) sdktest.Target {
			return altering(t, altered{say: func(_ int, m *pluginv1.FromPlugin) *pluginv1.FromPlugin {
				return renamed(m, func(class uint32) bool { return class == 1 })
			}})
		}},
		{
			rule: sdktest.RuleIdempotent, name: "remembers which tasks it moved", says: "nothing leaves",
			target: goPlugin(func() sdk.Plugin {
				moved := map[cluster.TaskID]bool{}
				return draining(func(req sdk.DrainRequest) sdk.DrainResponse {
					var out sdk.DrainResponse
					for _, x := range req.Tasks {
						if x.Desired.Wanted() && !moved[x.ID] {
							moved[x.ID] = true
							out.Transitions = append(out.Transitions, sdk.Transition{Task: x.ID})
						}
					}
					return out
				})
			}),
		},
		{
			rule: sdktest.RuleChanges, name: "judges each node once", says: "then:",
			target: goPlugin(func() sdk.Plugin {
				return filter(needs{compile: func(_ context.Context, label string) (sdk.Matcher, error) {
					known := map[cluster.NodeID]error{}
					return match(func(n *cluster.Node) error {
						err, ok := known[n.ID]
						if !ok {
							err = hasLabel(n, label)
							known[n.ID] = err
						}
						return err
					}), nil
				}})
			}),
		},
		{
			rule: sdktest.RuleValid, name: "tells tasks again that were told to stop", says: "which it was told before",
			target: goPlugin(func() sdk.Plugin {
				return draining(func(req sdk.DrainRequest) sdk.DrainResponse {
					var out sdk.DrainResponse
					for _, x := range req.Tasks {
						out.Transitions = append(out.Transitions, sdk.Transition{Task: x.ID})
					}
					return out
				})
			}),
		},
		{
			rule: sdktest.RuleBounded, name: "names the node in its refusals", says: "different reasons",
			target: goPlugin(func() sdk.Plugin {
				return matching(func(n *cluster.Node, label string) error {
					if hasLabel(n, label) != nil {
						return &sdk.Stall{Code: "no_label", Detail: label + " on " + n.Spec.Name}
					}
					return nil
				})
			}),
		},
	}
}

// TestBrokenPlugins has each broken plugin found out by the rule that it breaks, and by no other.
func TestBrokenPlugins(t *testing.T) {
	covered := map[sdktest.Rule]bool{sdktest.RuleStop: true} // by TestPluginThatDoesNotStop
	for _, b := range brokenPlugins() {
		covered[b.rule] = true
		t.Run(fmt.Sprintf("%s/%s", b.rule, b.name), func(t *testing.T) {
			c := cases()
			if b.cases != nil {
				b.cases(&c)
			}
			findsOnly(t, b.target(t), c, b.rule, b.says)
		})
	}
	for _, rule := range sdktest.Rules() {
		if !covered[rule] {
			t.Errorf("no plugin breaks the rule %s", rule)
		}
	}
}

func findsOnly(t *testing.T, target sdktest.Target, c sdktest.Cases, rule sdktest.Rule, says string) {
	t.Helper()
	report, err := sdktest.Check(t.Context(), target, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		t.Logf("%s %s %s %v %s", r.Rule, r.Outcome, r.Why, r.Notes, r.Took)
	}
	if broken := report.Broken(); !slices.Equal(broken, []sdktest.Rule{rule}) {
		for _, r := range report.Results {
			for _, v := range r.Violations {
				t.Logf("%s:\n%s", r.Rule, v)
			}
		}
		t.Fatalf("broken rules: %v, want %s only", broken, rule)
	}
	text := report.Result(rule).Violations[0].String()
	for _, part := range []string{says, "got:", "do:   " + rule.Advice()} {
		if !strings.Contains(text, part) {
			t.Errorf("the violation does not say %q:\n%s", part, text)
		}
	}
}

func TestPluginThatDoesNotStop(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	target := sdktest.Go(func() sdk.Plugin { return filter(&lasting{until: over}) })
	findsOnly(t, target, cases(), sdktest.RuleStop, "when the grace was over")
}

// TestOneSided finds settings that meet nodes alike only if they do so in all scenes.
func TestOneSided(t *testing.T) {
	for label, want := range map[string]int{"rare": 0, "nowhere": 1} {
		for seed := range uint64(4) {
			c := sdktest.Cases{Seed: seed + 1, Classes: []sdk.CompileRequest{{Settings: sdk.Settings(fmt.Sprintf(`{"label":%q}`, label))}}}
			c.Node = func(r *rand.Rand, id cluster.NodeID) *cluster.Node {
				n := sdktest.Node(string(id))
				if r.IntN(20) == 0 {
					n.Spec.Labels = map[string]string{"rare": "1"}
				}
				return n
			}
			report, err := sdktest.Check(t.Context(), sdktest.Go(func() sdk.Plugin { return filter(needs{}) }), c)
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for _, r := range report.Results {
				notes = append(notes, r.Notes...)
			}
			if len(notes) != want {
				t.Errorf("label %s, seed %d: notes %q, want %d", label, seed+1, notes, want)
			}
		}
	}
}

// TestSoundPlugin has a plugin without a fault found without one.
func TestSoundPlugin(t *testing.T) {
	report, err := sdktest.Check(t.Context(), sdktest.Go(func() sdk.Plugin { return filter(needs{}) }), cases())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome != sdktest.Pass || len(r.Notes) > 0 {
			t.Errorf("%s: %s %s %v %v, want a pass", r.Rule, r.Outcome, r.Why, r.Violations, r.Notes)
		}
	}
}
