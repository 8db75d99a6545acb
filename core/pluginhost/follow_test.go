package pluginhost

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/engine"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// followedQuestion is a question that a test follows.
type followedQuestion struct {
	Because byte
	Question
	Outcomes []Outcome
}

func (f *followedQuestion) Trace() engine.Trace { return traceOf(100 + f.Because) }
func (f *followedQuestion) Ended(o Outcome)     { f.Outcomes = append(f.Outcomes, o) }

func traceOf(n byte) engine.Trace { return engine.Trace{ID: [16]byte{n}, Span: [8]byte{n}} }

// following begins a session of whose questions the test is told. It was told of all that begin says, and applied it.
func following(t *testing.T) (k *talk, questions *[]*followedQuestion) {
	questions = &[]*followedQuestion{}
	k = begin(t, func(c *sessionConfig) {
		c.askedOf = func(because engine.Trace, q Question) Asked {
			f := &followedQuestion{Because: because.ID[0], Question: q}
			*questions = append(*questions, f)
			return f
		}
	})
	k.listen()
	k.apply(8) // revision 7 on the wire
	return k, questions
}

// partOf returns of which traces the last input is part, of which kind whichever.
func (k *talk) partOf() []engine.Trace {
	k.t.Helper()
	got := k.engine.inputs()
	if len(got) == 0 {
		k.t.Fatal("the engine was told nothing")
	}
	in, _ := got[len(got)-1].(engine.Traced)
	return in.Traces
}

func TestQuestionsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, questions := following(t)
		if len(*questions) != 0 {
			t.Fatalf("of what begins a session somebody is the cause: %+v", (*questions)[0])
		}
		// Two turns that were told while the plugin was busy: two classes of one, a third of the other.
		k.outbox.merge(engine.PluginUpdate{
			Plugin: "gpu", Session: 1, Trace: traceOf(1), AddClasses: []engine.Class{class(2, `{}`), class(3, `{}`)},
			AddJobs: []engine.PluginJob{{Name: "racks", Revision: 9, Type: "rack", Count: 1}},
		})
		k.outbox.merge(engine.PluginUpdate{Plugin: "gpu", Session: 1, Trace: traceOf(2), AddClasses: []engine.Class{class(4, `{}`)}})
		k.outbox.merge(engine.PluginUpdate{Plugin: "gpu", Session: 1, AddClasses: []engine.Class{class(5, `{}`)}})
		k.listen()
		want := []*followedQuestion{
			{Because: 1, Question: Question{Plugin: "gpu", Kind: AskClass, Count: 2}},
			{Because: 2, Question: Question{Plugin: "gpu", Kind: AskClass, Count: 1}},
			{Because: 1, Question: Question{Plugin: "gpu", Kind: AskJob, Count: 1, Names: []string{"racks"}}},
		}
		if diff := cmp.Diff(want, *questions); diff != "" {
			t.Fatalf("questions (-want +got):\n%s", diff)
		}
		answer := func(id uint32) *pluginv1.ClassVerdict {
			return &pluginv1.ClassVerdict{Class: id, ClassRevision: 5, Answer: &pluginv1.ClassVerdict_Indifferent{Indifferent: &pluginv1.Indifferent{}}}
		}
		k.say(verdicts(8, answer(5)))
		if got := k.partOf(); got != nil {
			t.Errorf("an answer to nobody's question is part of %v", got)
		}
		k.say(verdicts(8, answer(2), answer(4)))
		if got := k.partOf(); !slices.Equal(got, []engine.Trace{traceOf(101), traceOf(102)}) {
			t.Errorf("an answer to two questions is part of %v", got)
		}
		stall := &pluginv1.ClassVerdict{Class: 3, ClassRevision: 5, Answer: &pluginv1.ClassVerdict_Stall{Stall: &pluginv1.Stall{Code: "odd"}}}
		k.say(verdicts(8, stall))
		synctest.Wait()
		time.Sleep(4 * testTimeout) // nobody answers of the job
		k.listen()
		for i, o := range []Outcome{Stalled, Answered, Late} {
			if got := (*questions)[i].Outcomes; !slices.Equal(got, []Outcome{o}) {
				t.Errorf("question %d ended as %v, want %v", i, got, o)
			}
		}
	})
}

func TestNodesAreFollowedUntilApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, questions := following(t)
		u := engine.PluginUpdate{
			Plugin: "gpu", Session: 1, Trace: traceOf(1), Revision: 9,
			Nodes: []engine.IndexedNode{{Index: 1, Node: node("n2", map[string]string{"pool": "c"})}},
		}
		k.outbox.merge(u)
		k.listen()
		if len(*questions) != 1 || !cmp.Equal((*questions)[0].Question, Question{Plugin: "gpu", Kind: AskNode, Count: 1, Names: []string{"n2"}}) {
			t.Fatalf("questions %+v", *questions)
		}
		k.apply(wireRevision(9))
		if got := k.partOf(); !slices.Equal(got, []engine.Trace{traceOf(101)}) || !slices.Equal((*questions)[0].Outcomes, []Outcome{Answered}) {
			t.Errorf("what was applied is part of %v, and ended as %v", got, (*questions)[0].Outcomes)
		}
	})
}

func TestQuestionsOfASessionThatEndsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, questions := following(t)
		k.outbox.merge(engine.PluginUpdate{
			Plugin: "gpu", Session: 1, Trace: traceOf(1), AddClasses: []engine.Class{class(2, `{}`), class(3, `{}`)},
			Drains: []engine.DrainQuestion{{ID: 2, Revision: 8, Node: 1}},
		})
		k.listen()
		k.outbox.merge(engine.PluginUpdate{Plugin: "gpu", Session: 1, RemoveClasses: []uint32{2}})
		k.listen()
		k.hangUp()
		if k.over() == nil {
			t.Fatal("it goes on")
		}
		if len(*questions) != 2 {
			t.Fatalf("questions %+v", *questions)
		}
		for i, q := range *questions {
			if !slices.Equal(q.Outcomes, []Outcome{Lost}) {
				t.Errorf("question %d ended as %v", i, q.Outcomes)
			}
		}
		if (*questions)[1].Kind != AskDrain || !slices.Equal((*questions)[1].Names, []string{"n2"}) {
			t.Errorf("a node that is drained: %+v", (*questions)[1])
		}
	})
}
