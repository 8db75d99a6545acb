package engine

import (
	"maps"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ledger is what is taken on each node by tasks that are not dead, by node index. It is derived from the state and kept in step with it.
//
// Owner: the engine's goroutine. place reads it and does not change it.
type ledger struct {
	nodes []*place.Node
	order []int32        // of names; nil: to be computed anew
	open  place.Bitmap   // nodes that may take something new
	count int            // nodes
	jobs  map[string]int // tasks by job

	jobsOnNode int // about how many jobs have tasks on a node, while nodes are loaded

	ranking   place.Ranking
	abilities place.Abilities
}

// reopen keeps up with whether a node may take something new.
func (l *ledger) reopen(i uint32) {
	l.ranking.Changed(int(i))
	if takes := l.nodes[i] != nil && l.nodes[i].Takes(); takes != l.open.Get(int(i)) {
		l.open = l.open.With(int(i), takes)
	}
}

// describe takes what a node is like now, and reports whether what it can do is another than before.
func (l *ledger) describe(i uint32, n *cluster.Node) bool {
	able := l.abilities.Describe(int(i), n)
	for len(l.nodes) <= int(i) {
		l.nodes = append(l.nodes, nil)
	}
	old := l.nodes[i]
	if old == nil {
		l.nodes[i] = &place.Node{Node: n, Free: n.Description.Capacity, PerJob: make(map[string]int, l.jobsOnNode), Ports: map[uint16]cluster.TaskID{}}
		l.order = nil
		l.count++
		l.reopen(i)
		return able
	}
	if old.Node.Spec.Name != n.Spec.Name {
		l.order = nil
	}
	old.Free = old.Free.Add(n.Description.Capacity.Sub(old.Node.Description.Capacity))
	old.Node = n
	l.reopen(i)
	return able
}

func (l *ledger) drop(i uint32) {
	for job, tasks := range l.nodes[i].PerJob {
		l.tally(job, -tasks)
	}
	l.nodes[i] = nil
	l.abilities.Describe(int(i), nil)
	l.order = nil
	l.count--
	l.reopen(i)
}

// tally counts tasks of a job.
func (l *ledger) tally(job string, by int) {
	if l.jobs == nil {
		l.jobs = map[string]int{}
	}
	if l.jobs[job] += by; l.jobs[job] == 0 {
		delete(l.jobs, job)
	}
}

func (l *ledger) take(i uint32, t *cluster.Task) {
	l.takeUncounted(&taking{i, t.ID, t.Job, t.Reserve.Resources, t.Placement.Ports})
	l.tally(t.Job, 1)
}

// taking is what one task takes on a node.
type taking struct {
	node      uint32
	task      cluster.TaskID
	job       string
	resources cluster.Resources
	ports     []cluster.PortGrant
}

// takeUncounted leaves it to the caller to tally the task. While the ledger is loaded, it may be called for several nodes at once.
func (l *ledger) takeUncounted(t *taking) {
	n := l.nodes[t.node]
	n.Free = n.Free.Sub(t.resources)
	n.Tasks++
	n.PerJob[t.job]++
	l.ranking.Changed(int(t.node))
	for _, p := range t.ports {
		n.Ports[p.Number] = t.task
	}
}

func (l *ledger) free(i uint32, t *cluster.Task) {
	if int(i) >= len(l.nodes) || l.nodes[i] == nil {
		return // the node's record is gone
	}
	n := l.nodes[i]
	n.Free = n.Free.Add(t.Reserve.Resources)
	n.Tasks--
	l.ranking.Changed(int(i))
	l.tally(t.Job, -1)
	if n.PerJob[t.Job]--; n.PerJob[t.Job] == 0 {
		delete(n.PerJob, t.Job)
	}
	for _, p := range t.Placement.Ports {
		if n.Ports[p.Number] == t.ID {
			delete(n.Ports, p.Number)
		}
	}
}

func (l *ledger) cluster() place.Cluster {
	if l.order == nil {
		l.order = place.NameOrder(l.nodes)
		l.ranking.Reset()
	}
	return place.Cluster{Nodes: l.nodes, Order: l.order, Open: l.open, Jobs: l.jobs}
}

// rank adds the order of the nodes' load to c, which the ledger returned. It lasts until something changes.
func (l *ledger) rank(c *place.Cluster) {
	l.ranking.Refresh(c)
	c.Ranking = &l.ranking
}

// use returns what is taken on every node, for people.
func (l *ledger) use() []NodeUse {
	var out []NodeUse
	for _, n := range l.nodes {
		if n == nil {
			continue
		}
		out = append(out, NodeUse{
			Node: n.Node.ID, Free: n.Free, Reserved: n.Node.Description.Capacity.Sub(n.Free), Ports: maps.Clone(n.Ports), Tasks: n.Tasks,
		})
	}
	return out
}
