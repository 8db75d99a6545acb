package pluginhost

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// said is what is said of one node.
type said struct {
	Allowed bool
	Code    cluster.Code
	Rank    int8
}

// sayings is a model of how the engine reads verdicts.
type sayings struct {
	table []engine.Rejection
	nodes [8]said
}

func (s *sayings) take(v engine.ClassVerdict) {
	if f := v.Full; f != nil {
		*s = sayings{table: f.Rejections}
		for i := range uint32(8) {
			s.nodes[i].Allowed = hasBit(f.Allowed, i)
			if int(i) < len(f.Ranks) {
				s.nodes[i].Rank = f.Ranks[i]
			}
		}
		for k, i := range f.Nodes {
			s.nodes[i].Code = f.Rejections[f.Reasons[k]].Code
		}
	}
	if f := v.Flips; f != nil {
		s.table = slices.Concat(s.table, f.Rejections)
		for k, i := range f.Nodes {
			s.nodes[i].Allowed, s.nodes[i].Code = f.Reasons[k] == 0, ""
			if f.Reasons[k] > 0 {
				s.nodes[i].Code = s.table[f.Reasons[k]-1].Code
			}
			if len(f.Ranks) > 0 {
				s.nodes[i].Rank = f.Ranks[k]
			}
		}
	}
}

// Parts that are joined say what they say one after another.
func TestJoinedPartsSayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes := []cluster.Code{"a", "b", "c"}
		table := 0
		rejections := func() []engine.Rejection {
			var out []engine.Rejection
			for range rapid.IntRange(0, 2).Draw(t, "new rejections") {
				out = append(out, engine.Rejection{Code: rapid.SampledFrom(codes).Draw(t, "code")})
			}
			table += len(out)
			return out
		}
		indexes := func() []uint32 {
			return rapid.SliceOfNDistinct(rapid.Uint32Range(0, 7), 0, 8, rapid.ID[uint32]).Draw(t, "nodes")
		}
		ranks := func(n int) []int8 {
			if rapid.Bool().Draw(t, "no ranks") {
				return nil
			}
			return rapid.SliceOfN(rapid.Int8Range(-100, 100), n, n).Draw(t, "ranks")
		}
		changes := func() *engine.FlipVerdict {
			f := &engine.FlipVerdict{Rejections: rejections(), Nodes: indexes()}
			for range f.Nodes {
				f.Reasons = append(f.Reasons, rapid.Uint32Range(0, uint32(table)).Draw(t, "reason"))
			}
			f.Ranks = ranks(len(f.Nodes))
			return f
		}
		whole := &engine.FullVerdict{Rejections: rejections()}
		for _, i := range indexes() {
			if table == 0 || rapid.Bool().Draw(t, "allowed") {
				whole.Allowed = withBit(whole.Allowed, i, true)
			} else {
				whole.Nodes = append(whole.Nodes, i)
			}
		}
		slices.Sort(whole.Nodes)
		for range whole.Nodes {
			whole.Reasons = append(whole.Reasons, rapid.Uint32Range(0, uint32(table-1)).Draw(t, "reason"))
		}
		whole.Ranks = ranks(8)
		parts := []engine.ClassVerdict{{Full: whole}, {Flips: changes()}, {Flips: changes()}}
		var want, asOne, flipsAsOne sayings
		for _, p := range parts {
			want.take(p)
		}
		asOne.take(join(join(parts[0], parts[1]), parts[2]))
		if diff := cmp.Diff(want.nodes, asOne.nodes); diff != "" {
			t.Fatalf("joined to a full answer (-want +got):\n%s", diff)
		}
		if len(parts[1].Flips.Ranks) > 0 == (len(parts[2].Flips.Ranks) > 0) {
			flipsAsOne.take(parts[0])
			flipsAsOne.take(join(parts[1], parts[2]))
			if diff := cmp.Diff(want.nodes, flipsAsOne.nodes); diff != "" {
				t.Fatalf("joined to changes (-want +got):\n%s", diff)
			}
		}
	})
}

