package engine

import (
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// TrialLabels asks what filters would have to judge to say which running tasks other labels of a node would move. It changes nothing and returns Trial.
type TrialLabels struct {
	Node   string
	Set    map[string]string
	Remove []string
}

// Trial is what is to be judged before a node's labels change: the node as it would be, and the classes of the tasks that run there.
type Trial struct {
	Node    IndexedNode
	Filters []TrialFilter // those that are up and have a say, in the order of their names
}

// TrialFilter is what one filter is to judge.
type TrialFilter struct {
	Plugin  string
	Classes []Class                     // in the order of their ids
	Tasks   map[uint32][]cluster.TaskID // by class: tasks that may run there now
}

// Moves returns the tasks that a filter's answers about the changed node would move.
func (f *TrialFilter) Moves(node uint32, verdicts []ClassVerdict) []cluster.TaskID {
	var out []cluster.TaskID
	for _, v := range verdicts {
		c := class{}
		c.take(v)
		if v.Failure != nil || v.Stall != nil || v.Indifferent || c.allowed.Get(int(node)) {
			continue
		}
		if r, _ := c.rejection(node); r.Evicts {
			out = append(out, f.Tasks[v.Class]...)
		}
	}
	slices.Sort(out)
	return out
}

func (TrialLabels) op() {}

func (e *Engine) trialLabels(op TrialLabels) (any, error) {
	n, err := e.node(op.Node)
	if err != nil {
		return nil, err
	}
	would := *n
	would.Spec.Labels = relabelled(n.Spec.Labels, op.Set, op.Remove)
	i := e.index[n.ID]
	out := Trial{Node: IndexedNode{Index: i, Node: &would}}
	for _, name := range e.pluginNames {
		p := e.plugins[name]
		if !p.up || !p.info.Filter {
			continue
		}
		f := TrialFilter{Plugin: name, Tasks: map[uint32][]cluster.TaskID{}}
		for t := range e.work.TasksOn(n.ID) {
			j := e.work.Job(t.Job)
			if j == nil || t.Dead() || !t.Desired.State.Wanted() || j.Control.Spec.OnDrift == cluster.DriftKeep || e.evicts(p, j, t.Placement.Node) {
				continue
			}
			id := e.jobClasses[t.Job][name]
			f.Tasks[id] = append(f.Tasks[id], t.ID)
		}
		for _, id := range slices.Sorted(maps.Keys(f.Tasks)) {
			if c := p.classes[id]; c != nil {
				f.Classes = append(f.Classes, c.Class)
			}
		}
		if len(f.Classes) > 0 {
			out.Filters = append(out.Filters, f)
		}
	}
	return out, nil
}

// relabelled returns labels with some set and some removed.
func relabelled(labels, set map[string]string, remove []string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, set)
	for _, k := range remove {
		delete(out, k)
	}
	return out
}
