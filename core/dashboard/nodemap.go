package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// What a block of the map of nodes is drawn with. A block is one drawing, sent again when one of its nodes has changed; ten thousand nodes are a hundred drawings of
// a few paths each, not ten thousand elements.
const (
	blockSide = 10 // cells in a row, and rows
	cellSide  = 10 // in the drawing's units
	cellPitch = 12
	fillSteps = 8 // heights of a cell's filling that are told apart
)

// nodeRow is a node as lists and the map show it.
type nodeRow struct {
	ID      cluster.NodeID
	Name    string
	Word    string
	Since   time.Time
	Tasks   int
	CPUUsed int64 // thousandths of a core
	CPU     int64
	MemUsed int64 // bytes
	Mem     int64
	Fill    int // percent of what is scarcest
	Labels  map[string]string
	DrainOf int // tasks left to stop
	Stalled bool
}

// nodeMap is all nodes that were not decommissioned, by name.
type nodeMap struct {
	Rows   []*nodeRow
	Blocks []*block
	Scale  string // how large cells are drawn: large, medium, small
}

// block is a part of the map.
type block struct {
	ID     string
	First  int    // index of its first node
	Names  string // of its cells: name|word|percent
	Width  int    // in the drawing's units
	Height int
	scale  float64
	Layers []layer
	Label  string // for those who do not see it
}

// layer is all cells of a block that look alike.
type layer struct {
	Class string
	Path  string
}

// nodeBoard returns the map of nodes.
func (b *board) nodeBoard(ctx context.Context) (*nodeMap, error) {
	return b.nodes.get(b.revision(), func() (*nodeMap, error) {
		found, err := b.opts.Inspect(ctx)
		if err != nil {
			return nil, err
		}
		return newNodeMap(found), nil
	})
}

