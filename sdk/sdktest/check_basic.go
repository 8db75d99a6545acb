package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// call gives a context for one call.
func (j *judge) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(j.c.ctx, 3*j.c.cases.Deadline+2*time.Second)
}

// describe checks what the plugin says of itself, and that it says the same later and in another run.
func (c *checker) describe(j *judge) {
	d := c.about
	for _, missing := range describedBadly(d) {
		c.blame(Violation{Rule: RuleDescribe, Sent: "Describe", Got: missing})
	}
	again := func(when string, running Running) {
		ctx, cancel := j.call()
		defer cancel()
		got, err := running.Client().Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "another", Protocol: 1})
		if err != nil {
			j.broken(Violation{Rule: RuleDescribe, Sent: "Describe " + when, Got: err.Error()})
		}
		if !proto.Equal(d, got) {
			j.broken(Violation{Rule: RuleDescribe, Sent: "Describe " + when, Got: fmt.Sprint(got), Want: "as before: " + fmt.Sprint(d)})
		}
	}
	running := j.running()
	again("a second time", running)
	h := j.host(running, Options{})
	again("after it was configured, in a session", running)
	h.Close()
	again("in another run", j.fresh())
}

var watchWords = []sdk.Watch{
	sdk.WatchLabels, sdk.WatchAttributes, sdk.WatchPlatform, sdk.WatchCapacity, sdk.WatchAvailability, sdk.WatchState,
}

