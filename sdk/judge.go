package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// judgement is the result of asking a filter about one class. Owner: the computation that makes it, then the loop.
type judgement struct {
	matcher Matcher // nil: indifferent, or stall is set
	stall   *Stall
	full    *verdicts // of all nodes, or
	flips   []flip    // of those that changed
	again   time.Duration
}

// flip is a changed verdict.
type flip struct {
	index uint32
	gone  bool // no node any more
	stall *Stall
	rank  int8
}

// judge is one asking of a filter.
type judge struct {
	plugin   *Plugin
	deadline time.Duration
	req      CompileRequest
}

// ask brings a class's answer, whose matcher or stall is in out, to a view.
func (j *judge) ask(ctx context.Context, v *view, prior *verdicts, ch changes, out *judgement) error {
	if ch.compile {
		out.matcher, out.stall = nil, nil
		if err := j.compile(ctx, out); err != nil {
			return err
		}
	}
	switch {
	case out.matcher == nil:
		return nil
	case ch.compile || ch.all || prior == nil:
		return j.all(ctx, v, out)
	}
	return j.changed(v, prior, ch.nodes, out)
}

// compile asks the filter for a matcher.
func (j *judge) compile(ctx context.Context, out *judgement) error {
	ctx, cancel := context.WithTimeout(ctx, j.deadline)
	defer cancel()
	req := j.req
	if req.Settings != "" {
		full, err := j.plugin.Job.complete(req.Settings)
		if err != nil {
			out.stall = badSettings(err)
			return nil
		}
		req.Settings = full
	}
	m, err := j.plugin.Filter.Compile(ctx, req)
	if s, ok := asStall(err); ok && s != nil {
		out.stall = s
		return nil
	} else if !ok && err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	out.matcher = m
	if e, ok := m.(Expirer); ok {
		out.again = e.Expires()
	}
	return nil
}

// badSettings holds what a job's settings ask for until they fit the plugin's schema.
func badSettings(err error) *Stall {
	return &Stall{Code: "settings_invalid", Message: "the job's settings do not fit this plugin: " + err.Error(), Clears: "the job's settings are corrected"}
}

// all matches every node of the view.
func (j *judge) all(ctx context.Context, v *view, out *judgement) error {
	out.full = newVerdicts(len(v.entries))
	ranker, _ := out.matcher.(Ranker)
	for i, e := range v.entries {
		if e == nil {
			continue
		}
		if i%1024 == 0 && ctx.Err() != nil {
			return errDropped
		}
		stall, rank, err := match(out.matcher, ranker, e.get())
		if err != nil {
			return err
		}
		out.full.set(uint32(i), out.full.number(j.plugin.Name, stall), rank)
	}
	return nil
}

// changed matches changed nodes and reports those of which prior says something else.
func (j *judge) changed(v *view, prior *verdicts, nodes []nodeChange, out *judgement) error {
	ranker, _ := out.matcher.(Ranker)
	for _, ch := range nodes {
		n := v.node(ch.index)
		if n == nil {
			out.flips = append(out.flips, flip{index: ch.index, gone: true})
			continue
		}
		stall, rank, err := match(out.matcher, ranker, n)
		if err != nil {
			return err
		}
		if ch.fresh || !prior.says(ch.index, stall, rank) {
			out.flips = append(out.flips, flip{index: ch.index, stall: stall, rank: rank})
		}
	}
	return nil
}

// says reports whether the verdict on a node is this one already. It only reads.
func (v *verdicts) says(index uint32, s *Stall, rank int8) bool {
	reason := v.reason(index)
	if s == nil {
		return reason == allowed && v.rank(index) == rank
	}
	r := rejection{code: s.Code, detail: s.Detail, clears: s.Clears, evicts: s.Evicts}
	if r.detail == "" {
		r.detail = s.Message
	}
	n, ok := v.numbers[r]
	return ok && n == reason && v.rank(index) == rank
}

// match asks about one node.
func match(m Matcher, ranker Ranker, n *cluster.Node) (*Stall, int8, error) {
	if err := m.Match(n); err != nil {
		s, ok := asStall(err)
		if !ok {
			return nil, 0, fmt.Errorf("match node %s: %w", n.ID, err)
		}
		if s != nil {
			return s, 0, nil
		}
	}
	if ranker == nil {
		return nil, 0, nil
	}
	return nil, int8(max(-100, min(100, ranker.Rank(n)))), nil
}
