package dashboard

import (
	"cmp"
	"slices"
	"strings"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// maxSingles is up to how many nodes each has a row of its own in an explanation; of more, those with the same reasons share one.
const maxSingles = 40

// matrix says of each node why a task cannot run there: a row for each node, or for nodes alike, and a column for each reason.
type matrix struct {
	Columns []column
	Rows    []matrixRow
	Nodes   int
	Nearest string
}

// column is one reason.
type column struct {
	Source, Code, Title string
	Count               int // nodes
}

// matrixRow is a node, or several with the same reasons.
type matrixRow struct {
	Names   []string
	Count   int
	Nearest bool
	Cells   []string // by column; "": the reason does not apply

	key string
}

// Fits reports whether no reason applies.
func (r *matrixRow) Fits() bool { return !strings.Contains(r.key, "x") }

// reasonParts splits what is said of a node into the reason, which other nodes have too, and how much of it.
func reasonParts(r *apiv1.WhyReason) (column, string) {
	title, rest := r.GetDetail(), ""
	for _, cut := range []string{" (", " taken by "} {
		if a, b, ok := strings.Cut(title, cut); ok {
			title, rest = a, strings.TrimSuffix(b, ")")
			if cut != " (" {
				rest = strings.TrimSpace(cut) + " " + rest
			}
			break
		}
	}
	return column{Source: r.GetSource(), Code: r.GetCode(), Title: cmp.Or(title, r.GetCode())}, cmp.Or(rest, "✕")
}

// newMatrix arranges what keeps a task from nodes. Columns come in the order of how many nodes they exclude.
func newMatrix(why *apiv1.WhyTaskResponse) *matrix {
	m := &matrix{Nodes: len(why.GetNodes()), Nearest: why.GetNearest()}
	index := map[column]int{}
	for _, n := range why.GetNodes() {
		for _, r := range n.GetReasons() {
			c, _ := reasonParts(r)
			i, ok := index[c]
			if !ok {
				i = len(m.Columns)
				index[c] = i
				m.Columns = append(m.Columns, c)
			}
			m.Columns[i].Count++
		}
	}
	order := make([]int, len(m.Columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.Columns[b].Count, m.Columns[a].Count) })
	sorted, place := make([]column, len(order)), make([]int, len(order))
	for to, from := range order {
		sorted[to], place[from] = m.Columns[from], to
	}
	m.Columns = sorted
	for _, n := range why.GetNodes() {
		row := matrixRow{Names: []string{n.GetNode()}, Count: 1, Nearest: n.GetNode() == m.Nearest && m.Nearest != "", Cells: make([]string, len(sorted))}
		has := []byte(strings.Repeat(".", len(sorted)))
		for _, r := range n.GetReasons() {
			c, much := reasonParts(r)
			row.Cells[place[index[c]]], has[place[index[c]]] = much, 'x'
		}
		row.key = string(has)
		m.Rows = append(m.Rows, row)
	}
	m.join()
	return m
}

// join puts nodes with the same reasons into one row, if there are many, and orders rows: what is nearest first, then what lacks least.
func (m *matrix) join() {
	if len(m.Rows) > maxSingles {
		var joined []matrixRow
		at := map[string]int{}
		for _, r := range m.Rows {
			i, ok := at[r.key]
			if !ok {
				at[r.key] = len(joined)
				joined = append(joined, r)
				continue
			}
			have := &joined[i]
			have.Count++
			if r.Nearest {
				have.Nearest, have.Names = true, append(r.Names, have.Names...)
			} else {
				have.Names = append(have.Names, r.Names...)
			}
			for k := range have.Cells {
				if have.Cells[k] != r.Cells[k] {
					have.Cells[k] = "✕"
				}
			}
		}
		m.Rows = joined
	}
	slices.SortStableFunc(m.Rows, func(a, b matrixRow) int {
		return cmp.Or(cmp.Compare(oneIf(b.Nearest), oneIf(a.Nearest)), cmp.Compare(strings.Count(a.key, "x"), strings.Count(b.key, "x")), compareNames(a.Names[0], b.Names[0]))
	})
}
