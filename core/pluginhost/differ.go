package pluginhost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// DifferenceKind is what two versions of a plugin answer differently.
type DifferenceKind string

// The kinds of difference.
const (
	DifferentVerdict    DifferenceKind = "verdict"    // of a filter, about a job's tasks on a node
	DifferentSlot       DifferenceKind = "slot"       // of a job type
	DifferentTransition DifferenceKind = "transition" // of a drainer, about a task on a node that is drained
)

// Difference is one thing that a candidate answers in another way than the plugin that serves.
type Difference struct {
	Kind      DifferenceKind
	Jobs      []string // whose tasks it is about, sorted
	Node      string   // name; "" for a whole class or a slot
	Slot      string
	Task      string
	Serving   string // what the plugin that serves says
	Candidate string // what the candidate says
}

// Comparison is what came of asking a candidate all that the serving plugin was asked.
type Comparison struct {
	Serving, Candidate string // versions; Serving is "" if the plugin never described itself
	Revision           cluster.Revision
	Nodes              int // that were looked at
	Classes            int
	Jobs               int          // whose slots were looked at
	Drains             int          // nodes that are drained
	Unjudged           int          // verdicts, slots and drains that could not be compared, because the plugin that serves has not answered them yet
	Differences        []Difference // the first maxDifferences
	Total              int          // differences
}

const maxDifferences = 10_000

func (c *Comparison) add(d Difference) {
	if c.Total++; c.Total <= maxDifferences {
		c.Differences = append(c.Differences, d)
	}
}

// compare returns in what the answers differ from what was said before.
func (a *answers) compare() Comparison {
	u := &a.ask.Update
	out := Comparison{Revision: u.Revision, Nodes: len(u.Nodes), Classes: len(u.AddClasses), Jobs: len(u.AddJobs), Drains: len(u.Drains)}
	for _, c := range u.AddClasses {
		a.compareClass(c.ID, &out)
	}
	for _, j := range u.AddJobs {
		a.compareSlots(j.Name, &out)
	}
	for _, q := range u.Drains {
		a.compareDrain(q, &out)
	}
	return out
}

func (a *answers) compareClass(id uint32, out *Comparison) {
	said, now := a.ask.Classes[id], a.classes[id]
	if !said.Answered {
		out.Unjudged += len(a.ask.Update.Nodes)
		return
	}
	was, is := wholeVerdict(said.Verdict), wholeVerdict(now)
	if was != "" || is != "" {
		if was == "" {
			was = "judges each node"
		}
		if is == "" {
			is = "judges each node"
		}
		if was != is {
			out.add(Difference{Kind: DifferentVerdict, Jobs: said.Jobs, Serving: was, Candidate: is})
		}
		return
	}
	old, fresh := newNodeVerdicts(said.Verdict.Full), newNodeVerdicts(now.Full)
	for _, n := range a.ask.Update.Nodes {
		i := n.Index
		if a.ask.Pending.Get(int(i)) || said.Late.Get(int(i)) {
			out.Unjudged++
			continue
		}
		if was, is := old.on(i), fresh.on(i); was != is {
			out.add(Difference{Kind: DifferentVerdict, Jobs: said.Jobs, Node: a.nodeName(i), Serving: was, Candidate: is})
		}
	}
}

// wholeVerdict returns what a verdict says of all nodes at once; "" if it judges each.
func wholeVerdict(v engine.ClassVerdict) string {
	switch {
	case v.Failure != nil:
		return "fails: " + v.Failure.Message
	case v.Stall != nil:
		return "refuses the job: " + v.Stall.Message
	case v.Indifferent:
		return "does not care"
	case v.Full == nil:
		return "says nothing"
	}
	return ""
}

// nodeVerdicts is a full verdict by node.
type nodeVerdicts struct {
	*engine.FullVerdict
	reasons map[uint32]uint32
}

func newNodeVerdicts(f *engine.FullVerdict) nodeVerdicts {
	out := nodeVerdicts{f, make(map[uint32]uint32, len(f.Nodes))}
	for k, i := range f.Nodes {
		out.reasons[i] = f.Reasons[k]
	}
	return out
}