func newNodeMap(found engine.InspectResult) *nodeMap {
	uses := make(map[cluster.NodeID]*engine.NodeUse, len(found.Nodes))
	for i := range found.Nodes {
		uses[found.Nodes[i].Node] = &found.Nodes[i]
	}
	m := &nodeMap{}
	for n := range found.State.Nodes() {
		if !n.Spec.Decommissioned {
			m.Rows = append(m.Rows, rowOfNode(found.State, n, uses[n.ID]))
		}
	}
	slices.SortFunc(m.Rows, func(a, b *nodeRow) int { return cmp.Or(compareNames(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	scale := 0.8
	switch n := len(m.Rows); {
	case n <= 100:
		m.Scale, scale = "large", 2.2
	case n <= 2000:
		m.Scale, scale = "medium", 1.2
	default:
		m.Scale = "small"
	}
	for first := 0; first < len(m.Rows); first += blockSide * blockSide {
		b := newBlock(first, m.Rows[first:min(first+blockSide*blockSide, len(m.Rows))])
		b.scale = scale
		m.Blocks = append(m.Blocks, b)
	}
	return m
}

// Drawn returns how many pixels a length of the drawing takes.
func (b *block) Drawn(units int) int { return int(float64(units) * b.scale) }

func rowOfNode(s *engine.State, n *cluster.Node, use *engine.NodeUse) *nodeRow {
	r := &nodeRow{
		ID: n.ID, Name: n.Spec.Name, Word: nodeWord(n), Since: n.Status.Since.WallTime(), CPU: n.Description.Capacity.MilliCPU, Mem: n.Description.Capacity.Memory,
		Labels: n.Spec.Labels, DrainOf: n.Drain.Left,
	}
	if n.Status.State == cluster.NodeReady && n.Spec.Availability == cluster.Drain {
		r.Since = n.Drain.Since.WallTime()
	}
	r.Stalled = len(s.StallsOf(cluster.Subject{Kind: cluster.SubjectNode, ID: string(n.ID)})) > 0
	if use != nil {
		r.Tasks, r.CPUUsed, r.MemUsed = use.Tasks, use.Reserved.MilliCPU, use.Reserved.Memory
		r.Fill = max(percent(r.CPUUsed, r.CPU), percent(r.MemUsed, r.Mem))
		for name, has := range n.Description.Capacity.Units {
			r.Fill = max(r.Fill, percent(use.Reserved.Units[name], has))
		}
	}
	return r
}

// percent returns how much of a whole is taken, from 0 to 100.
func percent(part, whole int64) int {
	if whole <= 0 {
		return 0
	}
	return int(min(100, max(0, (part*100+whole/2)/whole)))
}

// compareNames orders names so that n2 comes before n10.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			if c := cmp.Or(cmp.Compare(len(strings.TrimLeft(a[:x], "0")), len(strings.TrimLeft(b[:y], "0"))), cmp.Compare(a[:x], b[:y])); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns how many digits a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// newBlock draws some nodes. Of each there is a cell, filled from below as far as the node is; a mark tells states apart for those who do not tell colours apart.
func newBlock(first int, rows []*nodeRow) *block {
	cells, fills, marks := map[string]*strings.Builder{}, map[string]*strings.Builder{}, map[string]*strings.Builder{}
	words := map[string]int{}
	names := make([]string, len(rows))
	for i, r := range rows {
		x, y := i%blockSide*cellPitch, i/blockSide*cellPitch
		fmt.Fprintf(at(cells, r.Word), "M%d %dh%dv%dh-%dz", x, y, cellSide, cellSide, cellSide)
		if step := (r.Fill*fillSteps + 99) / 100; step > 0 && r.Word != string(cluster.NodeDown) {
			h := float64(step) * cellSide / fillSteps
			fmt.Fprintf(at(fills, r.Word), "M%d %gh%dv%gh-%dz", x, float64(y+cellSide)-h, cellSide, h, cellSide)
		}
		mark(at(marks, r.Word), r.Word, x, y)
		words[r.Word]++
		names[i] = fmt.Sprintf("%s|%s|%d", r.Name, r.Word, r.Fill)
	}
	b := &block{
		ID: fmt.Sprintf("nodes-%d", first), First: first, Names: strings.Join(names, " "), Width: min(len(rows), blockSide)*cellPitch - cellPitch + cellSide,
		Height: (len(rows)-1)/blockSide*cellPitch + cellSide,
	}
	var said []string
	for _, word := range nodeWords {
		if n := words[word]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, word))
		}
		for kind, drawn := range map[string]*strings.Builder{"cell": cells[word], "fill": fills[word], "mark": marks[word]} {
			if drawn != nil && drawn.Len() > 0 {
				b.Layers = append(b.Layers, layer{kind + " is-" + word, drawn.String()})
			}
		}
	}
	order := map[byte]int{'c': 0, 'f': 1, 'm': 2}
	slices.SortFunc(b.Layers, func(x, y layer) int {
		return cmp.Or(cmp.Compare(order[x.Class[0]], order[y.Class[0]]), cmp.Compare(x.Class, y.Class))
	})
	b.Label = fmt.Sprintf("nodes %s to %s: %s", rows[0].Name, rows[len(rows)-1].Name, strings.Join(said, ", "))
	return b
}

func at(drawn map[string]*strings.Builder, word string) *strings.Builder {
	if drawn[word] == nil {
		drawn[word] = new(strings.Builder)
	}
	return drawn[word]
}

// mark draws what tells a state by its form: a cross for down, a dot for silent, a slash for what is drained, two bars for paused.
func mark(to *strings.Builder, word string, x, y int) {
	switch word {
	case "down":
		fmt.Fprintf(to, "M%d %dl6 6m0-6l-6 6", x+2, y+2)
	case "silent":
		fmt.Fprintf(to, "M%d %dh2", x+4, y+5)
	case "draining", "drained":
		fmt.Fprintf(to, "M%d %dl6-6", x+2, y+8)
	case "paused":
		fmt.Fprintf(to, "M%d %dv4m3-4v4", x+4, y+3)
	}
}

// find returns the rows of a state, "" of any, whose name or labels contain a text.
func (m *nodeMap) find(word, text string) []*nodeRow {
	if word == "" && text == "" {
		return m.Rows
	}
	var out []*nodeRow
	for _, r := range m.Rows {
		if (word == "" || r.Word == word) && r.says(text) {
			out = append(out, r)
		}
	}
	return out
}

func (r *nodeRow) says(text string) bool {
	if text == "" || strings.Contains(r.Name, text) {
		return true
	}
	for k, v := range r.Labels {
		if strings.Contains(k+"="+v, text) {
			return true
		}
	}
	return false
}
