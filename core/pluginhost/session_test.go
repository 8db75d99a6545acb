package pluginhost

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// talk is a session whose plugin is the test. It lives in a synctest bubble.
type talk struct {
	t      *testing.T
	engine *recorder
	outbox *outbox
	told   chan *pluginv1.FromCore
	says   chan *pluginv1.FromPlugin
	gone   chan struct{}
	pings  chan error // answers of pings; without one a ping waits for its deadline
	hangUp context.CancelFunc
	ended  chan error
}

func (k *talk) Send(m *pluginv1.FromCore) error {
	select {
	case k.told <- m:
		return nil
	case <-k.gone:
		return io.EOF
	}
}

func (k *talk) Recv() (*pluginv1.FromPlugin, error) {
	select {
	case m := <-k.says:
		return m, nil
	case <-k.gone:
		return nil, status.Error(codes.Canceled, "hung up")
	}
}

const testTimeout = 2 * time.Second

// begin starts a session of a plugin that is everything, told of n1 and n2, class 1, job j, and asked question 1 about tasks web/1/3 and web/2/4 on n2.
func begin(t *testing.T, change ...func(*sessionConfig)) *talk {
	k := &talk{
		t: t, engine: &recorder{}, outbox: newOutbox(), told: make(chan *pluginv1.FromCore), says: make(chan *pluginv1.FromPlugin),
		gone: make(chan struct{}), pings: make(chan error, 1), ended: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.hangUp = cancel
	k.outbox.begin(1)
	cfg := sessionConfig{
		name: "gpu", number: 1, timeout: testTimeout, engine: k.engine, outbox: k.outbox, log: hclog.NewNullLogger(), now: time.Now, stats: &stats{},
		about: &description{
			name: "acme-gpu", filter: true, drainer: true, jobTypes: []string{"rack"}, watches: cluster.Mask(cluster.FieldLabels),
		},
		ping: func(ctx context.Context) error {
			select {
			case err := <-k.pings:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	s := newSession(cfg)
	go func() { k.ended <- s.run(ctx, k, func() { close(k.gone) }) }()
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	u := first(engine.PluginUp{Name: "gpu", Session: 1})
	u.AddClasses = []engine.Class{class(1, `{"n":1}`)}
	u.AddJobs = []engine.PluginJob{{Name: "j", Revision: 6, Type: "rack", Count: 2, Created: cluster.Time{Engine: 9, Wall: 1700}}}
	u.Drains = []engine.DrainQuestion{{ID: 1, Revision: 7, Node: 1, Tasks: []engine.DrainTask{
		{Task: task("web/1/3", cluster.DesiredRunning)}, {Task: task("web/2/4", cluster.DesiredShutdown)},
	}}}
	k.outbox.merge(u)
	return k
}

// listen takes everything that the plugin is told until there is nothing more.
func (k *talk) listen() []*pluginv1.FromCore {
	var out []*pluginv1.FromCore
	for {
		synctest.Wait()
		select {
		case m := <-k.told:
			out = append(out, m)
		default:
			return out
		}
	}
}

func (k *talk) say(m *pluginv1.FromPlugin) {
	k.t.Helper()
	synctest.Wait()
	select {
	case k.says <- m:
	default:
		k.t.Fatal("nobody listens")
	}
	synctest.Wait()
}

func (k *talk) apply(revision uint64) {
	k.say(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Applied{Applied: &pluginv1.Applied{Revision: revision}}})
}

// over returns why the session ended, or nil if it goes on.
func (k *talk) over() error {
	synctest.Wait()
	select {
	case err := <-k.ended:
		k.ended <- err
		return err
	default:
		return nil
	}
}

func verdicts(revision uint64, classes ...*pluginv1.ClassVerdict) *pluginv1.FromPlugin {
	return &pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Verdicts{Verdicts: &pluginv1.Verdicts{Revision: revision, Classes: classes}}}
}

func full(f *pluginv1.FullVerdict) *pluginv1.ClassVerdict {
	return &pluginv1.ClassVerdict{Class: 1, ClassRevision: 5, Answer: &pluginv1.ClassVerdict_Full{Full: f}}
}

func flips(f *pluginv1.FlipVerdict) *pluginv1.ClassVerdict {
	return &pluginv1.ClassVerdict{Class: 1, ClassRevision: 5, Answer: &pluginv1.ClassVerdict_Flips{Flips: f}}
}

// n1Only allows n1 and refuses n2.
func n1Only() *pluginv1.FullVerdict {
	return &pluginv1.FullVerdict{Allowed: []byte{1}, Rejections: []*pluginv1.Rejection{{Code: "no_gpu"}}, Nodes: []uint32{1}, Reasons: []uint32{0}}
}

func slots(m *pluginv1.Slots) *pluginv1.FromPlugin {
	m.Job = "j"
	if m.Revision == 0 {
		m.Revision = 8
	}
	if m.JobRevision == 0 {
		m.JobRevision = 6
	}
	return &pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Slots{Slots: m}}
}

func drained(a *pluginv1.DrainAnswer) *pluginv1.FromPlugin {
	if a.Revision == 0 {
		a.Revision = 8
	}
	return &pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Answer{Answer: &pluginv1.Answer{Question: 1, Answer: &pluginv1.Answer_Drain{Drain: a}}}}
}

func TestSessionTellsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		told := k.listen()
		want := []*pluginv1.FromCore{
			{Message: &pluginv1.FromCore_Nodes{Nodes: &pluginv1.Nodes{
				Revision: 8, Reset_: true, Last: true, Strings: []string{"", "n1", "pool", "a", "n2", "b"},
				Upsert: []*pluginv1.Node{
					{Index: 0, Id: 1, Name: 1, LabelKeys: []uint32{2}, LabelValues: []uint32{3}},
					{Index: 1, Id: 4, Name: 4, LabelKeys: []uint32{2}, LabelValues: []uint32{5}},
				},
			}}},
			{Message: &pluginv1.FromCore_Classes{Classes: &pluginv1.Classes{Add: []*pluginv1.Class{
				{Id: 1, Revision: 5, Request: &pluginv1.CompileRequest{JobType: "replicated", SettingsJson: `{"n":1}`}},
			}}}},
			{Message: &pluginv1.FromCore_Jobs{Jobs: &pluginv1.Jobs{Add: []*pluginv1.Job{
				{Name: "j", Revision: 6, Type: "rack", Count: 2, CreatedUnixNs: 1700},
			}}}},
			{Message: &pluginv1.FromCore_Question{Question: &pluginv1.Question{Id: 1, Ask: &pluginv1.Question_Drain{Drain: &pluginv1.DrainQuestion{
				Revision: 8, Node: 1, Tasks: []*pluginv1.DrainTask{
					{Id: "web/1/3", Job: "web", Slot: "1", Desired: "running"}, {Id: "web/2/4", Job: "web", Slot: "2", Desired: "shutdown"},
				},
			}}}}},
		}
		if diff := cmp.Diff(want, told, protoEqual); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// lies are messages that are refused, with their subject and words of the reason.
