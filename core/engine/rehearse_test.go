package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// site is an engine with ready nodes, of which the filter f allows the first only, with jobs web and api of one class.
func site(t *testing.T) (e *Engine, c Class) {
	t.Helper()
	e = New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	about := cluster.NodeDescription{Drivers: []string{"sim"}, Capacity: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30}}
	for i, id := range []cluster.NodeID{"n1", "n2"} {
		step(e, time.Duration(2*i+1), command{op: JoinNode{ID: id, Name: string(id), Description: about}})
		step(e, time.Duration(2*i+2), AgentUp{Node: id, Session: 1, Description: about}, AgentReports{Node: id, Session: 1, Full: true, Last: true})
	}
	step(e, 10, PluginUp{Name: "f", Session: 1, Filter: true, Watches: cluster.Mask(cluster.FieldLabels)})
	c = step(e, 11, newJob("web", ""), newJob("api", "")).Plugins[0].AddClasses[0]
	at := e.View().Revision
	step(
		e, 12, PluginVerdicts{Name: "f", Session: 1, Revision: at, Classes: []ClassVerdict{{Class: c.ID, ClassRevision: c.Revision, Full: firstOnly()}}},
		PluginApplied{Name: "f", Session: 1, Revision: at},
	)
	if placed(e, "web") != "n1" {
		t.Fatalf("web is on %q", placed(e, "web"))
	}
	return e, c
}

func firstOnly() *FullVerdict {
	return &FullVerdict{Allowed: []byte{1}, Rejections: []Rejection{{Code: "f.no", Detail: "not this"}}, Nodes: []uint32{1}, Reasons: []uint32{0}}
}

func newJob(name, settings string) Input {
	spec := cluster.JobSpec{Name: name, Type: cluster.TypeReplicated, Count: 1, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}
	if settings != "" {
		spec.Plugins = []cluster.PluginSettings{{Plugin: "f", JSON: settings}}
	}
	return command{op: RunJob{Spec: spec.WithDefaults()}}
}

// rehearse asks without leaving a trace.
func rehearse(t *testing.T, e *Engine, at time.Duration, op Rehearse) Rehearsal {
	t.Helper()
	before := e.View()
	out := step(e, at, command{op: op})
	v, err := out.Replies[0].Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Turn.Changes) > 0 || len(out.Plugins) > 0 || e.View() != before {
		t.Errorf("it changed %v and told %v", out.Turn.Changes, out.Plugins)
	}
	return v.(Rehearsal)
}

func TestRehearsalHoldsWhatWasSaid(t *testing.T) {
	e, c := site(t)
	step(e, 20, command{op: SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain}})
	r := rehearse(t, e, 21, Rehearse{Plugin: "f", Filter: true, Drainer: true})
	if diff := cmp.Diff([]Class{c}, r.Update.AddClasses); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	if len(r.Update.Nodes) != 2 || !r.Update.Reset || r.Update.Revision != e.View().Revision {
		t.Errorf("update %+v at revision %d", r.Update, e.View().Revision)
	}
	want := firstOnly()
	want.Allowed = []byte{1, 0, 0, 0, 0, 0, 0, 0}
	wantClass := RehearsedClass{Jobs: []string{"api", "web"}, Answered: true, Verdict: ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Full: want}}
	if diff := cmp.Diff(wantClass, r.Classes[c.ID]); diff != "" {
		t.Errorf("said of the class (-want +got):\n%s", diff)
	}
	if len(r.Update.Drains) != 1 || len(r.Update.Drains[0].Tasks) != 2 || r.Update.Drains[0].Revision != r.Update.Revision {
		t.Errorf("drains %+v", r.Update.Drains)
	}
}

func TestRehearsalOfAPluginThatIsNotThere(t *testing.T) {
	e, _ := site(t)
	r := rehearse(t, e, 20, Rehearse{Plugin: "new", Filter: true, JobTypes: []string{"rack"}})
	if len(r.Update.AddClasses) != 1 || r.Update.AddClasses[0].ID != 1 || r.Classes[1].Answered {
		t.Errorf("classes %+v, said %+v", r.Update.AddClasses, r.Classes)
	}
}