// describedBadly returns what is missing or wrong in a description.
func describedBadly(d *pluginv1.DescribeResponse) []string {
	var out []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(strings.Trim(d.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || d.Name == "", "the name %q: want lower-case letters, digits, - and _", d.Name)
	add(d.Version == "", "no version")
	add(d.Protocol == 0, "no protocol version; this is protocol 1")
	known := []string{sdk.InterfaceFilter, sdk.InterfaceDrainer, sdk.InterfaceJobType}
	add(!slices.ContainsFunc(d.Interfaces, func(x string) bool { return slices.Contains(known, x) }), "the interfaces %q: none of them is known (%s)",
		d.Interfaces, strings.Join(known, ", "))
	add(slices.Contains(d.Interfaces, sdk.InterfaceJobType) != (len(d.JobTypes) > 0), "the interfaces %q and the job types %q do not go together", d.Interfaces, d.JobTypes)
	for _, t := range d.JobTypes {
		add(cluster.ValidateName(t) != nil, "the job type %q: %v", t, cluster.ValidateName(t))
		add(t == cluster.TypeReplicated || t == cluster.TypeBatch, "the job type %q is the core's own", t)
	}
	for _, w := range d.Watches {
		add(!slices.Contains(watchWords, sdk.Watch(w)), "it watches %q, which is no group of node fields (%s)", w, watchWords)
	}
	for where, schema := range map[string]*pluginv1.Schema{"config": d.Config, "job": d.Job} {
		out = append(out, schemaBadly(where, schema)...)
	}
	slices.Sort(out)
	return out
}

func schemaBadly(where string, s *pluginv1.Schema) []string {
	var out []string
	seen := map[string]bool{}
	name := func(n string) {
		if n == "" || seen[n] {
			out = append(out, fmt.Sprintf("the schema of %s has the name %q twice or empty", where, n))
		}
		seen[n] = true
	}
	for _, a := range s.GetAttributes() {
		name(a.Name)
		kind, _, _ := strings.Cut(a.Type, "(")
		if !slices.Contains([]string{"string", "number", "bool", "any", "list", "set", "map"}, kind) {
			out = append(out, fmt.Sprintf("the schema of %s gives %s the type %q", where, a.Name, a.Type))
		}
		if a.DefaultJson != "" && !json.Valid([]byte(a.DefaultJson)) {
			out = append(out, fmt.Sprintf("the schema of %s gives %s the default %s, which is not JSON", where, a.Name, a.DefaultJson))
		}
	}
	for _, b := range s.GetBlocks() {
		name(b.Name)
		out = append(out, schemaBadly(where+"."+b.Name, b.Block)...)
	}
	return out
}

// answers asks each class, job and drain of the cases once, and leaves those out of all that follows that are not answered.
func (c *checker) answers(j *judge) {
	nodes := j.drawNodes(12)
	var classes []sdk.CompileRequest
	for _, req := range c.cases.Classes {
		_, v := c.try(RuleAnswers, 1, func(j *judge) {
			j.sent = func() string { return classText(req) + "\nnodes: " + nodesText(nodes) }
			h := j.host(j.running(), Options{})
			h.SetNodes(nodes...)
			class := h.RegisterClass(req)
			h.await("an answer about the class", class.answered)
			if f := class.Answer().Failure; f != nil {
				h.fail(ruleOf(f), "%s", failureText(f))
			}
			h.Close()
		})
		if v == nil {
			classes = append(classes, req)
			continue
		}
		c.blame(*v)
	}
	var jobs []sdk.Job
	for _, job := range c.cases.Jobs {
		_, v := c.try(RuleAnswers, 1, func(j *judge) {
			j.sent = func() string { return jobText(job) + "\nnodes: " + nodesText(nodes) }
			h := j.host(j.running(), Options{})
			h.SetNodes(nodes...)
			if f := h.AddJob(job).Failure; f != nil {
				h.fail(ruleOf(f), "%s", failureText(f))
			}
			h.Close()
		})
		if v == nil {
			jobs = append(jobs, job)
			continue
		}
		c.blame(*v)
	}
	if missing := len(c.cases.Classes) + len(c.cases.Jobs) - len(classes) - len(jobs); missing > 0 {
		j.note("%d of the cases were not answered and are left out of the other rules", missing)
	}
	c.cases.Classes, c.cases.Jobs = classes, jobs
	if c.is(sdk.InterfaceDrainer) {
		h := j.host(j.running(), Options{})
		h.SetNodes(nodes...)
		req := j.drawDrain("n00")
		j.sent = func() string { return strings.TrimPrefix(j.drainSent(req), "\n") }
		j.drain(h, req)
		h.Close()
	}
}

// answered reports whether the class has an answer. It is called with the host's lock held.
func (c *Class) answered() bool { return c.host.classes[c.id].answered }

// config has the plugin take up its configuration again, and wrong ones.
func (c *checker) config(j *judge) {
	running := j.fresh()
	nodes := j.drawNodes(8)
	j.sent = func() string { return "Validate with the configuration " + c.configText() }
	c.validate(j, running, c.cases.Config)
	h := j.host(running, Options{})
	h.SetNodes(nodes...)
	asked := c.cases.register(h)
	before := asked.answers()
	for _, bad := range wrongConfigs(c.about.Config, c.cases.Config) {
		j.sent = func() string { return "Validate and Configure with " + shortenTo(bad, 200) }
		c.refused(j, running, bad)
	}
	j.sent = func() string { return "Configure with " + c.configText() + ", once more\nnodes: " + nodesText(nodes) }
	if d := h.Configure(c.cases.Config); isRefusal(d) {
		j.broken(Violation{Got: diagnosticText(d), Want: "no error, as before"})
	}
	h.Repeat() // what is answered at a later revision follows the new configuration
	if v := before.differ(c.cases, asked.answers()); v != nil {
		j.broken(*v)
	}
}

func (c *checker) configText() string {
	if c.cases.Config == "" {
		return "{}"
	}
	return shortenTo(c.cases.Config, 200)
}

func (c *checker) validate(j *judge, running Running, config string) {
	ctx, cancel := j.call()
	defer cancel()
	resp, err := running.Client().Validate(ctx, &pluginv1.ValidateRequest{What: &pluginv1.ValidateRequest_ConfigJson{ConfigJson: config}})
	switch {
	case err != nil:
		j.broken(Violation{Got: err.Error(), Want: "diagnostics, or none"})
	case isRefusal(resp.Diagnostics):
		j.broken(Violation{Got: diagnosticText(resp.Diagnostics), Want: "no error: the configuration that is checked with must be a good one"})
	}
}

// refused sends a wrong configuration. The daemon checks the schema before, so a plugin may take it, but it must not break, and what it says must lead
// somewhere.
func (c *checker) refused(j *judge, running Running, config string) {
	ctx, cancel := j.call()
	defer cancel()
	v, err := running.Client().Validate(ctx, &pluginv1.ValidateRequest{What: &pluginv1.ValidateRequest_ConfigJson{ConfigJson: config}})
	if status.Code(err) == codes.Internal || status.Code(err) == codes.Unavailable {
		j.broken(Violation{Rule: RulePanic, Got: err.Error(), Want: "diagnostics"})
	}
	if !isRefusal(v.GetDiagnostics()) {
		return // it would take it, and then it is no longer known what it answers
	}
	d, err := running.Client().Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: config})
	if status.Code(err) == codes.Internal || status.Code(err) == codes.Unavailable {
		j.broken(Violation{Rule: RulePanic, Got: err.Error(), Want: "diagnostics"})
	}
	if err == nil && !isRefusal(d.GetDiagnostics()) {
		j.broken(Violation{Got: "Configure takes it", Want: "an error, as Validate says: " + diagnosticText(v.Diagnostics)})
	}
	for _, x := range append(v.Diagnostics, d.GetDiagnostics()...) {
		if x.Summary == "" {
			j.broken(Violation{Got: "a diagnostic without a summary", Want: "a sentence that says what is wrong"})
		}
	}
}