func TestLiesAreRefused(t *testing.T) {
	transition := func(task, to string) *pluginv1.FromPlugin {
		return drained(&pluginv1.DrainAnswer{Transitions: []*pluginv1.Transition{{Task: task, To: to}}})
	}
	for name, c := range map[string]struct {
		says    *pluginv1.FromPlugin
		subject string // class, job or question
		why     string
	}{
		"bitmap too long":      {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{3, 0}})), "class", "bitmap"},
		"allows an unknown":    {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{7}})), "class", "node 2, which does not exist"},
		"refuses an unknown":   {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{3}, Nodes: []uint32{9}, Reasons: []uint32{0}, Rejections: n1Only().Rejections})), "class", "refuses node 9"},
		"allows and refuses":   {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{3}, Nodes: []uint32{1}, Reasons: []uint32{0}, Rejections: n1Only().Rejections})), "class", "both allows and refuses node 1"},
		"reason out of table":  {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{1}, Nodes: []uint32{1}, Reasons: []uint32{0}})), "class", "reason 0 of node 1 is none of 0"},
		"reasons missing":      {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{1}, Nodes: []uint32{1}})), "class", "1 refused nodes come with 0 reasons"},
		"not ascending":        {verdicts(8, full(&pluginv1.FullVerdict{Nodes: []uint32{1, 0}, Reasons: []uint32{0, 0}, Rejections: n1Only().Rejections})), "class", "ascending"},
		"silent about a node":  {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{1}})), "class", "nothing about node 1"},
		"rank out of range":    {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{3}, Ranks: []int32{0, 101}})), "class", "rank 101"},
		"too many ranks":       {verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{3}, Ranks: []int32{0, 1, 2}})), "class", "3 ranks are for 2 nodes"},
		"flips without base":   {verdicts(8, flips(&pluginv1.FlipVerdict{Nodes: []uint32{1}, Reasons: []uint32{0}})), "class", "has not given"},
		"no answer":            {verdicts(8, &pluginv1.ClassVerdict{Class: 1, ClassRevision: 5}), "class", "no answer"},
		"revision never told":  {verdicts(9, full(n1Only())), "class", "revision 9"},
		"class revision ahead": {verdicts(8, &pluginv1.ClassVerdict{Class: 1, ClassRevision: 6, Answer: &pluginv1.ClassVerdict_Indifferent{}}), "class", "revision 6 of the class"},
		"slot without key":     {slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{}}}), "job", "no key"},
		"slot key of controls": {slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{Key: "a\x1b[2J"}}}), "job", "cannot be shown"},
		"slot key too long":    {slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{Key: strings.Repeat("k", 257)}}}), "job", "257 bytes"},
		"slot on an unknown":   {slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{Key: "a", Nodes: []uint32{2}}}}), "job", "names node 2"},
		"slot twice":           {slots(&pluginv1.Slots{Upsert: []*pluginv1.Slot{{Key: "a"}, {Key: "a"}}}), "job", "named twice"},
		"delta without base":   {slots(&pluginv1.Slots{Delta: true, Remove: []string{"a"}}), "job", "has not named"},
		"slots never told":     {slots(&pluginv1.Slots{Revision: 9}), "job", "revision 9"},
		"job revision ahead":   {slots(&pluginv1.Slots{JobRevision: 7}), "job", "revision 7 of the job"},
		"unknown task":         {transition("web/9/9", "shutdown"), "question", `moves task "web/9/9"`},
		"unknown transition":   {transition("web/1/3", "paused"), "question", `"paused"`},
		"backward transition":  {transition("web/2/4", "running"), "question", `"running"`},
		"keeps unknown task":   {drained(&pluginv1.DrainAnswer{Kept: []*pluginv1.Kept{{Task: "web/9/9"}}}), "question", "keeps task"},
		"drain of another time": {
			drained(&pluginv1.DrainAnswer{Revision: 7}), "question", "for revision 7",
		},
		"another kind of answer": {&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Answer{Answer: &pluginv1.Answer{
			Question: 1, Answer: &pluginv1.Answer_Trial{Trial: &pluginv1.TrialAnswer{}},
		}}}, "question", "another kind"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := begin(t)
				k.listen()
				k.say(c.says)
				var subject string
				var got *engine.FailureAnswer
				for _, in := range k.engine.inputs() {
					switch in := in.(type) {
					case engine.PluginVerdicts:
						subject, got = "class", in.Classes[0].Failure
					case engine.PluginSlots:
						subject, got = "job", in.Failure
					case engine.PluginDrain:
						subject, got = "question", in.Failure
					}
				}
				if got == nil || subject != c.subject || got.Code != cluster.CodePluginInvalid || !strings.Contains(got.Message, c.why) {
					t.Fatalf("%s: %+v, want %s with %q", subject, got, c.subject, c.why)
				}
				if err := k.over(); err != nil {
					t.Fatalf("the session ended: %v", err)
				}
			})
		})
	}
}

