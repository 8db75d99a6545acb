package sdktest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is something that the daemon relies on of every plugin.
type Rule string

// The rules, in the order in which they are checked.
const (
	RuleDescribe      Rule = "describe"
	RuleConfig        Rule = "config"
	RuleProtocol      Rule = "protocol"
	RuleAnswers       Rule = "answers"
	RuleDeadline      Rule = "deadline"
	RulePanic         Rule = "panic"
	RuleDeterministic Rule = "deterministic"
	RuleReconnect     Rule = "reconnect"
	RuleOrder         Rule = "order"
	RuleIdempotent    Rule = "idempotent"
	RuleChanges       Rule = "changes"
	RuleValid         Rule = "valid"
	RuleBounded       Rule = "bounded"
	RuleStop          Rule = "stop"
)

// promises say what a plugin that keeps the rule does, and what its author can do where it does not.
var promises = map[Rule]struct{ promise, advice string }{
	RuleDescribe: {
		"says the same of itself whenever it is asked, and all that the daemon needs",
		"Build the description from constants: it is read before the configuration, cached, and must not depend on anything.",
	},
	RuleConfig: {
		"takes its configuration, also twice, and points at mistakes",
		"Configure must replace what it took before, change nothing when it returns an error, and name attributes of the schema in diagnostics.",
	},
	RuleProtocol: {
		"keeps to the protocol's order, numbers and revisions",
		"plugin.proto says it field by field; with the Go SDK this is the SDK's business, so what is found here is worth a report.",
	},
	RuleAnswers: {
		"answers each class, job and drain without an error of its own",
		"Return a *Stall for what the user or the cluster can clear; any other error says that the plugin itself is broken.",
	},
	RuleDeadline: {
		"answers before its deadline, and drops what is withdrawn",
		"Honour the context in Compile, Slots and Drain, do slow work in RunSession, and call Changed when it is there.",
	},
	RulePanic: {
		"takes odd nodes, settings, jobs and tasks without a panic",
		"Check lengths and map entries before use; labels and attributes may be missing, empty, long and in any script.",
	},
	RuleDeterministic: {
		"gives the same answers each time it is started",
		"Answers must follow from the request and the node alone: no random source, clock, environment, or order of a map.",
	},
	RuleReconnect: {
		"begins each session afresh",
		"Keep nothing of a session beyond it: nodes, their indexes and the table of strings mean something else in the next one.",
	},
	RuleOrder: {
		"answers alike in whatever order classes, jobs and nodes come, and in messages of any size",
		"Do not count, number or remember what was asked before; sort before you pick the first of several.",
	},
	RuleIdempotent: {
		"says the same when it is told or asked the same again, also as a trial",
		"Being asked must change nothing in the plugin. Whoever asks may have lost the first answer.",
	},
	RuleChanges: {
		"answers after changes as if it were asked from scratch",
		"A verdict that was kept must be judged again for each changed node; keep nothing by node id, and mind indexes that are used again.",
	},
	RuleValid: {
		"names only tasks, slots and states that there are, and each once",
		"A task that is told to stop needs no further shutdown; tasks are those of the request; keys of slots are unique and not empty.",
	},
	RuleBounded: {
		"keeps its answers small, however large the cluster is",
		"Nodes refused for one reason share one code and detail, so neither may name the node; say what changed, not everything.",
	},
	RuleStop: {
		"ends within the grace when it is told to stop",
		"RunSession must return when its context ends, and nothing may hold the process after Stop.",
	},
}

// Rules returns all rules in the order in which they are checked.
func Rules() []Rule {
	return []Rule{
		RuleDescribe, RuleConfig, RuleProtocol, RuleAnswers, RuleDeadline, RulePanic, RuleDeterministic, RuleReconnect, RuleOrder, RuleIdempotent,
		RuleChanges, RuleValid, RuleBounded, RuleStop,
	}
}

// Promise says what a plugin that keeps the rule does.
func (r Rule) Promise() string { return promises[r].promise }

// Advice says what the author of a plugin that breaks the rule can do.
func (r Rule) Advice() string { return promises[r].advice }

// Outcome is what came of checking a rule.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Skip    Outcome = "skip"    // does not apply to this plugin
	Blocked Outcome = "blocked" // could not be checked, because another rule is broken
)

// Result is what came of checking one rule.
type Result struct {
	Rule       Rule          `json:"rule"`
	Promise    string        `json:"promise"`
	Outcome    Outcome       `json:"outcome"`
	Why        string        `json:"why,omitempty"` // it was skipped or blocked
	Took       time.Duration `json:"took_ns"`
	Violations []Violation   `json:"violations,omitempty"`
	Notes      []string      `json:"notes,omitempty"` // nothing wrong, but worth knowing
}

// Violation is one way in which a plugin was seen to break a rule.
type Violation struct {
	Rule   Rule   `json:"rule"`
	Sent   string `json:"sent,omitempty"` // what the plugin was told and asked
	Got    string `json:"got"`            // what it said
	Want   string `json:"want,omitempty"` // what it should have said
	Advice string `json:"advice"`
	Seed   uint64 `json:"seed"` // draws the same again

	ended bool // the session or the call broke
}

// String writes the violation in lines, each part under its name.
func (v Violation) String() string {
	var b strings.Builder
	for _, part := range []struct{ name, text string }{{"sent", v.Sent}, {"got", v.Got}, {"want", v.Want}, {"do", v.Advice}} {
		if part.text != "" {
			fmt.Fprintf(&b, "%-5s %s\n", part.name+":", strings.ReplaceAll(strings.TrimRight(part.text, "\n"), "\n", "\n      "))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Report is what was found about a plugin.
type Report struct {
	Plugin     string        `json:"plugin"`
	Version    string        `json:"version"`
	Interfaces []string      `json:"interfaces"`
	Seed       uint64        `json:"seed"`
	Took       time.Duration `json:"took_ns"`
	Results    []Result      `json:"results"`
}

// OK reports whether no rule is broken.
func (r *Report) OK() bool { return len(r.Broken()) == 0 }

// Broken returns the rules that were found broken.
func (r *Report) Broken() []Rule {
	var out []Rule
	for i := range r.Results {
		if r.Results[i].Outcome == Fail {
			out = append(out, r.Results[i].Rule)
		}
	}
	return out
}

// Result returns what came of a rule; nil if it is not in the report.
func (r *Report) Result(rule Rule) *Result {
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Rule == rule })
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}
