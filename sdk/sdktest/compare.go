package sdktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// String says what the answer is as a whole.
func (a Answer) String() string {
	switch {
	case a.Failure != nil:
		return failureText(a.Failure)
	case a.Stall != nil:
		return stallText(a.Stall)
	case a.Indifferent:
		return "indifferent"
	}
	return fmt.Sprintf("%d of %d nodes allowed", len(a.Allowed()), len(a.Verdicts))
}

// String says what the verdict is.
func (v Verdict) String() string {
	if v.Allowed {
		return fmt.Sprintf("allowed, rank %d", v.Rank)
	}
	text := "refused, " + v.Code
	if v.Detail != "" {
		text += " (" + shortenTo(v.Detail, 80) + ")"
	}
	if v.Evicts {
		text += ", evicts"
	}
	return text
}

func stallText(s *pluginv1.Stall) string {
	return strings.TrimSuffix(fmt.Sprintf("stall %s: %s %s", s.Code, shortenTo(s.Message, 120), shortenTo(s.Detail, 80)), " ")
}

func failureText(f *pluginv1.Failure) string {
	return fmt.Sprintf("failure (%s): %s", f.Kind, shortenTo(f.Message, 300))
}

// difference is where two answers differ, in lines of the same order; both are empty if they do not.
type difference struct{ want, got []string }

func (d *difference) add(what, want, got string) {
	if want != got {
		d.want, d.got = append(d.want, what+want), append(d.got, what+got)
	}
}

const shownDifferences = 6

// violation says what differs, as a violation; nil if nothing does.
func (d *difference) violation(what string) *Violation {
	if len(d.want) == 0 {
		return nil
	}
	text := func(lines []string) string {
		out := what + ": " + strings.Join(lines[:min(len(lines), shownDifferences)], "; ")
		if more := len(lines) - shownDifferences; more > 0 {
			out += fmt.Sprintf("; and %d more", more)
		}
		return out
	}
	return &Violation{Want: text(d.want), Got: text(d.got)}
}

// differ compares two answers, leaving aside at which revision they were given.
func differ(want, got Answer) *difference {
	d := &difference{}
	if want.String() != got.String() && (want.Verdicts == nil || got.Verdicts == nil) {
		d.add("", want.String(), got.String())
		return d
	}
	ids := map[cluster.NodeID]bool{}
	for id := range want.Verdicts {
		ids[id] = true
	}
	for id := range got.Verdicts {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		w, g := want.Verdicts[id], got.Verdicts[id]
		switch {
		case w.String() != g.String():
			d.add("node "+shorten(string(id))+" ", w.String(), g.String())
		default:
			d.add("node "+shorten(string(id))+" clears when: ", w.Clears, g.Clears)
		}
	}
	return d
}

// differSlots compares slots, leaving aside revisions, the order of nodes, and what a held job keeps, which depends on what was before.
func differSlots(want, got Slots) *difference {
	d := &difference{}
	whole := func(s Slots) string {
		switch {
		case s.Failure != nil:
			return failureText(s.Failure)
		case s.Stall != nil:
			return stallText(s.Stall)
		}
		return ""
	}
	if w, g := whole(want), whole(got); w != "" || g != "" {
		d.add("", cmp.Or(w, fmt.Sprintf("%d slots", len(want.Slots))), cmp.Or(g, fmt.Sprintf("%d slots", len(got.Slots))))
		return d
	}
	keys := map[cluster.SlotKey][2]string{}
	for i, list := range [][]Slot{want.Slots, got.Slots} {
		for _, s := range list {
			pair := keys[s.Key]
			pair[i] = s.String()
			keys[s.Key] = pair
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d.add("slot "+shorten(string(key))+" ", cmp.Or(keys[key][0], "not wanted"), cmp.Or(keys[key][1], "not wanted"))
	}
	return d
}

// String says what the slot is, without its key.
func (s Slot) String() string {
	text := "on any node"
	if len(s.Nodes) > 0 {
		var ids []string
		for _, id := range slices.Sorted(slices.Values(s.Nodes)) {
			ids = append(ids, shorten(string(id)))
		}
		text = "on " + shortenTo(strings.Join(ids, " "), 200)
	}
	if s.Ends {
		text += ", to complete"
	}
	if s.Held != nil {
		text += ", held: " + stallText(s.Held)
	}
	return text
}

// differDrains compares two answers about a drain.
func differDrains(want, got *pluginv1.DrainAnswer) *difference {
	d := &difference{}
	d.add("", drainText(want), drainText(got))
	return d
}

func drainText(a *pluginv1.DrainAnswer) string {
	var parts []string
	for _, x := range a.Transitions {
		text := fmt.Sprintf("%s to %s, grace %d ns", x.Task, x.To, x.GraceNs)
		if x.Forced {
			text += ", forced"
		}
		parts = append(parts, text)
	}
	for _, k := range a.Kept {
		parts = append(parts, k.Task+" kept: "+stallText(k.Stall))
	}
	if len(parts) == 0 {
		return "nothing leaves"
	}
	return strings.Join(parts, "; ")
}

// answers are what a plugin says of all classes and jobs, in the order of the cases.
type answers struct {
	classes []Answer
	jobs    []Slots
}

// differ returns where other answers differ from these ones.
func (a answers) differ(c Cases, other answers) *Violation {
	for i, req := range c.Classes {
		if v := differ(a.classes[i], other.classes[i]).violation(classText(req)); v != nil {
			return v
		}
	}
	for i := range c.Jobs {
		if v := differSlots(a.jobs[i], other.jobs[i]).violation(jobText(c.Jobs[i])); v != nil {
			return v
		}
	}
	return nil
}

// asked is what a host asked for, class by class and job by job.
type asked struct {
	host    *Host
	classes []*Class
	jobs    []sdk.Job
}

// register hands all classes and jobs of the cases to a plugin.
func (c Cases) register(h *Host) *asked {
	out := &asked{host: h, jobs: c.Jobs}
	for _, req := range c.Classes {
		out.classes = append(out.classes, h.RegisterClass(req))
	}
	for _, job := range c.Jobs {
		h.RegisterJob(job)
	}
	return out
}

// answers waits for all answers about the latest nodes.
func (a *asked) answers() answers {
	a.host.Settle()
	var out answers
	for _, class := range a.classes {
		out.classes = append(out.classes, class.Answer())
	}
	for _, job := range a.jobs {
		out.jobs = append(out.jobs, a.host.Slots(job.Name))
	}
	a.host.blameFailures(out)
	return out
}

// blameFailures ends the test of a rule if an answer that was there before is a failure now.
func (h *Host) blameFailures(a answers) {
	for _, x := range a.classes {
		if x.Failure != nil {
			h.fail(ruleOf(x.Failure), "%s", failureText(x.Failure))
		}
	}
	for i := range a.jobs {
		if f := a.jobs[i].Failure; f != nil {
			h.fail(ruleOf(f), "%s", failureText(f))
		}
	}
}

// ruleOf returns the rule that a failure of author's code breaks.
func ruleOf(f *pluginv1.Failure) Rule {
	switch f.Kind {
	case "panic":
		return RulePanic
	case "timeout":
		return RuleDeadline
	}
	return RuleAnswers
}