func TestLiesThatEndTheSession(t *testing.T) {
	applied := func(r uint64) *pluginv1.FromPlugin {
		return &pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Applied{Applied: &pluginv1.Applied{Revision: r}}}
	}
	for name, c := range map[string]struct {
		says *pluginv1.FromPlugin
		why  string
	}{
		"applied ahead":    {applied(9), "revision 9"},
		"applied never":    {applied(7), "revision 7"},
		"applied nothing":  {applied(0), "revision 0"},
		"unknown class":    {verdicts(8, &pluginv1.ClassVerdict{Class: 2, Answer: &pluginv1.ClassVerdict_Indifferent{}}), "class 2"},
		"unknown question": {&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Answer{Answer: &pluginv1.Answer{Question: 2}}}, "question 2"},
		"unknown trial":    {&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Answer{Answer: &pluginv1.Answer{Question: trialBit + 1}}}, "question 9223372036854775809"},
		"ready twice":      {&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Ready{Ready: &pluginv1.Ready{}}}, "ready"},
		"oversize":         {verdicts(8, full(&pluginv1.FullVerdict{Allowed: make([]byte, hardMessage)})), "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := begin(t)
				k.listen()
				k.say(c.says)
				var f *failure
				if err := k.over(); !errors.As(err, &f) || f.code != cluster.CodePluginInvalid || !strings.Contains(f.text, c.why) {
					t.Fatalf("the session ended with %v, want plugin_invalid with %q", err, c.why)
				}
				if got := k.engine.inputs(); len(got) != 0 {
					t.Fatalf("the engine was told %+v", got)
				}
			})
		})
	}
}

func TestAppliedGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		k.outbox.merge(engine.PluginUpdate{Session: 1, Revision: 8})
		k.listen()
		k.apply(9)
		k.apply(8)
		if err := k.over(); err == nil || !strings.Contains(err.Error(), "goes back from revision 9 to 8") {
			t.Fatalf("the session ended with %v", err)
		}
	})
}

// What was said to stand at a revision is not answered for an earlier one afterwards; what was named as late may be.
func TestAnswersForAnEarlierRevision(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := begin(t)
			k.listen()
			k.say(verdicts(8, full(n1Only())))
			k.say(slots(&pluginv1.Slots{}))
			k.apply(8)
			k.outbox.merge(engine.PluginUpdate{Session: 1, Revision: 8})
			k.listen()
			applied := &pluginv1.Applied{Revision: 9}
			if late {
				applied.LateClasses, applied.LateJobs = []uint32{1}, []string{"j"}
			}
			k.say(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Applied{Applied: applied}})
			k.say(verdicts(8, full(n1Only())))
			k.say(slots(&pluginv1.Slots{}))
			failures := 0
			for _, f := range []*engine.FailureAnswer{all[engine.PluginVerdicts](k.engine)[1].Classes[0].Failure, all[engine.PluginSlots](k.engine)[1].Failure} {
				if f != nil && f.Code == cluster.CodePluginInvalid && strings.Contains(f.Message, "goes back from revision 9 to 8") {
					failures++
				}
			}
			if late && failures != 0 || !late && failures != 2 {
				t.Errorf("late: %v, refused: %d of 2", late, failures)
			}
		})
	}
}

func TestRefusedClassIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		k.say(verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{1}})))
		k.say(verdicts(8, flips(&pluginv1.FlipVerdict{Nodes: []uint32{1}, Reasons: []uint32{0}}))) // builds upon what was refused
		k.apply(8)
		if late := all[engine.PluginApplied](k.engine)[0].LateClasses; len(late) != 1 || late[0] != 1 {
			t.Errorf("late: %v; what was refused does not count", late)
		}
		time.Sleep(time.Second)
		told := k.listen()
		if len(told) != 1 || len(told[0].GetClasses().GetAdd()) != 1 || told[0].GetClasses().Add[0].Id != 1 {
			t.Fatalf("told %v, want class 1 again", told)
		}
		k.say(verdicts(8, full(n1Only())))
		got := all[engine.PluginVerdicts](k.engine)
		if len(got) != 2 || got[1].Classes[0].Full == nil || got[1].Classes[0].Full.Rejections[0].Code != "gpu.no_gpu" {
			t.Errorf("the engine was told %+v", got)
		}
	})
}

func TestRepeatedLiesEndTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		for range maxLies {
			if err := k.over(); err != nil {
				t.Fatalf("the session ended early: %v", err)
			}
			k.say(verdicts(8, full(&pluginv1.FullVerdict{Allowed: []byte{1}})))
		}
		var f *failure
		if err := k.over(); !errors.As(err, &f) || f.code != cluster.CodePluginInvalid || !strings.Contains(f.text, "5 of its answers were refused") {
			t.Fatalf("the session ended with %v", err)
		}
	})
}

func TestWhatEndedSinceIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		k.outbox.merge(engine.PluginUpdate{Session: 1, RemoveClasses: []uint32{1}, RemoveJobs: []string{"j"}, Cancel: []uint64{1}})
		told := k.listen()
		if len(told) != 3 || told[0].GetClasses().GetRemove()[0] != 1 || told[1].GetJobs().GetRemove()[0] != "j" || told[2].GetCancel().GetQuestion() != 1 {
			t.Errorf("told %v", told)
		}
		k.say(verdicts(8, full(n1Only())))
		k.say(slots(&pluginv1.Slots{}))
		k.say(drained(&pluginv1.DrainAnswer{}))
		if err, got := k.over(), k.engine.inputs(); err != nil || len(got) != 0 {
			t.Errorf("the session ended with %v; the engine was told %+v", err, got)
		}
	})
}

func TestPartsOfAnswersAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		head := full(&pluginv1.FullVerdict{Allowed: []byte{1}})
		head.More = true
		k.say(verdicts(8, head))
		k.say(slots(&pluginv1.Slots{More: true, Upsert: []*pluginv1.Slot{{Key: "a"}, {Key: "c"}}}))
		if got := k.engine.inputs(); len(got) != 0 {
			t.Fatalf("the engine was told of parts: %+v", got)
		}
		k.say(verdicts(8, flips(&pluginv1.FlipVerdict{Nodes: []uint32{1}, Reasons: []uint32{1}, Rejections: []*pluginv1.Rejection{{Code: "acme-gpu.x", Detail: "d"}}})))
		k.say(slots(&pluginv1.Slots{Delta: true, Upsert: []*pluginv1.Slot{{Key: "b", Nodes: []uint32{1, 0, 1}, Ends: true}}, Remove: []string{"c"}}))
		want := []engine.Input{
			engine.PluginVerdicts{Name: "gpu", Session: 1, Revision: 7, Classes: []engine.ClassVerdict{{Class: 1, ClassRevision: 5, Full: &engine.FullVerdict{
				Allowed: []byte{1}, Rejections: []engine.Rejection{{Code: "gpu.x", Detail: "d"}}, Nodes: []uint32{1}, Reasons: []uint32{0},
			}}}},
			engine.PluginSlots{
				Name: "gpu", Session: 1, Revision: 7, Job: "j", JobRevision: 6,
				Upsert: []engine.SlotAnswer{{Key: "a"}, {Key: "b", Nodes: []uint32{0, 1}, Ends: true}}, Remove: []cluster.SlotKey{"c"},
			},
		}
		if diff := cmp.Diff(want, k.engine.inputs()); diff != "" {
			t.Errorf("the engine was told (-want +got):\n%s", diff)
		}
	})
}
