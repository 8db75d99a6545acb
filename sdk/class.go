package sdk

import (
	"context"
	"fmt"
	"slices"
	"time"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// class is what a filter is asked about jobs of one class, and its answer. Owner: the session's loop.
type class struct {
	standing
	id       uint32
	revision uint64
	msg      *pluginv1.Class // as it was given
	ctx      context.Context //nolint:containedctx // of all computations about the class
	judge    judge

	matcher  Matcher
	stall    *Stall // cannot be compiled
	verdicts *verdicts
	expires  time.Time // zero: never

	renew     bool // the next answer sent is a full one
	flipped   []uint32
	sentTable int // how much of the table of rejections was sent
}

func newClass(ctx context.Context, p *Plugin, msg *pluginv1.Class, deadline time.Duration) *class {
	c := &class{id: msg.Id, revision: msg.Revision, msg: msg, renew: true}
	c.name = fmt.Sprintf("class %d", msg.Id)
	c.judge = judge{plugin: p, deadline: deadline, req: compileRequest(msg.Request)}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

func compileRequest(req *pluginv1.CompileRequest) CompileRequest {
	return CompileRequest{JobType: req.GetJobType(), Labels: req.GetLabels(), Settings: Settings(req.GetSettingsJson())}
}

func (c *class) state() *standing { return &c.standing }

// stands reports whether the answer does not depend on nodes, so that it holds at any revision.
func (c *class) stands() bool {
	return !c.busy && c.at > 0 && c.failed == nil && c.matcher == nil
}

func (c *class) prepare(v *view, ch changes) computation {
	return &judging{class: c, view: v, changes: ch, prior: c.verdicts, out: judgement{matcher: c.matcher, stall: c.stall}}
}

// judging is one asking of the filter about a class.
type judging struct {
	class   *class
	view    *view
	changes changes
	prior   *verdicts
	out     judgement
	err     error
}

func (j *judging) compute() {
	c := j.class
	j.err = guard(func() error { return c.judge.ask(c.ctx, j.view, j.prior, j.changes, &j.out) })
}

func (j *judging) take() (time.Duration, error) {
	if j.err != nil {
		return 0, j.err
	}
	return j.class.take(&j.out, j.changes.compile), nil
}

// take makes a judgement the class's answer and returns after how long it expires, zero for never.
func (c *class) take(out *judgement, compiled bool) time.Duration {
	had := c.answer()
	if compiled {
		c.expires = time.Time{}
		if out.again > 0 {
			c.expires = time.Now().Add(out.again)
		}
	}
	c.matcher, c.stall = out.matcher, out.stall
	switch {
	case out.full != nil:
		if c.verdicts == nil || c.failed != nil || !c.verdicts.same(out.full) {
			c.verdicts, c.renew = out.full, true
		}
	case out.matcher == nil:
		c.verdicts = nil
		c.renew = c.renew || c.failed != nil || had != c.answer()
	default:
		c.flip(out.flips)
	}
	if c.renew || len(c.flipped) > 0 {
		c.unsent = true
	}
	if c.expires.IsZero() {
		return 0
	}
	return max(time.Until(c.expires), time.Millisecond)
}

// answer is what the class says as a whole: nil for indifferent, a stall, or the verdicts.
func (c *class) answer() any {
	switch {
	case c.stall != nil:
		return *c.stall
	case c.verdicts != nil:
		return c.verdicts
	}
	return nil
}

func (c *class) flip(flips []flip) {
	for _, f := range flips {
		if f.gone {
			c.verdicts.set(f.index, unjudged, 0)
			continue
		}
		c.verdicts.set(f.index, c.verdicts.number(c.judge.plugin.Name, f.stall), f.rank)
		c.flipped = append(c.flipped, f.index)
	}
	if len(c.flipped) > len(c.verdicts.reasons) {
		c.renew = true
	}
	if c.verdicts.crowded() && c.sentTable > 0 && len(c.verdicts.table) > c.sentTable {
		c.todo = changes{all: true}
	}
}

// messages returns what is to be said about the class, in parts that fit into messages of the given size, and notes that it has been said.
func (c *class) messages(limit int) []*pluginv1.ClassVerdict {
	c.unsent = false
	head := &pluginv1.ClassVerdict{Class: c.id, ClassRevision: c.revision}
	switch {
	case c.failed != nil:
		head.Answer = &pluginv1.ClassVerdict_Failure{Failure: c.failed}
		c.renew = true
		return []*pluginv1.ClassVerdict{head}
	case c.stall != nil:
		head.Answer = &pluginv1.ClassVerdict_Stall{Stall: wireStall(c.judge.plugin.Name, c.stall)}
	case c.verdicts == nil:
		head.Answer = &pluginv1.ClassVerdict_Indifferent{Indifferent: &pluginv1.Indifferent{}}
	case c.renew:
		c.renew, c.flipped, c.sentTable = false, nil, len(c.verdicts.table)
		return fullParts(head, c.verdicts, c.untilNs(), limit)
	default:
		slices.Sort(c.flipped)
		nodes := slices.Compact(c.flipped)
		table := c.verdicts.table[c.sentTable:]
		c.flipped, c.sentTable = nil, len(c.verdicts.table)
		return flipParts(head, c.verdicts, table, nodes, limit)
	}
	c.renew, c.flipped, c.sentTable = false, nil, 0
	return []*pluginv1.ClassVerdict{head}
}

func (c *class) untilNs() int64 {
	if c.expires.IsZero() {
		return 0
	}
	return max(int64(time.Until(c.expires)), 1)
}

func wireStall(plugin string, s *Stall) *pluginv1.Stall {
	return &pluginv1.Stall{
		Code: cut(qualified(plugin, s.Code)), Message: cut(s.Message), Detail: cut(s.Detail), Clears: cut(s.Clears), Evicts: s.Evicts,
	}
}