func (v nodeVerdicts) on(i uint32) string {
	rank := ""
	if int(i) < len(v.Ranks) && v.Ranks[i] != 0 {
		rank = fmt.Sprintf(", rank %d", v.Ranks[i])
	}
	if hasBit(v.Allowed, i) {
		return "allowed" + rank
	}
	k, ok := v.reasons[i]
	if !ok || int(k) >= len(v.Rejections) {
		return "refused"
	}
	r := v.Rejections[k]
	text := "refused: " + string(r.Code)
	if r.Detail != "" {
		text += " (" + r.Detail + ")"
	}
	if r.Evicts {
		text += ", evicts"
	}
	return text
}

func (a *answers) compareSlots(job string, out *Comparison) {
	said, now := a.ask.Slots[job], a.slots[job]
	if !said.Answered {
		out.Unjudged++
		return
	}
	was, is := wholeSlots(said.Stall, nil), wholeSlots(now.Stall, now.Failure)
	if was != is {
		out.add(Difference{Kind: DifferentSlot, Jobs: []string{job}, Serving: cmp.Or(was, "names slots"), Candidate: cmp.Or(is, "names slots")})
	}
	if was != "" || is != "" {
		return
	}
	type pair struct{ was, is string }
	all := map[cluster.SlotKey]pair{}
	for _, s := range said.Slots {
		all[s.Key] = pair{was: a.slotText(s), is: "not wanted"}
	}
	for _, s := range now.Upsert {
		p, ok := all[s.Key]
		if !ok {
			p.was = "not wanted"
		}
		p.is = a.slotText(s)
		all[s.Key] = p
	}
	for _, key := range sortedKeys(all) {
		if p := all[key]; p.was != p.is {
			out.add(Difference{Kind: DifferentSlot, Jobs: []string{job}, Slot: string(key), Serving: p.was, Candidate: p.is})
		}
	}
}

func wholeSlots(stall *engine.StallAnswer, failure *engine.FailureAnswer) string {
	switch {
	case failure != nil:
		return "fails: " + failure.Message
	case stall != nil:
		return "holds the job: " + stall.Message
	}
	return ""
}

func (a *answers) slotText(s engine.SlotAnswer) string {
	text := "running"
	if s.Ends {
		text = "complete"
	}
	if len(s.Nodes) > 0 {
		text += " on " + strings.Join(a.nodeNames(s.Nodes), ", ")
	}
	if s.Stall != nil {
		text += ", held: " + s.Stall.Message
	}
	return text
}

func (a *answers) compareDrain(q engine.DrainQuestion, out *Comparison) {
	said, now := a.ask.Drains[q.Node], a.drains[q.ID]
	if !said.Answered {
		out.Unjudged++
		return
	}
	node := a.nodeName(q.Node)
	if now.Failure != nil {
		out.add(Difference{Kind: DifferentTransition, Node: node, Serving: "answers", Candidate: "fails: " + now.Failure.Message})
		return
	}
	was, is := leaving(said.Transitions, said.Kept), leaving(now.Transitions, now.Kept)
	for _, t := range q.Tasks {
		id := t.Task.ID
		before, after := cmp.Or(was[id], "says nothing"), cmp.Or(is[id], "says nothing")
		if before != after {
			out.add(Difference{Kind: DifferentTransition, Jobs: []string{t.Task.Job}, Node: node, Task: string(id), Serving: before, Candidate: after})
		}
	}
}

// leaving returns by task what a drainer says of it.
func leaving(transitions []cluster.Transition, kept []engine.KeptAnswer) map[cluster.TaskID]string {
	out := map[cluster.TaskID]string{}
	for _, t := range slices.SortedFunc(slices.Values(transitions), func(a, b cluster.Transition) int { return cmp.Compare(a.Task, b.Task) }) {
		how := "voluntary"
		if t.Strength == cluster.Forced {
			how = "forced"
		}
		out[t.Task] = fmt.Sprintf("to %s, %s", t.To, how)
	}
	for _, k := range kept {
		text := "kept: " + cmp.Or(k.Stall.Message, string(k.Stall.Code))
		if earlier := out[k.Task]; earlier != "" {
			text = earlier + ", " + text
		}
		out[k.Task] = text
	}
	return out
}
