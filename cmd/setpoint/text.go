package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func timeOf(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// ago writes how long ago a moment was.
func ago(now time.Time, ts *timestamppb.Timestamp) string { return console.Since(now, timeOf(ts)) }

// number reads an argument that is a whole number, 0 or more.
func number(text, what string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse("It is a whole number, 0 or more.", "bad %s %q", what, text)
	}
	return n, nil
}

// pairs writes a map as in a=1 b=2, sorted.
func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

// tally writes counts by word, as in 3 ready, 1 down.
func tally(m map[string]int64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, fmt.Sprintf("%d %s", m[k], k))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// writeStalls writes stalls below each other, longest first, after an empty line; nothing if there are none.
func writeStalls(w io.Writer, style console.Style, now time.Time, stalls []*apiv1.Stall) {
	if len(stalls) == 0 {
		return
	}
	sorted := slices.Clone(stalls)
	slices.SortStableFunc(sorted, func(a, b *apiv1.Stall) int { return timeOf(a.GetSince()).Compare(timeOf(b.GetSince())) })
	fmt.Fprintln(w)
	for _, s := range sorted {
		writeStall(w, style, now, s)
	}
}

// writeStall writes one stall: what waits, for how long and why in red, then the facts.
func writeStall(w io.Writer, style console.Style, now time.Time, s *apiv1.Stall) {
	fmt.Fprintf(w, "%s %s %s\n", style.Red(stallSubject(s)), style.Red("stalled "+ago(now, s.GetSince())+": "+s.GetCode()), style.Faint("("+s.GetSource()+")"))
	if s.GetMessage() != "" {
		fmt.Fprintln(w, console.Indent("    ", s.GetMessage()))
	}
	for _, x := range s.GetFacts().GetExcluded() {
		fmt.Fprintln(w, "    "+exclusionText(s.GetFacts().GetNodes(), x))
	}
	if n := s.GetNearest(); n != "" && !strings.Contains(s.GetMessage(), "Nearest: "+n) {
		fmt.Fprintln(w, "    nearest: "+n)
	}
	if c := s.GetClears(); c != "" && !strings.Contains(s.GetMessage(), c) {
		fmt.Fprintln(w, "    clears when: "+c)
	}
}

// stallSubject names what waits as people look for it: a task or slot by its id, others by their kind too.
func stallSubject(s *apiv1.Stall) string {
	switch kind := s.GetSubject().GetKind(); kind {
	case "task", "slot":
		return s.GetSubject().GetId()
	case "cluster":
		return kind
	case "node":
		if s.GetNode() != "" {
			return "node " + s.GetNode()
		}
		return "node " + s.GetSubject().GetId()
	default:
		return kind + " " + s.GetSubject().GetId()
	}
}

// exclusionText says how many of the nodes one reason excludes, and which, as far as there are few.
func exclusionText(of int64, x *apiv1.Exclusion) string {
	text := fmt.Sprintf("%d of %s: %s", x.GetCount(), console.Count(of, "node"), x.GetCode())
	if x.GetDetail() != "" {
		text += " " + x.GetDetail()
	}
	names := x.GetNodes()
	const few = 8
	switch {
	case len(names) == 0:
	case len(names) <= few:
		text += " (" + strings.Join(names, ", ") + ")"
	default:
		text += fmt.Sprintf(" (%s and %d more)", strings.Join(names[:few], ", "), len(names)-few)
	}
	return text
}
