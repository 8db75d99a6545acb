package pluginhost

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

var protoEqual = protocmp.Transform()

func TestSlowPluginGetsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		k.apply(8)
		// The plugin reads nothing: one revision is on its way, and all others are one parcel.
		for i := range 1000 {
			k.outbox.merge(engine.PluginUpdate{
				Session: 1, Revision: cluster.Revision(10 + i), Nodes: []engine.IndexedNode{{Index: 0, Node: node("n1", map[string]string{"pool": fmt.Sprint(i)})}},
				AddClasses: []engine.Class{class(uint32(2+i), "")}, RemoveClasses: []uint32{uint32(1 + i)},
				AddJobs: []engine.PluginJob{{Name: "j", Revision: cluster.Revision(10 + i), Type: "rack", Count: i}},
				Drains:  []engine.DrainQuestion{{ID: uint64(2 + i), Revision: cluster.Revision(10 + i), Node: 1}}, Cancel: []uint64{uint64(1 + i)},
			})
			synctest.Wait()
		}
		var revisions []uint64
		var last []*pluginv1.FromCore
		for _, m := range k.listen() {
			if n := m.GetNodes(); n != nil {
				revisions, last = append(revisions, n.Revision), nil
			}
			last = append(last, m)
		}
		if diff := cmp.Diff([]uint64{11, 1010}, revisions); diff != "" {
			t.Errorf("revisions (-want +got):\n%s", diff)
		}
		nodes := last[0].GetNodes()
		if len(nodes.Upsert) != 1 || !slicesContain(nodes.Strings, "999") || len(nodes.Strings) != 1 {
			t.Errorf("nodes %v", nodes)
		}
		want := []*pluginv1.FromCore{
			{Message: &pluginv1.FromCore_Classes{Classes: &pluginv1.Classes{Remove: []uint32{2}, Add: []*pluginv1.Class{
				{Id: 1001, Revision: 5, Request: &pluginv1.CompileRequest{JobType: "replicated"}},
			}}}},
			{Message: &pluginv1.FromCore_Jobs{Jobs: &pluginv1.Jobs{Add: []*pluginv1.Job{{Name: "j", Revision: 1009, Type: "rack", Count: 999}}}}},
			{Message: &pluginv1.FromCore_Cancel{Cancel: &pluginv1.Cancel{Question: 2}}},
			{Message: &pluginv1.FromCore_Question{Question: &pluginv1.Question{Id: 1001, Ask: &pluginv1.Question_Drain{Drain: &pluginv1.DrainQuestion{Revision: 1010, Node: 1}}}}},
		}
		if diff := cmp.Diff(want, last[1:], protoEqual); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func slicesContain(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}

func TestResetReplacesWhatWasNotSent(t *testing.T) {
	o := newOutbox()
	o.begin(3)
	o.merge(engine.PluginUpdate{Session: 3, Revision: 1, AddClasses: []engine.Class{class(9, "")}})
	if _, _, ok := o.take(); ok {
		t.Error("something was taken before the session's reset")
	}
	o.merge(engine.PluginUpdate{Session: 3, Reset: true, Revision: 2, AddClasses: []engine.Class{class(1, "")}})
	o.merge(engine.PluginUpdate{Session: 2, Revision: 3, AddClasses: []engine.Class{class(8, "")}})
	o.merge(engine.PluginUpdate{Session: 3, Reset: true, Revision: 4, AddClasses: []engine.Class{class(2, "")}, RemoveClasses: []uint32{7}})
	p, _, ok := o.take()
	if !ok || !p.reset || p.revision != 4 || len(p.addClasses) != 1 || p.addClasses[2].ID != 2 || len(p.removeClasses) != 0 {
		t.Errorf("taken %+v", p)
	}
}

func TestPluginIsNotTooFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		told := 1
		for i := range 10 {
			k.outbox.merge(engine.PluginUpdate{Session: 1, Revision: cluster.Revision(8 + i)})
			told += len(k.listen())
		}
		if told != window {
			t.Errorf("told of %d revisions without having applied one, want %d", told, window)
		}
		k.apply(8)
		if m := k.listen(); len(m) != 1 || m[0].GetNodes().GetRevision() != 18 {
			t.Errorf("told %v, want the newest revision", m)
		}
	})
}

func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		k.apply(8)
		if a := all[engine.PluginApplied](k.engine)[0]; len(a.LateClasses) != 1 || len(a.LateJobs) != 1 {
			t.Errorf("applied %+v: what was not answered does not count", a)
		}
		k.pings <- nil
		time.Sleep(3 * time.Second)
		told := k.listen()
		if len(told) != 1 || told[0].GetCancel().GetQuestion() != 1 {
			t.Errorf("told %v, want the question withdrawn", told)
		}
		late := &engine.FailureAnswer{Code: cluster.CodePluginTimeout, Message: "no answer within 2s"}
		want := []engine.Input{
			engine.PluginVerdicts{Name: "gpu", Session: 1, Revision: 7, Classes: []engine.ClassVerdict{{Class: 1, ClassRevision: 5, Failure: late}}},
			engine.PluginSlots{Name: "gpu", Session: 1, Revision: 7, Job: "j", JobRevision: 6, Failure: late},
			engine.PluginDrain{Name: "gpu", Session: 1, Question: 1, Failure: late},
		}
		if diff := cmp.Diff(want, k.engine.inputs()[1:]); diff != "" {
			t.Errorf("the engine was told (-want +got):\n%s", diff)
		}
		k.say(verdicts(8, full(n1Only())))
		got := k.engine.inputs()
		if v, ok := got[len(got)-1].(engine.PluginVerdicts); !ok || v.Classes[0].Full == nil {
			t.Errorf("the engine was told %+v last, want the answer that came after all", got[len(got)-1])
		}
		k.say(drained(&pluginv1.DrainAnswer{}))
		if n := len(k.engine.inputs()); n != len(got) {
			t.Error("an answer to a withdrawn question reached the engine")
		}
	})
}

func TestHungPluginIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		behave func(k *talk)
		after  time.Duration
		why    string
	}{
		"applies nothing": {func(*talk) {}, 5 * time.Second, "has not applied revision 7 within 5s"},
		"applies nothing but talks": {func(k *talk) {
			for range 19 {
				time.Sleep(time.Second)
				k.say(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Problem{Problem: &pluginv1.Problem{}}})
			}
		}, 20 * time.Second, "has not applied revision 7 within 20s"},
		"answers no ping":     {func(k *talk) { k.apply(8) }, 7 * time.Second, "ping: no answer in time"},
		"answers only a ping": {func(k *talk) { k.apply(8); k.pings <- nil }, 12 * time.Second, "ping: no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := begin(t)
				began := time.Now()
				k.listen()
				go func() {
					for {
						select {
						case <-k.told:
						case <-k.gone:
							return
						}
					}
				}()
				c.behave(k)
				err := <-k.ended
				k.ended <- err
				var f *failure
				if !errors.As(err, &f) || f.code != cluster.CodePluginTimeout || !strings.Contains(f.text, c.why) || time.Since(began) != c.after {
					t.Errorf("after %s: %v; want %q after %s", time.Since(began), err, c.why, c.after)
				}
			})
		})
	}
}

func TestTrialsEndWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t)
		k.listen()
		asked := &trial{classes: []engine.Class{class(1, "")}, reply: make(chan trialReply, 1)}
		if !k.outbox.ask(asked) {
			t.Fatal("not taken")
		}
		if told := k.listen(); len(told) != 1 || told[0].GetQuestion().GetTrial() == nil {
			t.Fatalf("told %v", told)
		}
		k.hangUp()
		synctest.Wait()
		if r := <-asked.reply; !errors.Is(r.err, ErrAway) {
			t.Errorf("answered %+v", r)
		}
	})
}