// wrongConfigs returns configurations that do not fit the schema.
func wrongConfigs(schema *pluginv1.Schema, good string) []string {
	out := []string{`{"no_such_setting_here":1}`, `[]`, `{`}
	var base map[string]any
	if json.Unmarshal([]byte(good), &base) != nil || base == nil {
		base = map[string]any{}
	}
	with := func(key string, value any, drop bool) {
		changed := map[string]any{}
		for k, v := range base {
			changed[k] = v
		}
		if changed[key] = value; drop {
			delete(changed, key)
		}
		if text, err := json.Marshal(changed); err == nil {
			out = append(out, string(text))
		}
	}
	for _, a := range schema.GetAttributes() {
		if a.Required {
			with(a.Name, nil, true)
		}
		if a.Type != "any" {
			with(a.Name, []any{map[string]any{"wrong": true}}, false)
		}
	}
	return out
}

func isRefusal(d []*pluginv1.Diagnostic) bool {
	return slices.ContainsFunc(d, func(x *pluginv1.Diagnostic) bool { return !x.Warning })
}

func diagnosticText(d []*pluginv1.Diagnostic) string {
	var out []string
	for _, x := range d {
		text := x.Summary
		if x.Detail != "" {
			text += ": " + x.Detail
		}
		var path []string
		for _, s := range x.Path {
			path = append(path, strings.Trim(fmt.Sprint(s.GetAttribute(), s.GetKey()), " "))
		}
		if len(path) > 0 {
			text = strings.Join(path, ".") + ": " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// withdrawn withdraws questions and classes and asks others.
func (c *checker) withdrawn(j *judge) {
	h := j.host(j.running(), Options{})
	nodes := j.drawNodes(12)
	h.SetNodes(nodes...)
	req := j.drawDrain(drainedNode(nodes))
	for range 20 {
		switch {
		case len(c.cases.Classes) > 0:
			q := &pluginv1.TrialQuestion{}
			for i, req := range c.cases.Classes {
				q.Classes = append(q.Classes, wireClass(uint32(i), 1, req))
			}
			h.askAndCancel(&pluginv1.Question{Ask: &pluginv1.Question_Trial{Trial: q}})
		case c.is(sdk.InterfaceDrainer):
			h.askAndCancel(&pluginv1.Question{Ask: &pluginv1.Question_Drain{Drain: h.drainQuestion(req)}})
		}
	}
	for i := range 20 {
		if len(c.cases.Classes) > 0 {
			h.RegisterClass(c.cases.Classes[i%len(c.cases.Classes)]).Remove()
		}
		if len(c.cases.Jobs) > 0 {
			job := c.cases.Jobs[i%len(c.cases.Jobs)]
			h.RegisterJob(job)
			h.RemoveJob(job.Name)
		}
	}
	j.sent = func() string {
		return "20 questions that are withdrawn at once, 20 classes and jobs that are too; then all classes and jobs\nnodes: " + nodesText(nodes)
	}
	begun := time.Now()
	c.cases.register(h).answers()
	if took := time.Since(begun); took > c.cases.Deadline {
		j.broken(Violation{Got: fmt.Sprintf("answers after %s", took.Round(time.Millisecond)), Want: fmt.Sprintf("within %s", c.cases.Deadline)})
	}
	h.Close()
}

func drainedNode(nodes []*cluster.Node) cluster.NodeID {
	if len(nodes) == 0 {
		return "n00"
	}
	return nodes[0].ID
}

// stop tells the plugin to end, in the middle of a session.
func (c *checker) stop(j *judge) {
	const grace = 2 * time.Second
	running := j.fresh()
	h := j.host(running, Options{})
	nodes := j.drawNodes(12)
	h.SetNodes(nodes...)
	c.cases.register(h).answers()
	j.sent = func() string { return fmt.Sprintf("Stop with a grace of %s, in a session", grace) }
	ctx, cancel := context.WithTimeout(c.ctx, 2*grace)
	defer cancel()
	begun := time.Now()
	_, err := running.Client().Stop(ctx, &pluginv1.StopRequest{GraceNs: int64(grace)})
	took := time.Since(begun)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		j.broken(Violation{Got: fmt.Sprintf("no answer within %s", 2*grace), Want: "an answer within the grace"})
	case err != nil && status.Code(err) != codes.Unavailable: // it may take its answer with it
		j.broken(Violation{Got: err.Error(), Want: "an answer"})
	case took >= grace:
		j.broken(Violation{Got: fmt.Sprintf("an answer after %s, when the grace was over", took.Round(time.Millisecond)), Want: "what runs ends when its context does"})
	}
	if running.Ended() == nil {
		return
	}
	timer := time.NewTimer(max(grace-took, 0) + time.Second)
	defer timer.Stop()
	select {
	case <-running.Ended():
	case <-timer.C:
		j.broken(Violation{Got: fmt.Sprintf("it still runs %s after it was told to stop", time.Since(begun).Round(time.Millisecond)), Want: "it ends"})
	}
}
