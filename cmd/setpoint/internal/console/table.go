package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// leastColumns is how narrow a column may become at most when a table is fitted into its window.
const leastColumns = 8

// Table aligns rows in columns. Cells may be coloured.
type Table struct {
	rows [][]string
	long []bool // columns that may be shortened
}

// NewTable begins a table with its headings.
func NewTable(headings ...string) *Table {
	return &Table{rows: [][]string{headings}, long: make([]bool, len(headings))}
}

// Long names the columns that are shortened where a row does not fit the window. Those with names and ids are none of them: people copy these.
func (t *Table) Long(headings ...string) *Table {
	for i, h := range t.rows[0] {
		t.long[i] = slices.Contains(headings, h)
	}
	return t
}

// Row adds a row. A cell without text is shown as a dash, and one of several lines in one.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		if cells[i] = Line(c); c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table; headings are written faint.
func (t *Table) Write(w io.Writer, s Style) { t.WriteRows(w, s, func(int) bool { return true }) }

// WriteRows writes those rows of the table for which want says so, aligned as if all were written. 0 are the headings.
func (t *Table) WriteRows(w io.Writer, s Style, want func(row int) bool) {
	widths := t.widths(s.Columns)
	for r, row := range t.rows {
		if !want(r) {
			continue
		}
		var line strings.Builder
		for i, c := range row {
			if i < len(t.long) && t.long[i] {
				c = Cut(c, widths[i])
			}
			padding := strings.Repeat(" ", max(0, widths[i]-Width(c))+2)
			if r == 0 {
				c = s.Faint(c)
			}
			line.WriteString(c)
			if i < len(row)-1 {
				line.WriteString(padding)
			}
		}
		fmt.Fprintln(w, line.String())
	}
}

// widths returns how wide each column is. Of the long ones the widest gives first, until the rows fit or none has anything to give.
func (t *Table) widths(window int) []int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(c))
		}
	}
	if window == 0 {
		return widths
	}
	excess := 2*(len(widths)-1) - window
	for _, n := range widths {
		excess += n
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, long := range t.long {
			if long && widths[i] > max(leastColumns, Width(t.rows[0][i])) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}
