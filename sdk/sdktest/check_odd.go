package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// oddTexts are values that are allowed and seldom thought of.
var oddTexts = []string{"", " ", "0", "-1", "1e999", "ünïcödé ✓", strings.Repeat("x", 256), "..", "a=b", "*", "[", "(", "%s", "true", "null"}

// oddNodes returns nodes that there may be.
func (j *judge) oddNodes() []*cluster.Node {
	out := []*cluster.Node{{ID: "bare"}, Node("plain")}
	for i, text := range oddTexts {
		n := Node(fmt.Sprintf("odd%02d", i))
		for _, k := range j.c.words.keys {
			n.Spec.Labels[k], n.Description.Attributes[k] = text, text
		}
		n.Description.Hostname, n.Description.Arch, n.Description.OS, n.Description.Version = text, text, text, text
		n.Description.Addresses, n.Description.Drivers = []string{text, text}, []string{text}
		out = append(out, n)
	}
	odd := Node("numbers")
	odd.Description.Capacity = cluster.Resources{MilliCPU: math.MaxInt64, Memory: -1, Units: map[string]int64{"gpu": math.MinInt64, "": 0}}
	gone := Node("gone")
	gone.Spec.Decommissioned, gone.Spec.Availability, gone.Status.State = true, "unheard-of", "unheard-of"
	many := Node("many")
	for i := range 500 {
		many.Spec.Labels[fmt.Sprintf("label-%d", i)] = "x"
		many.Description.Attributes[fmt.Sprintf("attribute-%d", i)] = "x"
	}
	return append(out, odd, gone, many)
}

// oddSettings returns settings of jobs that somebody may write, most of them wrong.
func oddSettings(schema *pluginv1.Schema) []string {
	out := []string{`{}`, `null`, `[]`, `"x"`, `{`, `{"":""}`, `{"no_such_setting":{"a":[1,{"b":null}]}}`, strings.Repeat(`[`, 1000)}
	for _, a := range schema.GetAttributes() {
		values := []any{nil, "", -1, 0, 1e308, true, []any{}, map[string]any{}, []any{"", "%", "[", "(", "\u0000"}}
		for _, text := range oddTexts {
			values = append(values, text, []any{text})
		}
		for _, v := range values {
			block := suggestBlock(schema, 0, false)
			block[a.Name] = v
			if text, err := json.Marshal(block); err == nil {
				out = append(out, string(text))
			}
		}
	}
	for _, b := range schema.GetBlocks() {
		for _, v := range []any{nil, "x", map[string]any{}, []any{}, []any{map[string]any{}, nil}} {
			block := suggestBlock(schema, 0, false)
			block[b.Name] = v
			if text, err := json.Marshal(block); err == nil {
				out = append(out, string(text))
			}
		}
	}
	return out
}

// odd tells and asks the plugin what is allowed but unusual.
func (c *checker) odd(j *judge) {
	c.oddWorld(j)
	c.oddClasses(j)
	c.oddJobs(j)
	c.oddDrains(j)
	c.oddCalls(j)
}

// oddWorld shows odd nodes one by one, and none at all.
func (c *checker) oddWorld(j *judge) {
	h := j.host(j.running(), Options{})
	defer h.Close()
	h.SetNodes()
	j.sent = func() string { return "no node at all" }
	asked := c.cases.register(h)
	asked.answers()
	for _, n := range j.oddNodes() {
		j.sent = func() string { return "a node: " + nodeText(n) }
		h.SetNodes(n)
		asked.answers()
	}
}

const classesAtOnce = 64

func (c *checker) oddClasses(j *judge) {
	if !c.is(sdk.InterfaceFilter) {
		return
	}
	h := j.host(j.running(), Options{})
	defer h.Close()
	h.SetNodes(j.drawNodes(3)...)
	for _, text := range oddSettings(c.about.Job) {
		req := sdk.CompileRequest{JobType: "odd type", Labels: map[string]string{"": "", "k": "\u0000"}, Settings: sdk.Settings(text)}
		j.sent = func() string { return classText(req) }
		class := h.RegisterClass(req)
		h.await("an answer about the class", class.answered)
		if f := class.Answer().Failure; f != nil && f.Kind != "error" {
			h.fail(ruleOf(f), "%s", failureText(f))
		}
		class.Remove()
	}
	j.sent = func() string { return fmt.Sprintf("%d classes at once", classesAtOnce) }
	for i := range classesAtOnce {
		h.RegisterClass(sdk.CompileRequest{JobType: fmt.Sprint("type-", i)})
	}
	h.Settle()
}

func (c *checker) oddJobs(j *judge) {
	if !c.is(sdk.InterfaceJobType) {
		return
	}
	h := j.host(j.running(), Options{})
	defer h.Close()
	h.SetNodes(append(j.drawNodes(3), j.oddNodes()...)...)
	ask := func(job sdk.Job) {
		j.sent = func() string { return jobText(job) + fmt.Sprintf(" (count %d)", job.Count) }
		if f := h.AddJob(job).Failure; f != nil && f.Kind != "error" {
			h.fail(ruleOf(f), "%s", failureText(f))
		}
	}
	for _, t := range c.about.JobTypes {
		for _, count := range []int{0, -1, math.MinInt64, 1000} {
			ask(sdk.Job{Name: "odd", Type: t, Count: count})
		}
		for _, text := range oddSettings(c.about.Job) {
			ask(sdk.Job{Name: "odd", Type: t, Count: 1, Settings: sdk.Settings(text)})
		}
	}
}

func (c *checker) oddDrains(j *judge) {
	if !c.is(sdk.InterfaceDrainer) {
		return
	}
	h := j.host(j.running(), Options{})
	defer h.Close()
	node := Node("n00")
	for i, text := range append([]string{"{"}, oddTexts...) {
		task := Task("odd", 1)
		task.ID, task.Job, task.Slot, task.JobType, task.OnDrain = cluster.TaskID(text), text, cluster.SlotKey(text), text, cluster.OnDrain(text)
		task.Priority, task.Labels, task.Settings = math.MinInt64, map[string]string{text: text}, sdk.Settings(text)
		if i%2 == 0 {
			task = sdk.DrainTask{ID: "odd/1/1"}
		}
		req := sdk.DrainRequest{Node: node, Waited: -time.Second, Deadline: math.MaxInt64, Tasks: []sdk.DrainTask{task, task}[:1+i%2]}
		j.sent = func() string { return strings.TrimPrefix(j.drainSent(req), "\n") }
		h.UpdateNode(req.Node)
		if _, f := h.Drain(req); f != nil && f.Kind != "error" {
			h.fail(ruleOf(f), "%s", failureText(f))
		}
	}
}

// oddCalls checks settings of jobs that are wrong.
func (c *checker) oddCalls(j *judge) {
	client := j.running().Client()
	for _, text := range oddSettings(c.about.Job) {
		j.sent = func() string { return "Validate with a job's settings " + shortenTo(text, 200) }
		ctx, cancel := context.WithTimeout(c.ctx, 3*c.cases.Deadline)
		_, err := client.Validate(ctx, &pluginv1.ValidateRequest{
			What: &pluginv1.ValidateRequest_JobJson{JobJson: text}, Job: &pluginv1.CompileRequest{JobType: "odd", SettingsJson: text},
		})
		cancel()
		if code := status.Code(err); code == codes.Internal || code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Unknown {
			j.broken(Violation{Got: err.Error(), Want: "diagnostics"})
		}
	}
}
