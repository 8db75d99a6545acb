package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// writeStalls writes stalls below each other, longest first, after an empty line; nothing if there are none.
func writeStalls(w io.Writer, style console.Style, now time.Time, stalls []*apiv1.Stall) {
	if len(stalls) == 0 {
		return
	}
	sorted := slices.Clone(stalls)
	slices.SortStableFunc(sorted, func(a, b *apiv1.Stall) int { return timeOf(a.GetSince()).Compare(timeOf(b.GetSince())) })
	fmt.Fprintln(w)
	writeTogether(w, style, now, sorted)
}

// writeTogether writes stalls in their order. Of those that say the same, the first is written, and with it which others there are.
func writeTogether(w io.Writer, style console.Style, now time.Time, stalls []*apiv1.Stall) {
	var order []string
	same := map[string][]*apiv1.Stall{}
	for _, s := range stalls {
		key := strings.Join([]string{s.GetSubject().GetKind(), s.GetCode(), s.GetSource(), s.GetMessage(), s.GetClears()}, "\x00")
		if same[key] == nil {
			order = append(order, key)
		}
		same[key] = append(same[key], s)
	}
	for _, key := range order {
		writeStall(w, style, now, same[key][0])
		if others := same[key][1:]; len(others) > 0 {
			fmt.Fprintln(w, "    "+othersText(others))
		}
	}
}

// othersText names what else waits for the same, as far as it is little.
func othersText(others []*apiv1.Stall) string {
	const few = 4
	var names []string
	for _, s := range others[:min(few, len(others))] {
		names = append(names, stallSubject(s))
	}
	verb := " more wait"
	if len(others) == 1 {
		verb = " more waits"
	}
	text := fmt.Sprintf("%d%s for the same: %s", len(others), verb, strings.Join(names, ", "))
	if len(others) > few {
		text += ", …"
	}
	return text
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