func TestCodesCarryThePluginsName(t *testing.T) {
	n := names{configured: "gpu", described: "acme-gpu"}
	for given, want := range map[string]cluster.Code{
		"no_gpu": "gpu.no_gpu", "gpu.no_gpu": "gpu.no_gpu", "acme-gpu.no_gpu": "gpu.no_gpu", "": "gpu.unspecified", "gpu.": "gpu.unspecified",
		"constraint": "constraint", "plugin_invalid": "gpu.plugin_invalid", "mass_eviction": "gpu.mass_eviction", "other.no_gpu": "gpu.other.no_gpu",
		"No GPU\x1b[2J": "gpu.no_gpu__2j", strings.Repeat("x", 500): cluster.Code("gpu." + strings.Repeat("x", maxCode)),
	} {
		if got := n.code(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestTextsAreMadeSafe(t *testing.T) {
	for given, want := range map[string]string{
		"plain\nlines": "plain\nlines", "a\x1b[31mb\x00": "a [31mb ", "a\u202eb": "a b", "a\xffb": "a\uFFFDb",
		strings.Repeat("x", maxText+1): strings.Repeat("x", maxText-3) + "…",
	} {
		if got := clean(given); got != want {
			t.Errorf("%.40q: %.40q, want %.40q", given, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := clean(rapid.String().Draw(t, "start") + strings.Repeat("ü", rapid.IntRange(0, maxText).Draw(t, "more")))
		if !utf8.ValidString(got) || len(got) > maxText {
			t.Fatalf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	})
}

func TestDescriptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		says *pluginv1.DescribeResponse
		why  string // "": it is taken
	}{
		"a filter":             {&pluginv1.DescribeResponse{Interfaces: []string{"filter", "oracle"}, Watches: []string{"labels", "state"}}, ""},
		"newer":                {&pluginv1.DescribeResponse{Name: "x", Version: "1", Interfaces: []string{"oracle"}}, "but oracle (this host knows filter, drainer, job_type); upgrade the host"},
		"nothing":              {&pluginv1.DescribeResponse{Name: "x", Version: "1"}, "no interface (this host knows filter, drainer, job_type); upgrade the plugin"},
		"unknown field":        {&pluginv1.DescribeResponse{Interfaces: []string{"filter"}, Watches: []string{"mood"}}, `watches "mood"`},
		"no job types":         {&pluginv1.DescribeResponse{Interfaces: []string{"job_type"}}, "do not go together"},
		"job types of nothing": {&pluginv1.DescribeResponse{Interfaces: []string{"filter"}, JobTypes: []string{"rack"}}, "do not go together"},
		"the core's job type":  {&pluginv1.DescribeResponse{Interfaces: []string{"job_type"}, JobTypes: []string{"batch"}}, "core's own"},
		"bad job type":         {&pluginv1.DescribeResponse{Interfaces: []string{"job_type"}, JobTypes: []string{"Rack!"}}, "Rack!"},
		"too many job types":   {&pluginv1.DescribeResponse{Interfaces: []string{"job_type"}, JobTypes: make([]string, 65)}, "65 job types"},
	} {
		d, err := describe(c.says)
		switch {
		case c.why == "" && (err != nil || !d.filter || d.watches != cluster.Mask(cluster.FieldLabels, cluster.FieldState) || !slices.Equal(d.strange, []string{"oracle"})):
			t.Errorf("%s: %+v, %v", name, d, err)
		case c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why) || failureOf(err).code != cluster.CodePluginInvalid):
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// quiet is a session that was told of two nodes, a class, a job and a question, without a stream.
func quiet(rec *recorder) *session {
	s := newSession(sessionConfig{
		name: "gpu", number: 1, timeout: time.Second, engine: rec, outbox: newOutbox(), log: hclog.NewNullLogger(), now: func() time.Time { return time.Unix(0, 0) },
		about: &description{filter: true, drainer: true, jobTypes: []string{"rack"}}, stats: &stats{},
	})
	s.outbox.begin(1)
	u := first(engine.PluginUp{Name: "gpu", Session: 1})
	u.AddClasses = []engine.Class{class(1, "")}
	u.AddJobs = []engine.PluginJob{{Name: "j", Revision: 6, Type: "rack"}}
	u.Drains = []engine.DrainQuestion{{ID: 1, Revision: 7, Node: 1, Tasks: []engine.DrainTask{{Task: task("web/1/3", cluster.DesiredRunning)}}}}
	s.outbox.merge(u)
	s.outbox.ask(&trial{classes: []engine.Class{class(1, "")}, reply: make(chan trialReply, 1)})
	s.fill()
	return s
}

// Whatever a plugin says, the host does not panic, and what it hands on keeps within its tables.
func FuzzAnswers(f *testing.F) {
	for _, m := range []*pluginv1.FromPlugin{
		verdicts(8, full(n1Only())), verdicts(8, flips(&pluginv1.FlipVerdict{Nodes: []uint32{1}, Reasons: []uint32{0}})),
		slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{Key: "a", Nodes: []uint32{1}}}}),
		drained(&pluginv1.DrainAnswer{Transitions: []*pluginv1.Transition{{Task: "web/1/3", To: "shutdown"}}}),
		{Message: &pluginv1.FromPlugin_Answer{Answer: &pluginv1.Answer{Question: trialBit + 1, Answer: &pluginv1.Answer_Trial{
			Trial: &pluginv1.TrialAnswer{Classes: []*pluginv1.ClassVerdict{full(n1Only())}},
		}}}},
		{Message: &pluginv1.FromPlugin_Applied{Applied: &pluginv1.Applied{Revision: 8, LateClasses: []uint32{1}, LateJobs: []string{"j"}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		rec := &recorder{}
		s := quiet(rec)
		for _, b := range [][]byte{one, two} {
			m := &pluginv1.FromPlugin{}
			if proto.Unmarshal(b, m) != nil {
				return
			}
			if s.take(t.Context(), m) != nil {
				return
			}
		}
		for _, in := range all[engine.PluginVerdicts](rec) {
			var read sayings
			for _, v := range in.Classes {
				if v.Full != nil {
					read.take(v) // panics if it names what is not in its table
				}
			}
		}
	})
}
