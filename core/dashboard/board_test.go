package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestSlotsOfRefusedNodesAreNotWanted(t *testing.T) {
	limited := func(key string) *cluster.Slot {
		return slot("web", key, func(s *cluster.Slot) { s.Nodes = []cluster.NodeID{cluster.NodeID(key)} })
	}
	live := waiting("web/b/3")
	s := engine.Assemble("c1", 5, moment(0), job("web", 3), limited("a"), limited("b"), limited("c"), live, &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "web/c"}, Source: "core", Code: cluster.CodeNodePaused,
	})
	b := newBoard(Options{View: func() *engine.State { return s }, Now: func() time.Time { return start }})
	rows, err := b.jobRows()
	if err != nil || len(rows) != 1 || rows[0].Wanted != 2 || rows[0].State != "stalled" {
		t.Errorf("the job is %+v, %v", rows[0], err)
	}
}

func TestCausesAreGrouped(t *testing.T) {
	a, b, c := waiting("a/1/3"), waiting("a/2/3"), waiting("b/1/3")
	budget := &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "b/2"}, Source: "core", Code: cluster.CodeWaitingForBudget, Message: "2 of 3 up", Clears: "one more is up", Since: moment(2 * time.Second),
	}
	turn := &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectJob, ID: "b"}, Source: "core", Code: cluster.CodeWaitingForTurn}
	s := engine.Assemble("c1", 5, moment(time.Minute), job("a", 2), job("b", 2), a, b, c, groupStall(a, "disk == ssd"), groupStall(c, "disk == ssd"), budget, turn)
	got := causesOf(s, s.Stalls, s.Unsettled)
	if len(got) != 3 {
		t.Fatalf("there are %d causes", len(got))
	}
	if c := got[0]; c.Code != "constraint" || c.Detail != "disk == ssd" || c.Count != 3 || len(c.Members) != 2 || c.Members[0].Count != 2 || c.Members[1].Link != "/tasks/b/1/3" || c.Quiet {
		t.Errorf("the first is %+v", c)
	}
	if c := got[1]; c.Code != "waiting_for_budget" || c.Count != 1 || c.Clears != "one more is up" || c.Members[0].Link != "/jobs/b" {
		t.Errorf("the second is %+v", c)
	}
	if c := got[2]; c.Code != "waiting_for_turn" || !c.Quiet {
		t.Errorf("the last is %+v", c)
	}
	if list := (stallList{Causes: got}); list.Count() != 4 || list.Kinds() != 2 {
		t.Errorf("%d things wait for %d causes, want 4 for 2", list.Count(), list.Kinds())
	}
}

func TestMemoTakesItsShare(t *testing.T) {
	now := start
	looks := 0
	m := memo[int]{now: func() time.Time { return now }}
	get := func(revision uint64) int {
		v, err := m.get(revision, func() (int, error) {
			looks++
			now = now.Add(time.Second) // it takes that long
			return looks, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	get(1)
	now = now.Add(10 * time.Second)
	if get(2) != 1 {
		t.Error("what takes a second was looked for again after 10")
	}
	now = now.Add(5 * time.Second)
	if get(2) != 2 {
		t.Error("it was not looked for after 15")
	}
}

func TestMapOfManyNodesIsSmall(t *testing.T) {
	found := engine.InspectResult{}
	var records []any
	for i := range 10_000 {
		n := node(fmt.Sprintf("id%05d", i), fmt.Sprintf("n%d", i))
		if i == 7 {
			n.Status.State = cluster.NodeDown
		}
		records = append(records, n)
		found.Nodes = append(found.Nodes, engine.NodeUse{Node: n.ID, Reserved: cluster.Resources{MilliCPU: int64(i % 4000)}})
	}
	found.State = engine.Assemble("c1", 2, moment(0), records...)
	m := newNodeMap(found)
	if m.Rows[9].Name != "n9" || m.Rows[10].Name != "n10" || len(m.Blocks) != 100 || m.Scale != "small" {
		t.Errorf("there are %d blocks, %s, and node 10 is %s", len(m.Blocks), m.Scale, m.Rows[10].Name)
	}
	elements := 0
	for _, b := range m.Blocks {
		elements += 1 + len(b.Layers)
	}
	if elements > 500 {
		t.Errorf("the map has %d elements", elements)
	}
	if b := m.Blocks[0]; b.Label != "nodes n0 to n99: 1 down, 99 ready" || !strings.Contains(b.Names, "n7|down|") || b.Layers[0].Class != "cell is-down" || b.Layers[len(b.Layers)-1].Class != "mark is-down" {
		t.Errorf("the first block is %+v", b)
	}
	if rows := m.find("down", ""); len(rows) != 1 || rows[0].Name != "n7" {
		t.Errorf("what is down is %v", rows)
	}
	if rows := m.find("", "n999"); len(rows) != 11 {
		t.Errorf("%d nodes have n999 in their name", len(rows))
	}
}

func TestMatrixJoinsNodesThatAreAlike(t *testing.T) {
	why := &apiv1.WhyTaskResponse{Nearest: "n3"}
	for i := range 100 {
		n := &apiv1.WhyNode{Node: fmt.Sprintf("n%d", i), Reasons: []*apiv1.WhyReason{{Source: "constraint", Code: "constraint", Detail: "fails disk == ssd"}}}
		if i == 3 {
			n.Reasons = []*apiv1.WhyReason{{Source: "core", Code: "insufficient_resources", Detail: "lacks cpu (want 8, free 3)"}}
		}
		why.Nodes = append(why.Nodes, n)
	}
	m := newMatrix(why)
	if len(m.Columns) != 2 || m.Columns[0].Title != "fails disk == ssd" || m.Columns[0].Count != 99 || m.Columns[1].Title != "lacks cpu" {
		t.Errorf("the columns are %+v", m.Columns)
	}
	if len(m.Rows) != 2 || !m.Rows[0].Nearest || m.Rows[0].Cells[1] != "want 8, free 3" || m.Rows[0].Cells[0] != "" || m.Rows[1].Count != 99 || m.Rows[1].Cells[0] != "✕" {
		t.Errorf("the rows are %+v", m.Rows)
	}
}
