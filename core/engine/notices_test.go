package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func cause(code cluster.Code) cluster.StallCause {
	return cluster.StallCause{Code: code, Source: "core"}
}

// keys are those of a sink's notices.
func keys(e *Engine, sink string) (out []cluster.Code) {
	for _, n := range e.View().NoticesOf(sink) {
		out = append(out, n.Cause.Code)
	}
	return out
}

func told(sink string, codes ...cluster.Code) SinkTold {
	in := SinkTold{Sink: sink}
	for _, c := range codes {
		in.Begun = append(in.Begun, cluster.Notice{Cause: cause(c), Message: "m"})
	}
	return in
}

func TestWhatASinkToldIsKept(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	acked := 0
	in := told("a", "x", "y")
	in.Done = func() { acked++ }
	out := e.Step([]Input{in, told("a-b", "x"), told("b", "x")}, cluster.Time{Engine: 5})
	if len(keys(e, "a")) > 0 || acked > 0 {
		t.Fatal("it is told before it is committed")
	}
	puts, _ := e.Records(out.Turn)
	e.Publish(out.Turn)
	for _, f := range out.Acks {
		f()
	}
	if len(puts) != 4 || acked != 1 || len(keys(e, "a")) != 2 || len(keys(e, "a-b")) != 1 || len(keys(e, "b")) != 1 {
		t.Fatalf("%d records, %d acks, notices %v", len(puts), acked, e.View().Notices())
	}
	before := e.View()
	first := before.NoticesOf("a")[0]
	if first.Sent.Engine != 5 || first.Sink != "a" {
		t.Errorf("the notice is %+v", first)
	}

	// Told again it stays as it was.
	if out := step(e, 6, told("a", "x", "y")); len(out.Turn.Changes) > 0 {
		t.Errorf("told again: %+v", out.Turn.Changes)
	}

	// From what was stored the same comes again.
	again := NewState("test")
	for _, v := range puts {
		if err := again.Restore(v); err != nil {
			t.Fatal(err)
		}
	}
	if got := again.NoticesOf("a"); len(got) != 2 || got[0].Cause != first.Cause {
		t.Errorf("restored: %+v", got)
	}

	step(e, 7, SinkTold{Sink: "a", Ended: []cluster.StallCause{cause("x"), cause("z")}})
	if got := keys(e, "a"); len(got) != 1 || got[0] != "y" {
		t.Errorf("after the end of x: %v", got)
	}
	if len(before.NoticesOf("a")) != 2 {
		t.Error("an older state changed")
	}
	step(e, 8, SinksKnown{Names: []string{"b"}})
	if n := e.View().Notices(); len(n) != 1 || n[0].Sink != "b" {
		t.Errorf("what sinks told that are not configured any more is kept: %v", n)
	}
}

func TestNoticesOfOneSinkAreBounded(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	in := SinkTold{Sink: "a"}
	for i := range maxNotices + 10 {
		in.Begun = append(in.Begun, cluster.Notice{Cause: cluster.StallCause{Code: "x", Detail: time.Duration(i).String()}})
	}
	step(e, 1, in)
	if n := len(e.View().Notices()); n != maxNotices {
		t.Errorf("there are %d", n)
	}
}

func TestASinkThatFailsIsAStall(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	step(e, 1, SinkFails{Sink: "oncall", Message: "503"})
	step(e, 2, SinkFails{Sink: "oncall", Message: "502"})
	got := e.View().StallsOf(cluster.SinkSubject("oncall"))
	if len(got) != 1 || got[0].Code != cluster.CodeNotificationFailed || got[0].Message != "502" || got[0].Since.Engine != 1 {
		t.Fatalf("the stall is %+v", got)
	}
	step(e, 3, SinkFails{Sink: "oncall"})
	if got := e.View().StallsOf(cluster.SinkSubject("oncall")); len(got) > 0 {
		t.Errorf("left: %+v", got)
	}
	step(e, 4, SinkFails{Sink: "oncall", Message: "503"}, SinkFails{Sink: "b", Message: "503"}, SinksKnown{Names: []string{"b"}})
	if got := e.View().StallsOf(cluster.SinkSubject("oncall")); len(got) > 0 {
		t.Errorf("a sink that is not configured any more fails: %+v", got)
	}
	if got := e.View().StallsOf(cluster.SinkSubject("b")); len(got) != 1 {
		t.Errorf("of the one that is left: %+v", got)
	}
}

// What the notifier says is recorded, and decided again.
func TestNoticesAreReplayed(t *testing.T) {
	st := NewState("test")
	if err := st.Restore(&cluster.Notice{Sink: "a", Cause: cause("x")}); err != nil {
		t.Fatal(err)
	}
	e := New(Config{Heartbeat: time.Hour}, st, cluster.Time{})
	var out bytes.Buffer
	e.Record(NewRecorder(&out, 1<<20), "test")
	in := told("a", "y")
	in.Done = func() {}
	step(e, 1, in)
	step(e, 2, SinkFails{Sink: "a", Message: "503"})
	step(e, 3, SinkTold{Sink: "a", Ended: []cluster.StallCause{cause("x")}})
	step(e, 4, SinksKnown{Names: []string{"b"}})
	got, err := Replay(&out)
	if err != nil || got.First != nil || got.Turns != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
}