// A session that follows another at once keeps what was said, and its own answers replace it.
func TestSessionFollowsSession(t *testing.T) {
	e, c := site(t)
	step(e, 20, PluginUp{Name: "f", Session: 2, Filter: true, Watches: cluster.Mask(cluster.FieldLabels)})
	step(e, 21, newJob("more", ""))
	if placed(e, "more") != "n1" {
		t.Errorf("more is on %q: verdicts that count were forgotten", placed(e, "more"))
	}
	at := e.View().Revision
	both := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Full: &FullVerdict{Allowed: []byte{2}, Rejections: firstOnly().Rejections, Nodes: []uint32{0}, Reasons: []uint32{0}}}
	step(e, 22, PluginVerdicts{Name: "f", Session: 2, Revision: at, Classes: []ClassVerdict{both}}, PluginApplied{Name: "f", Session: 2, Revision: at})
	step(e, 23, newJob("last", ""))
	if placed(e, "last") != "n2" || placed(e, "web") != "n1" {
		t.Errorf("last is on %q, web on %q", placed(e, "last"), placed(e, "web"))
	}
}

// What only a plugin that is configured no more has refused goes on without it.
func TestPluginGone(t *testing.T) {
	e, _ := site(t)
	at := e.View().Revision
	var c Class
	for _, x := range step(e, 20, newJob("tape", `{"disk":"tape"}`)).Plugins[0].AddClasses {
		c = x
	}
	none := ClassVerdict{Class: c.ID, ClassRevision: c.Revision, Full: &FullVerdict{Rejections: firstOnly().Rejections, Nodes: []uint32{0, 1}, Reasons: []uint32{0, 0}}}
	step(e, 21, PluginVerdicts{Name: "f", Session: 1, Revision: at, Classes: []ClassVerdict{none}})
	if placed(e, "tape") != "" {
		t.Fatal("tape was placed")
	}
	step(e, 22, PluginDown{Name: "f", Session: 1, Code: cluster.CodePluginUnavailable, Message: "gone"})
	step(e, 23, PluginGone{Name: "f"})
	if placed(e, "tape") == "" {
		t.Error("tape still waits for a plugin that is gone")
	}
	for s := range e.View().Stalls() {
		t.Errorf("stall %+v is left", *s)
	}
	step(e, 24, PluginUp{Name: "f", Session: 1, Filter: true})
	if p := e.plugins["f"]; p == nil || !p.up {
		t.Error("a plugin that is configured again is not taken")
	}
}

// What a plugin has said is not kept for ever by a state whose configuration does not know the plugin.
func TestStallsOfStrangersEnd(t *testing.T) {
	st := NewState("test")
	for _, s := range []cluster.Stall{
		{Subject: cluster.Subject{Kind: cluster.SubjectPlugin, ID: "old"}, Source: cluster.SourceCore, Code: cluster.CodePluginUnavailable},
		{Subject: cluster.Subject{Kind: cluster.SubjectPlugin, ID: "f"}, Source: cluster.SourceCore, Code: cluster.CodePluginUnavailable},
		{Subject: cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"}, Source: cluster.SourceCore, Code: cluster.CodeMassSilence},
	} {
		st.stalls.Set(s.Key(), &s)
	}
	e := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, st, cluster.Time{})
	step(e, 1)
	var left []string
	for s := range e.View().Stalls() {
		left = append(left, s.Subject.String())
	}
	if diff := cmp.Diff([]string{"plugin:f"}, left); diff != "" {
		t.Errorf("stalls (-want +got):\n%s", diff)
	}
}

// Nobody waits for what is foreseen any more, so it is not worked out, whether a plugin is asked or not.
func TestForesightEndsWithItsContext(t *testing.T) {
	now := cluster.Time{Engine: 1}
	e := New(Config{}, Assemble("c1", 9, now), now)
	got, err := e.Step([]Input{Command("ann", Foresee{})}, now).Replies[0].Result()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := got.(*Foresight).Try(ctx, Trying{By: "ann"}); !errors.Is(err, context.Canceled) {
		t.Errorf("it foresees %v, %v", out, err)
	}
}
