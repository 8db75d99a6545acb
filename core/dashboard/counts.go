package dashboard

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// counts are the sums at the top of the first page.
type counts struct {
	Nodes  []count
	Tasks  []count
	Jobs   int
	Total  int // nodes
	Places int // tasks that are not dead
}

// count is how many are in one state.
type count struct {
	Word  string
	Count int
	Link  string
}

// shownPhases are the phases in the order in which they are shown: what needs a look first, what has ended not at all.
var shownPhases = [...]cluster.Phase{
	cluster.PhaseStalled, cluster.PhaseLost, cluster.PhaseUnhealthy, cluster.PhasePending, cluster.PhaseStarting, cluster.PhaseStopping, cluster.PhaseRunning,
}

// sums returns how many nodes and tasks are in which state.
func (b *board) sums() (counts, error) {
	return b.counts.get(b.revision(), func() (counts, error) {
		s := b.view()
		var out counts
		nodes := map[string]int{}
		for n := range s.Nodes() {
			if !n.Spec.Decommissioned {
				nodes[nodeWord(n)]++
				out.Total++
			}
		}
		for _, word := range nodeWords {
			if n := nodes[word]; n > 0 {
				out.Nodes = append(out.Nodes, count{word, n, "/nodes?state=" + word})
			}
		}
		phases := s.Phases()
		for _, phase := range shownPhases {
			if n := phases[phase]; n > 0 {
				out.Tasks = append(out.Tasks, count{Word: string(phase), Count: n})
				out.Places += n
			}
		}
		_, out.Jobs, _, _ = s.Counts()
		return out, nil
	})
}

// nodeWords are the words for how a node is, in the order in which they are shown.
var nodeWords = [...]string{"down", "silent", "draining", "drained", "paused", "ready"}

// nodeWord returns one word for how a node is.
func nodeWord(n *cluster.Node) string {
	switch {
	case n.Status.State != cluster.NodeReady:
		return string(n.Status.State)
	case n.Spec.Availability == cluster.Pause:
		return "paused"
	case n.Spec.Availability == cluster.Drain && n.Drain.State == cluster.Drained:
		return "drained"
	case n.Spec.Availability == cluster.Drain:
		return "draining"
	}
	return string(cluster.NodeReady)
}

func isNodeWord(word string) bool { return slices.Contains(nodeWords[:], word) }
