package api

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/near"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// meant adds to the refusal of a name that is none which of those that there are is spelled almost like it. Other errors are returned as they are.
func (a *API) meant(err error) error {
	var op *engine.OpError
	if !errors.As(err, &op) || op.Kind != engine.NotFound || op.Name == "" {
		return err
	}
	question := near.Question(a.near(op.What, op.Name))
	if question == "" {
		return err
	}
	better := *op
	better.Hint = strings.TrimSpace(question + " " + op.Hint)
	return &better
}

// near returns the names of things of a kind that are spelled almost like one.
func (a *API) near(what, name string) []string {
	s := a.opts.Engine.View()
	switch what {
	case "job":
		return near.To(name, jobNames(s))
	case "node":
		return near.To(name, nodeNames(s))
	case "plugin":
		var names []string
		for _, p := range a.opts.Plugins.Plugins() {
			names = append(names, p.Name)
		}
		return near.To(name, slices.Values(names))
	case "secret":
		var names []string
		if a.opts.Secrets != nil {
			for _, x := range a.opts.Secrets.List() {
				names = append(names, x.Name)
			}
		}
		return near.To(name, slices.Values(names))
	case "task":
		return nearTasks(s, name)
	}
	return nil
}

// nearTasks returns that slot of a job that is spelled almost so; for a name without a slot, which is none of a task, the first of that job.
func nearTasks(s *engine.State, name string) []string {
	job, rest, hasSlot := strings.Cut(name, "/")
	slot, _, _ := strings.Cut(rest, "/")
	var out []string
	for _, job := range near.To(job, jobNames(s)) {
		if hasSlot && s.Slot(job, cluster.SlotKey(slot)) != nil {
			out = append(out, job+"/"+slot)
		}
		for first := range s.EachSlot(job) {
			if !hasSlot {
				out = append(out, job+"/"+string(first.Key))
			}
			break
		}
	}
	return out
}

func jobNames(s *engine.State) iter.Seq[string] {
	return func(yield func(string) bool) {
		for j := range s.Jobs() {
			if !yield(j.Name) {
				return
			}
		}
	}
}

func nodeNames(s *engine.State) iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := range s.Nodes() {
			if !yield(n.Spec.Name) {
				return
			}
		}
	}
}
