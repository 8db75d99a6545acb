package sdktest

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// deterministic starts the plugin several times and asks each run the same.
func (c *checker) deterministic(j *judge) {
	nodes := j.drawNodes(12)
	req := j.drawDrain("n00")
	j.sent = func() string { return "in each of several runs, nodes: " + nodesText(nodes) + j.drainSent(req) }
	var first *answers
	var firstDrain *pluginv1.DrainAnswer
	for range freshStarts {
		h := j.host(j.fresh(), Options{})
		h.SetNodes(nodes...)
		got := c.cases.register(h).answers()
		if first == nil {
			first = &got
			c.look(got)
		} else if v := first.differ(c.cases, got); v != nil {
			j.broken(*v)
		}
		if c.is(sdk.InterfaceDrainer) {
			drain := j.drain(h, req)
			if firstDrain == nil {
				firstDrain = drain
			} else if v := differDrains(firstDrain, drain).violation("the drain"); v != nil {
				j.broken(*v)
			}
		}
		h.Close()
	}
}

// look notes whether a class treats nodes of one scene differently.
func (c *checker) look(a answers) {
	for _, x := range a.classes {
		if n := len(x.Allowed()); x.Verdicts != nil && n > 0 && n < len(x.Verdicts) {
			c.told = true
		}
	}
}

// noteOneSided tells of classes that say little, because all nodes were treated alike in each scene.
func (c *checker) noteOneSided() {
	if len(c.cases.Classes) == 0 || c.told {
		return
	}
	result := c.report.Result(RuleChanges)
	result.Notes = append(result.Notes, "in no scene a class allows some of the drawn nodes and refuses others, so the comparisons show little; "+
		"give settings that nodes with labels such as disk=ssd or zone=1 meet")
}

// reconnect cuts a session and compares what the next one says with a run that saw no other.
func (c *checker) reconnect(j *judge) {
	running := j.fresh()
	for round := range freshStarts {
		before, nodes := j.drawScene(round+4), j.drawNodes(8)
		j.sent = func() string {
			return "first session, cut in the middle:\n  " + before.String() + "\nnext session, nodes: " + nodesText(nodes)
		}
		cut := j.host(running, Options{})
		cut.SetNodes(before.first...)
		c.cases.register(cut).answers()
		for _, s := range before.steps {
			cut.Apply(s.change)
		}
		cut.Close()
		next := j.host(running, Options{})
		next.SetNodes(nodes...)
		got := c.cases.register(next).answers()
		next.Close()
		fresh := j.host(j.fresh(), Options{})
		fresh.SetNodes(nodes...)
		want := c.cases.register(fresh).answers()
		fresh.Close()
		if v := want.differ(c.cases, got); v != nil {
			c.alone = true // sessions disturb each other, so what follows gets a run for each
			j.broken(*v)
		}
	}
}

// order asks the same with everything in another order and other sizes of messages.
func (c *checker) order(j *judge) {
	for range c.cases.Rounds {
		nodes := j.drawNodes(j.r.IntN(13))
		other := shuffled(j.r, nodes)
		j.sent = func() string {
			return "nodes: " + nodesText(nodes) + "\nthen in another session, nodes: " + nodesText(other) + ", classes and jobs in the opposite order"
		}
		base := j.host(j.running(), Options{})
		base.SetNodes(nodes...)
		want := c.cases.register(base).answers()
		c.look(want)
		base.Close()

		back := c.cases
		back.Classes, back.Jobs = slices.Clone(c.cases.Classes), slices.Clone(c.cases.Jobs)
		slices.Reverse(back.Classes)
		slices.Reverse(back.Jobs)
		h := j.host(j.running(), Options{MaxMessageBytes: smallMessages, NodesPerMessage: 3})
		asked := back.register(h)
		h.SetNodes(other...)
		got := asked.answers()
		h.Close()
		slices.Reverse(got.classes)
		slices.Reverse(got.jobs)
		if v := want.differ(c.cases, got); v != nil {
			j.broken(*v)
		}
	}
}

