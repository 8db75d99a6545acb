package sdktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// scene is a cluster and what happens to it.
type scene struct {
	first []*cluster.Node
	steps []step
}

// step is a change, after which the plugin may be waited for.
type step struct {
	change Change
	wait   bool
}

func drawnID(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("n%02d", i)) }

// drawNodes draws up to most nodes of distinct ids.
func (j *judge) drawNodes(most int) []*cluster.Node {
	var out []*cluster.Node
	for _, i := range j.r.Perm(12)[:min(most, 12)] {
		out = append(out, j.c.cases.Node(j.r, drawnID(i)))
	}
	return out
}

// drawScene draws a scene; later rounds have larger ones.
func (j *judge) drawScene(round int) scene {
	s := scene{first: j.drawNodes(j.r.IntN(2 + min(round, 8)))}
	known := map[cluster.NodeID]bool{}
	for _, n := range s.first {
		known[n.ID] = true
	}
	for range 1 + j.r.IntN(2+min(round, 6)) {
		s.steps = append(s.steps, step{change: j.drawChange(known), wait: j.r.IntN(2) == 0})
	}
	return s
}

func (j *judge) drawChange(known map[cluster.NodeID]bool) Change {
	var ch Change
	for range j.r.IntN(3) {
		if id := drawnID(j.r.IntN(12)); known[id] {
			delete(known, id)
			ch.Remove = append(ch.Remove, id)
		}
	}
	for _, i := range j.r.Perm(12)[:j.r.IntN(4)] {
		known[drawnID(i)] = true
		ch.Put = append(ch.Put, j.c.cases.Node(j.r, drawnID(i)))
	}
	return ch
}

// after returns the nodes that there are after a scene, by id.
func (s scene) after() []*cluster.Node {
	nodes := map[cluster.NodeID]*cluster.Node{}
	put := func(list []*cluster.Node) {
		for _, n := range list {
			nodes[n.ID] = n
		}
	}
	put(s.first)
	for _, st := range s.steps {
		for _, id := range st.change.Remove {
			delete(nodes, id)
		}
		put(st.change.Put)
	}
	var out []*cluster.Node
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		out = append(out, nodes[id])
	}
	return out
}

// smaller returns scenes with one thing less.
func (s scene) smaller() []scene {
	var out []scene
	for i := range s.steps {
		out = append(out, scene{first: s.first, steps: slices.Delete(slices.Clone(s.steps), i, i+1)})
	}
	for i := range s.first {
		out = append(out, scene{first: slices.Delete(slices.Clone(s.first), i, i+1), steps: s.steps})
	}
	for i, st := range s.steps {
		for k := range st.change.Put {
			steps := slices.Clone(s.steps)
			steps[i].change.Put = slices.Delete(slices.Clone(st.change.Put), k, k+1)
			out = append(out, scene{first: s.first, steps: steps})
		}
		for k := range st.change.Remove {
			steps := slices.Clone(s.steps)
			steps[i].change.Remove = slices.Delete(slices.Clone(st.change.Remove), k, k+1)
			out = append(out, scene{first: s.first, steps: steps})
		}
	}
	return out
}

// String tells the scene line by line.
func (s scene) String() string {
	lines := []string{"nodes: " + nodesText(s.first)}
	for _, st := range s.steps {
		var parts []string
		for _, id := range st.change.Remove {
			parts = append(parts, fmt.Sprintf("remove %s", id))
		}
		if len(st.change.Put) > 0 {
			parts = append(parts, "put "+nodesText(st.change.Put))
		}
		if len(parts) > 0 {
			lines = append(lines, "then:  "+strings.Join(parts, "; "))
		}
	}
	return strings.Join(lines, "\n")
}

const shownNodes = 8

func nodesText(nodes []*cluster.Node) string {
	var out []string
	for _, n := range nodes[:min(len(nodes), shownNodes)] {
		out = append(out, nodeText(n))
	}
	if more := len(nodes) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// nodeText shows a node's id and what sets it apart.
func nodeText(n *cluster.Node) string {
	var facts []string
	for _, k := range slices.Sorted(maps.Keys(n.Spec.Labels)) {
		facts = append(facts, shorten(k)+"="+shorten(n.Spec.Labels[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(n.Description.Attributes)) {
		facts = append(facts, "attributes."+shorten(k)+"="+shorten(n.Description.Attributes[k]))
	}
	for name, value := range map[string]string{"arch": n.Description.Arch, "availability": string(n.Spec.Availability)} {
		if value != "" && value != "amd64" && value != string(cluster.Active) {
			facts = append(facts, name+"="+shorten(value))
		}
	}
	slices.Sort(facts)
	if n.Spec.Decommissioned {
		facts = append(facts, "decommissioned")
	}
	return fmt.Sprintf("%s{%s}", shorten(string(n.ID)), strings.Join(facts, " "))
}

func shorten(text string) string {
	const most = 40
	if len(text) > most {
		text = text[:most] + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
		return fmt.Sprintf("%q", text)
	}
	return text
}

func classText(req sdk.CompileRequest) string {
	text := "a class of type " + req.JobType
	if req.JobType == "" {
		text = "a class"
	}
	if len(req.Labels) > 0 {
		text += fmt.Sprintf(" with labels %q", req.Labels)
	}
	if req.Settings == "" {
		return text + " without settings"
	}
	return text + " with settings " + shortenTo(string(req.Settings), 200)
}

func jobText(job sdk.Job) string {
	text := fmt.Sprintf("job %s of type %s, count %d", job.Name, job.Type, job.Count)
	if job.Settings != "" {
		text += ", settings " + shortenTo(string(job.Settings), 200)
	}
	return text
}

func shortenTo(text string, most int) string {
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// shuffled returns the elements in another order.
func shuffled[E any](r *rand.Rand, list []E) []E {
	out := slices.Clone(list)
	r.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}
