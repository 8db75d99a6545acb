package tracetest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// Draw returns traces as trees of text, the earliest first: of each span its name, what is said of it, and its links. With times there is also when it began
// within its trace and how long it took, and when its events were.
func Draw(spans []*tracepb.Span, times bool) string {
	d := drawing{times: times, below: map[string][]*tracepb.Span{}, known: map[string]*tracepb.Span{}}
	for _, s := range spans {
		d.known[string(s.GetSpanId())] = s
	}
	var roots []*tracepb.Span
	for _, s := range slices.SortedStableFunc(slices.Values(spans), byStart) {
		if d.known[string(s.GetParentSpanId())] == nil {
			roots = append(roots, s)
		} else {
			d.below[string(s.GetParentSpanId())] = append(d.below[string(s.GetParentSpanId())], s)
		}
	}
	for _, s := range roots {
		d.origin = s.GetStartTimeUnixNano()
		if len(s.GetParentSpanId()) > 0 {
			fmt.Fprintf(&d.out, "of %x %x\n", s.GetTraceId(), s.GetParentSpanId())
		}
		d.span(s, "", "")
	}
	return d.out.String()
}

func byStart(a, b *tracepb.Span) int {
	return cmp.Or(cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()), cmp.Compare(a.GetName(), b.GetName()))
}

type drawing struct {
	out    strings.Builder
	times  bool
	origin uint64
	below  map[string][]*tracepb.Span // by the parent's id
	known  map[string]*tracepb.Span
}

func (d *drawing) span(s *tracepb.Span, first, rest string) {
	fmt.Fprintf(&d.out, "%s%s", first, s.GetName())
	if d.times {
		fmt.Fprintf(&d.out, " +%s %s", short(s.GetStartTimeUnixNano()-d.origin), short(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()))
	}
	d.about(s.GetAttributes())
	if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		fmt.Fprintf(&d.out, " ERROR")
	}
	for _, l := range s.GetLinks() {
		name := "another trace"
		if to := d.known[string(l.GetSpanId())]; to != nil {
			name = to.GetName()
		}
		fmt.Fprintf(&d.out, " -> %s", name)
	}
	d.out.WriteByte('\n')
	children := d.below[string(s.GetSpanId())]
	bar := "   "
	if len(children) > 0 {
		bar = "│  "
	}
	for _, e := range s.GetEvents() {
		fmt.Fprintf(&d.out, "%s%s· %s", rest, bar, e.GetName())
		if d.times {
			fmt.Fprintf(&d.out, " +%s", short(e.GetTimeUnixNano()-d.origin))
		}
		d.out.WriteByte('\n')
	}
	for i, c := range children {
		if i == len(children)-1 {
			d.span(c, rest+"└─ ", rest+"   ")
		} else {
			d.span(c, rest+"├─ ", rest+"│  ")
		}
	}
}

func (d *drawing) about(attributes []*commonpb.KeyValue) {
	for _, a := range attributes {
		if strings.HasSuffix(a.GetKey(), "seconds") && !d.times {
			continue
		}
		fmt.Fprintf(&d.out, " %s=%s", strings.TrimPrefix(a.GetKey(), "setpoint."), Text(a.GetValue()))
	}
}

// Text returns a value as text.
func Text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', 3, 64)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		var parts []string
		for _, x := range v.ArrayValue.GetValues() {
			parts = append(parts, Text(x))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return "?"
}

func short(ns uint64) string {
	return strconv.FormatFloat(float64(ns)/float64(time.Millisecond), 'f', 2, 64) + "ms"
}
