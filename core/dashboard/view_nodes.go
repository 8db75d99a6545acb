package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// nodeList is some of the nodes.
type nodeList struct {
	Rows []*nodeRow
	Pages
	Query, State string
	States       []count
}

// nodesView is the map of all nodes, and a list of those that are looked for.
func (d *Dashboard) nodesView(a *ask) (*view, error) {
	query, state := strings.TrimSpace(a.URL.Query().Get("q")), a.URL.Query().Get("state")
	if !isNodeWord(state) {
		state = ""
	}
	return &view{title: "Nodes", tab: "nodes", frame: "nodes.html", fixed: nodeList{Query: query, State: state}, regions: func(ctx context.Context) ([]region, error) {
		m, err := d.board.nodeBoard(ctx)
		if err != nil {
			return nil, err
		}
		list := nodeList{Query: query, State: state}
		number := map[string]int{}
		for _, r := range m.Rows {
			number[r.Word]++
		}
		for _, word := range nodeWords {
			if n := number[word]; n > 0 {
				list.States = append(list.States, count{word, n, "/nodes?state=" + word})
			}
		}
		list.Rows, list.Pages = pageOf(a, m.find(state, query))
		return append(mapRegions(m), region{"states", "states.html", list}, region{"nodes", "nodetable.html", list}), nil
	}}, nil
}

// nodeDetail is what a node's page shows besides its tasks.
type nodeDetail struct {
	*nodeRow
	Node     *cluster.Node
	Stalls   []*cluster.Stall
	Deadline time.Time // when the drain's deadline ends the waiting; zero: there is none
	Operator bool
	Actions  []*action
}

// Draining reports whether the node is being emptied.
func (n nodeDetail) Draining() bool { return n.Node.Drain.State == cluster.Draining }

func (d *Dashboard) nodeView(a *ask) (*view, error) {
	name := a.PathValue("name")
	if d.board.view().NodeNamed(name) == nil {
		return nil, notFound("node", name)
	}
	after, all := cluster.TaskID(a.URL.Query().Get("from")), a.URL.Query().Get("all") != ""
	return &view{
		title: name, tab: "nodes", frame: "node.html", fixed: name, status: http.StatusOK, tail: &eventTail{api: a.session.api, pages: d.pages, node: name, show: 20},
		regions: func(ctx context.Context) ([]region, error) {
			s := d.board.view()
			n := s.NodeNamed(name)
			if n == nil {
				return nil, notFound("node", name)
			}
			detail := nodeDetail{Node: n, Stalls: s.StallsOf(cluster.Subject{Kind: cluster.SubjectNode, ID: string(n.ID)}), Operator: a.session.operator()}
			m, err := d.board.nodeBoard(ctx)
			if err != nil {
				return nil, err
			}
			detail.nodeRow = m.row(n.ID)
			if detail.nodeRow == nil { // it was decommissioned, or has just joined
				detail.nodeRow = rowOfNode(s, n, nil)
			}
			now := *detail.nodeRow
			now.Word, detail.nodeRow = nodeWord(n), &now
			if left := n.Spec.DrainSince.Engine + n.Spec.DrainDeadline - s.Now.Engine; n.Spec.DrainDeadline > 0 && left > 0 && detail.Draining() {
				detail.Deadline = n.Spec.DrainSince.WallTime().Add(n.Spec.DrainDeadline)
			}
			if detail.Operator {
				detail.Actions = actionsOfNode(n)
			}
			tasks := tasksOf(s, "", n.ID, after, all)
			tasks.Path = "/nodes/" + name
			return []region{{"node", "nodehead.html", detail}, {"tasks", "tasktable.html", tasks}}, nil
		},
	}, nil
}

// Percent returns how much of cpu or memory is reserved.
func (n nodeDetail) Percent(of string) int {
	if of == "cpu" {
		return percent(n.CPUUsed, n.CPU)
	}
	return percent(n.MemUsed, n.Mem)
}

// row returns a node of the map, or nil.
func (m *nodeMap) row(id cluster.NodeID) *nodeRow {
	for _, r := range m.Rows {
		if r.ID == id {
			return r
		}
	}
	return nil
}
