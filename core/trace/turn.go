package trace

import (
	"slices"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Written is what a commit wrote.
type Written struct {
	Bytes int
	Sync  time.Duration // to write it to the disk and wait until it is there
}

// maxTurns is through how many turns a command is followed. A drain, of which each answer leads to another question, would make a trace that never ends.
const maxTurns = 32

// Turn tells of a turn that is durable, in the trace of each of its causes: in the first with all its parts, in others with a link to that. It returns of what is
// part what plugins are asked because of it.
func (t *Tracer) Turn(x *engine.TracedTurn, w Written) engine.Trace {
	at := clockOf(x.Began)
	end := at(x.Decided)
	if x.Committed != (cluster.Time{}) {
		end = at(x.Committed)
	}
	about := aboutTurn(x)
	first := below(x.Causes[0], "turn", at(x.Began), end)
	first.Attributes = about
	for _, other := range x.Causes[1:] {
		first.Links = append(first.Links, linkTo(other.ID[:], other.Span[:]))
		s := below(other, "turn", at(x.Began), end)
		s.Attributes, s.Links = about, []*tracepb.Span_Link{linkTo(first.GetTraceId(), first.GetSpanId())}
		t.put(s)
	}
	t.put(first)
	t.put(decide(x, first, at))
	if x.Committed != (cluster.Time{}) {
		t.put(commit(x, first, at, w))
	}
	if x.Causes[0].Turns >= maxTurns {
		return engine.Trace{}
	}
	return traceOf(first, x.Causes[0].Turns+1)
}

// clockOf returns moments near one: wall time may jump, engine time does not.
func clockOf(base cluster.Time) func(cluster.Time) time.Time {
	return func(moment cluster.Time) time.Time { return time.Unix(0, base.Wall).Add(moment.Sub(base)) }
}

func linkTo(trace, span []byte) *tracepb.Span_Link {
	return &tracepb.Span_Link{TraceId: trace, SpanId: span, Flags: flagSampled | flagKnown}
}

// decide is the span of the decisions, with an event for each phase.
func decide(x *engine.TracedTurn, of *tracepb.Span, at func(cluster.Time) time.Time) *tracepb.Span {
	s := begin(of.GetTraceId(), of.GetSpanId(), "decide", at(x.Began), at(x.Decided))
	for i, p := range x.Phases {
		until := x.Decided
		if i+1 < len(x.Phases) {
			until = x.Phases[i+1].At
		}
		var about attributes
		about.seconds("setpoint.seconds", until.Sub(p.At).Seconds())
		s.Events = append(s.Events, &tracepb.Span_Event{Name: string(p.Phase), TimeUnixNano: uint64(at(p.At).UnixNano()), Attributes: about})
	}
	return s
}

// commit is the span of making the turn durable. It may begin later than the decisions ended, while the turn before was committed.
func commit(x *engine.TracedTurn, of *tracepb.Span, at func(cluster.Time) time.Time, w Written) *tracepb.Span {
	s := begin(of.GetTraceId(), of.GetSpanId(), "commit", at(x.Commit), at(x.Committed))
	var about attributes
	about.number("setpoint.commit.bytes", int64(w.Bytes))
	about.seconds("setpoint.commit.sync_seconds", w.Sync.Seconds())
	s.Attributes = about
	return s
}

// maxCodes is how many codes of stalls are named.
const maxCodes = 8

// aboutTurn says what a turn did.
func aboutTurn(x *engine.TracedTurn) attributes {
	var created, placed, told, stalls int64
	var codes []string
	for _, a := range x.Turn.Changes {
		switch c := a.Change.(type) {
		case cluster.AddTask:
			created++
		case cluster.SetPlacement:
			placed++
		case cluster.SetDesired:
			told++
		case cluster.PutStall:
			stalls++
			if code := string(c.Stall.Code); len(codes) < maxCodes && !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
		}
	}
	var out attributes
	if len(x.Turn.Changes) > 0 {
		out.number("setpoint.revision", int64(x.Turn.State.Revision))
	}
	out.number("setpoint.turn.inputs", int64(x.Inputs))
	out.number("setpoint.turn.changes", int64(len(x.Turn.Changes)))
	for _, n := range []struct {
		key string
		n   int64
	}{{"tasks_created", created}, {"tasks_placed", placed}, {"tasks_moved_on", told}, {"stalls", stalls}} {
		if n.n > 0 {
			out.number("setpoint.turn."+n.key, n.n)
		}
	}
	slices.Sort(codes)
	out.texts("setpoint.turn.stall_codes", codes)
	out.flag("setpoint.turn.more", x.More)
	return out
}
