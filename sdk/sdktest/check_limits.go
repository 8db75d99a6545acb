package sdktest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Bounds of what a plugin may say.
const (
	manyNodes     = 4000
	maxRejections = 16   // of one class about nodes of two kinds
	maxText       = 1024 // bytes of a code, message or detail
	maxProblems   = 100  // of one session
	spareSlots    = 100  // beyond two for each node and the job's count
)

// bounded shows the plugin many nodes of two kinds, and then changes one.
func (c *checker) bounded(j *judge) {
	h := j.host(j.running(), Options{MaxMessageBytes: smallMessages})
	defer h.Close()
	nodes := Nodes(manyNodes, nil)
	model := c.cases.Node(j.r, "n00")
	for i, n := range nodes {
		if nodes[i] = seen(n, c.about.Watches); i%2 == 0 {
			nodes[i].Spec.Labels, nodes[i].Description.Attributes = model.Spec.Labels, model.Description.Attributes
		}
	}
	j.sent = func() string {
		return fmt.Sprintf("%d nodes, of which each second one is like the other: %s", manyNodes, nodesText(nodes[:2]))
	}
	h.SetNodes(nodes...)
	asked := c.cases.register(h)
	a := asked.answers()
	for i, x := range a.classes {
		if v := boundedAnswer(x); v != nil {
			v.Got = classText(c.cases.Classes[i]) + ": " + v.Got
			j.broken(*v)
		}
	}
	for i := range a.jobs {
		if most := 2*manyNodes + max(c.cases.Jobs[i].Count, 0) + spareSlots; len(a.jobs[i].Slots) > most {
			j.broken(Violation{Got: fmt.Sprintf("%s has %d slots", jobText(c.cases.Jobs[i]), len(a.jobs[i].Slots)), Want: fmt.Sprintf("%d at most", most)})
		}
	}
	if n := len(h.Problems()); n > maxProblems {
		j.broken(Violation{Got: fmt.Sprintf("%d problems shown to the operator", n), Want: fmt.Sprintf("%d at most, and few", maxProblems)})
	}
	c.oneChange(j, h, asked, nodes[7])
	c.manyTasks(j, h, nodes[7])
}

func boundedAnswer(x Answer) *Violation {
	distinct := map[Verdict]bool{}
	for _, v := range x.Verdicts {
		if !v.Allowed {
			distinct[v] = true
		}
		if n := max(len(v.Code), len(v.Detail), len(v.Clears)); n > maxText {
			return &Violation{Got: fmt.Sprintf("a text of %d bytes: %s", n, v), Want: fmt.Sprintf("%d at most", maxText)}
		}
	}
	if len(distinct) <= maxRejections {
		return nil
	}
	out := &Violation{Got: fmt.Sprintf("%d different reasons to refuse them, such as", len(distinct)), Want: "one or two: but for their names there are two kinds of nodes"}
	var reasons []string
	for v := range distinct {
		reasons = append(reasons, fmt.Sprintf(" [%s]", v))
	}
	slices.Sort(reasons)
	out.Got += strings.Join(reasons[:3], "")
	return out
}

// oneChange changes one node and counts what is said about it.
func (c *checker) oneChange(j *judge, h *Host, asked *asked, n *cluster.Node) {
	before := h.Messages()
	changed := *n
	changed.Spec.Labels = map[string]string{"disk": "changed", "zone": "changed"}
	changed.Description.Attributes = map[string]string{"kernel": "changed"}
	j.sent = func() string { return fmt.Sprintf("one of %d nodes changes: %s", manyNodes, nodeText(&changed)) }
	if !h.Apply(Change{Put: []*cluster.Node{&changed}}) {
		return
	}
	asked.answers()
	most := 2 + len(c.cases.Classes) + 2*len(c.cases.Jobs)
	if got := h.Messages() - before; got > most {
		j.broken(Violation{Got: fmt.Sprintf("%d messages", got), Want: fmt.Sprintf("%d at most: say what changed", most)})
	}
}

// manyTasks drains a node that is full.
func (c *checker) manyTasks(j *judge, h *Host, n *cluster.Node) {
	if !c.is(sdk.InterfaceDrainer) {
		return
	}
	req := sdk.DrainRequest{Node: n}
	for i := range 500 {
		req.Tasks = append(req.Tasks, j.drawTask(i))
	}
	j.sent = func() string { return "a drain of a node with 500 tasks, in messages of 16 KiB" }
	a := j.drain(h, req)
	for _, k := range a.Kept {
		if s := k.GetStall(); max(len(s.GetMessage()), len(s.GetDetail()), len(s.GetClears())) > maxText {
			j.broken(Violation{Got: fmt.Sprintf("a text of more than %d bytes about task %s", maxText, k.Task)})
		}
	}
}
