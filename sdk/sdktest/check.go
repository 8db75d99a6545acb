package sdktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Cases are what Check and Conformance ask a plugin about. Classes that some nodes meet and some do not make it find more.
type Cases struct {
	Config  string               // of the plugin, as JSON
	Classes []sdk.CompileRequest // for a filter; none: what its schema of jobs' settings suggests
	Jobs    []sdk.Job            // for a job type; none: one of each type
	// Node draws a node with a given id. Nil: DrawNode, with the words that the classes and jobs use.
	Node func(r *rand.Rand, id cluster.NodeID) *cluster.Node
	// Seed decides what is drawn; zero counts as 1.
	Seed uint64
	// Rounds is how many scenes are drawn for each rule that needs some; 20 if zero.
	Rounds int
	// Deadline is the time for one answer; 2 s if zero.
	Deadline time.Duration
}

func (c Cases) withDefaults() Cases {
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Rounds == 0 {
		c.Rounds = 20
	}
	if c.Deadline == 0 {
		c.Deadline = 2 * time.Second
	}
	return c
}

// freshStarts is how often a rule starts the plugin anew where that is what it is about.
const freshStarts = 3

// smallMessages makes answers come in parts.
const smallMessages = 16 << 10

// Check checks of a plugin all that the daemon relies on. The error says that it could not be checked at all, because it does not start or ctx ended.
func Check(ctx context.Context, target Target, cases Cases) (*Report, error) {
	c := &checker{ctx: ctx, target: target, cases: cases.withDefaults(), begun: time.Now(), configured: map[Running]bool{}}
	defer c.end()
	if err := c.start(); err != nil {
		return nil, err
	}
	c.report = &Report{Plugin: c.about.Name, Version: c.about.Version, Interfaces: c.about.Interfaces, Seed: c.cases.Seed}
	c.complete()
	for _, rule := range Rules() {
		c.report.Results = append(c.report.Results, Result{Rule: rule, Promise: rule.Promise(), Outcome: Pass})
	}
	for _, step := range []struct {
		rule Rule
		run  func(*judge)
	}{
		{RuleDescribe, c.describe},
		{RuleAnswers, c.answers},
		{RulePanic, c.odd},
		{RuleDeterministic, c.deterministic},
		{RuleConfig, c.config},
		{RuleReconnect, c.reconnect},
		{RuleOrder, c.order},
		{RuleIdempotent, c.idempotent},
		{RuleChanges, c.changes},
		{RuleDeadline, c.withdrawn},
		{RuleValid, c.valid},
		{RuleBounded, c.bounded},
		{RuleStop, c.stop},
	} {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("check plugin %s: %w", c.about.Name, err)
		}
		c.run(step.rule, step.run)
	}
	c.noteOneSided()
	c.report.Took = time.Since(c.begun)
	return c.report, nil
}

// checker checks one plugin. Owner: the goroutine of Check.
type checker struct {
	ctx    context.Context //nolint:containedctx // of the whole check
	target Target
	cases  Cases
	about  *pluginv1.DescribeResponse
	words  *words
	report *Report
	shared Running // asked by rules that need no fresh start; nil: none yet
	alone  bool    // sessions share no run of the plugin, because they disturb each other
	begun  time.Time
	told   bool // in some scene a class allowed some nodes and refused others

	configured map[Running]bool
}

// start finds out what the plugin is.
func (c *checker) start() error {
	running, err := c.target.Start(c.ctx)
	if err != nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	c.shared = running
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	c.about, err = running.Client().Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "sdktest", Protocol: 1})
	if err != nil {
		return fmt.Errorf("ask the plugin what it is: %w", err)
	}
	return nil
}

func (c *checker) end() {
	if c.shared != nil {
		c.shared.Kill()
	}
}

func (c *checker) is(interfaceName string) bool {
	return slices.Contains(c.about.Interfaces, interfaceName)
}

// complete draws up what the plugin is asked where the cases do not say.
func (c *checker) complete() {
	switch {
	case !c.is(sdk.InterfaceFilter):
		c.cases.Classes = nil
	case len(c.cases.Classes) == 0:
		c.cases.Classes = suggestClasses(c.about.Job)
	}
	switch {
	case !c.is(sdk.InterfaceJobType):
		c.cases.Jobs = nil
	case len(c.cases.Jobs) == 0:
		for _, t := range c.about.JobTypes {
			c.cases.Jobs = append(c.cases.Jobs, Job("first-"+t, t), Job("second-"+t, t))
		}
	}
	c.words = wordsOf(c.cases, c.about)
	draw := c.cases.Node
	if draw == nil {
		draw = c.words.node
	}
	c.cases.Node = func(r *rand.Rand, id cluster.NodeID) *cluster.Node { return seen(draw(r, id), c.about.Watches) }
}

// judge is the test of one rule. Its hosts end with it.
type judge struct {
	c        *checker
	rule     Rule
	r        *rand.Rand
	seed     uint64
	sent     func() string // what the plugin was told, for a violation
	cleanups []func()
	notes    []string
	asked    []Running // in sessions
}

// stopped is the panic with which a judge ends.
type stopped struct{ violation Violation }

// Helper is part of T.
func (j *judge) Helper() {}

// Cleanup is part of T.
func (j *judge) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }

// Fatalf is part of T.
func (j *judge) Fatalf(format string, args ...any) {
	j.broken(Violation{Rule: RuleProtocol, Got: fmt.Sprintf(format, args...)})
}