// idempotent tells and asks the same again.
func (c *checker) idempotent(j *judge) {
	for range min(c.cases.Rounds, 10) {
		nodes := j.drawNodes(1 + j.r.IntN(8))
		h := j.host(j.running(), Options{})
		h.SetNodes(nodes...)
		asked := c.cases.register(h)
		want := asked.answers()
		check := func(what string) {
			j.sent = func() string { return "nodes: " + nodesText(nodes) + "\nthen: " + what }
			if v := want.differ(c.cases, asked.answers()); v != nil {
				j.broken(*v)
			}
		}
		var ids []cluster.NodeID
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		h.Repeat(ids...)
		check("all nodes are sent once more, unchanged")
		for i, class := range asked.classes {
			class.Replace(c.cases.Classes[i])
		}
		for _, job := range c.cases.Jobs {
			h.AddJob(job)
		}
		check("all classes and jobs are registered once more, unchanged")
		if len(c.cases.Classes) > 0 {
			j.sent = func() string { return "nodes: " + nodesText(nodes) + "\nthen: all classes as a trial" }
			trial := answers{classes: h.Try(c.cases.Classes), jobs: want.jobs}
			h.blameFailures(trial)
			if v := want.differ(c.cases, trial); v != nil {
				j.broken(*v)
			}
		}
		c.drainTwice(j, h, nodes[0])
		h.Close()
	}
}

func (c *checker) drainTwice(j *judge, h *Host, node *cluster.Node) {
	if !c.is(sdk.InterfaceDrainer) {
		return
	}
	req := j.drawDrain(node.ID)
	j.sent = func() string { return "twice in one session" + j.drainSent(req) }
	first := j.drain(h, req)
	if v := differDrains(first, j.drain(h, req)).violation("the second time"); v != nil {
		j.broken(*v)
	}
}

// changes compares answers that followed changes with those to somebody who asks from scratch.
func (c *checker) changes(j *judge) {
	for round := range c.cases.Rounds {
		s := j.drawScene(round)
		if v := c.play(j, s); v != nil {
			s, v = c.shrink(s, v)
			v.Sent = s.String() + "\ncompared with a session that is told the outcome only"
			j.broken(*v)
		}
	}
}

// play plays a scene and returns where the answers afterwards are not those that they should be.
func (c *checker) play(j *judge, s scene) *Violation {
	j.sent = s.String
	h := j.host(j.running(), Options{MaxMessageBytes: smallMessages})
	defer h.Close()
	h.SetNodes(s.first...)
	asked := c.cases.register(h)
	for _, st := range s.steps {
		h.Apply(st.change)
		if st.wait {
			h.Settle()
		}
	}
	got := asked.answers()
	c.look(got)
	fresh := j.host(j.running(), Options{})
	defer fresh.Close()
	fresh.SetNodes(s.after()...)
	return c.cases.register(fresh).answers().differ(c.cases, got)
}

// shrinkTime is how long a smaller scene that shows the same is looked for.
const shrinkTime = 5 * time.Second

// shrink looks for a smaller scene after which the answers differ as well.
func (c *checker) shrink(s scene, v *Violation) (scene, *Violation) {
	end := time.Now().Add(shrinkTime)
	for {
		found := false
		for _, less := range s.smaller() {
			if time.Now().After(end) || c.ctx.Err() != nil {
				return s, v
			}
			var differs *Violation
			_, other := c.try(RuleChanges, 0, func(j *judge) { differs = c.play(j, less) })
			if other == nil && differs != nil {
				s, v, found = less, differs, true
				break
			}
		}
		if !found {
			return s, v
		}
	}
}

// drainSent tells a drain in a line of its own, if the plugin is asked about drains at all.
func (j *judge) drainSent(req sdk.DrainRequest) string {
	if !j.c.is(sdk.InterfaceDrainer) {
		return ""
	}
	return fmt.Sprintf("\na drain of %s with %s", nodeText(req.Node), tasksText(req.Tasks))
}