// broken ends the judge with a violation.
func (j *judge) broken(v Violation) {
	if v.Rule == "" {
		v.Rule = j.rule
	}
	if v.Sent == "" && j.sent != nil {
		v.Sent = j.sent()
	}
	v.Advice, v.Seed = v.Rule.Advice(), j.c.cases.Seed
	panic(stopped{v})
}

func (j *judge) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

// clean ends what the judge began, the latest first.
func (j *judge) clean() {
	for i := len(j.cleanups) - 1; i >= 0; i-- {
		j.cleanups[i]()
	}
	j.cleanups = nil
}

// try runs a judge once and returns the violation with which it ended, or nil.
func (c *checker) try(rule Rule, seed uint64, run func(*judge)) (notes []string, v *Violation) {
	j := &judge{c: c, rule: rule, r: rand.New(rand.NewPCG(c.cases.Seed, seed)), seed: seed}
	defer func() {
		notes = j.notes
		if x := recover(); x != nil {
			s, ok := x.(stopped)
			if !ok {
				panic(fmt.Sprintf("%v\n%s", x, debug.Stack()))
			}
			v = &s.violation
			j.explainEnd(v)
		}
		j.clean()
		if v != nil && c.shared != nil && !j.alive() {
			c.shared.Kill()
			c.shared = nil
		}
	}()
	run(j)
	return nil, nil
}

// reapTime is how long a process that broke its session is given to be seen to have ended.
const reapTime = 500 * time.Millisecond

// explainEnd says of a session that ended that the plugin did, if so. What it was asked is allowed, so ending is as bad as a panic.
func (j *judge) explainEnd(v *Violation) {
	if !v.ended || j.rule == RuleStop {
		return
	}
	for _, running := range j.asked {
		if running.Ended() == nil {
			continue
		}
		timer := time.NewTimer(reapTime)
		select {
		case <-running.Ended():
			v.Rule, v.Got = RulePanic, v.Got+"; the plugin has ended"
			if e, ok := running.(interface{ Ending() string }); ok {
				v.Got += ": " + e.Ending()
			}
			v.Advice = v.Rule.Advice()
		case <-timer.C:
		}
		timer.Stop()
	}
}

// alive reports whether the shared run of the plugin still answers.
func (j *judge) alive() bool {
	ctx, cancel := context.WithTimeout(j.c.ctx, 2*time.Second)
	defer cancel()
	_, err := j.c.shared.Client().Describe(ctx, &pluginv1.DescribeRequest{})
	return err == nil
}

// run checks one rule and records what came of it.
func (c *checker) run(rule Rule, check func(*judge)) {
	begun := time.Now()
	result := c.report.Result(rule)
	if why := c.inapplicable(rule); why != "" {
		if result.Outcome == Pass {
			result.Outcome, result.Why = Skip, why
			if c.report.Result(RuleDeterministic).Outcome == Fail {
				result.Outcome = Blocked
			}
		}
		return
	}
	notes, v := c.try(rule, 0, check)
	result.Took += time.Since(begun)
	result.Notes = append(result.Notes, notes...)
	if v == nil {
		return
	}
	c.blame(*v)
	if v.Rule != rule && result.Outcome == Pass {
		result.Outcome, result.Why = Blocked, fmt.Sprintf("the rule %q is broken", v.Rule)
	}
}

const maxViolations = 5 // of one rule that are recorded

func (c *checker) blame(v Violation) {
	result := c.report.Result(v.Rule)
	result.Outcome, result.Why = Fail, ""
	if len(result.Violations) < maxViolations {
		v.Advice, v.Seed = v.Rule.Advice(), c.cases.Seed
		result.Violations = append(result.Violations, v)
	}
}

// inapplicable says why a rule is not checked, or "".
func (c *checker) inapplicable(rule Rule) string {
	asks := len(c.cases.Classes) > 0 || len(c.cases.Jobs) > 0
	comparing := rule == RuleConfig || rule == RuleReconnect || rule == RuleOrder || rule == RuleIdempotent || rule == RuleChanges
	switch {
	case comparing && c.report.Result(RuleDeterministic).Outcome == Fail:
		return fmt.Sprintf("answers cannot be compared while the rule %q is broken", RuleDeterministic)
	case (rule == RuleReconnect || rule == RuleOrder || rule == RuleChanges) && !asks && !c.is(sdk.InterfaceDrainer):
		return "there is no class and no job that the plugin answers"
	case (rule == RuleReconnect || rule == RuleOrder || rule == RuleChanges) && !asks:
		return "it is about filters and job types"
	}
	return ""
}

// fresh starts the plugin anew for this judge.
func (j *judge) fresh() Running {
	running, err := j.c.target.Start(j.c.ctx)
	if err != nil {
		j.broken(Violation{Rule: RuleProtocol, Got: "started again, it fails: " + err.Error()})
	}
	j.Cleanup(running.Kill)
	return running
}

// running returns a run of the plugin that others have used before.
func (j *judge) running() Running {
	if j.c.alone {
		return j.fresh()
	}
	if j.c.shared == nil {
		running, err := j.c.target.Start(j.c.ctx)
		if err != nil {
			j.broken(Violation{Rule: RuleProtocol, Got: "started again, it fails: " + err.Error()})
		}
		j.c.shared = running
	}
	return j.c.shared
}

// host opens a session with a run of the plugin.
func (j *judge) host(running Running, opts Options) *Host {
	opts.Config, opts.Deadline, opts.Patience = j.c.cases.Config, j.c.cases.Deadline, 3*j.c.cases.Deadline+2*time.Second
	j.asked = append(j.asked, running)
	first := !j.c.configured[running]
	j.c.configured[running] = true
	return openWith(j, running.Client(), opts, first)
}
