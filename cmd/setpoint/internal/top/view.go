package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// stacked is how many lines a window needs at least for all sections to be shown; in a smaller one it is the one with the cursor.
const stacked = 18

// View is part of tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "setpoint top"
	return v
}

// lines are the lines of the window: as many as it has at most, each as wide at most.
func (m *model) lines() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	screen := m.screen()
	out := []string{m.head(screen.Title)}
	room := max(0, m.height-2)
	switch {
	case m.help:
		out = append(out, text(wrapped(helpText, m.width), room, &m.scroll)...)
	case m.detail != nil:
		out = append(out, m.detailLines(room)...)
	default:
		out = append(out, m.lists(screen, room)...)
	}
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	out = append(out[:max(1, m.height-1)], m.foot())
	out = out[:min(len(out), m.height)]
	for i := range out {
		out[i] = console.Cut(out[i], m.width)
	}
	return out
}

func (m *model) head(title string) string {
	if !m.away.IsZero() {
		return m.style.Red(fmt.Sprintf("! NO ANSWER for %s, trying again; this is from before: %s", console.Age(m.now().Sub(m.away)), console.Line(m.why)))
	}
	return title
}

func (m *model) foot() string {
	switch {
	case m.typing:
		return "/" + m.filter + "▏ enter: keep  esc: all rows"
	case m.help, m.detail != nil:
		return m.style.Faint("↑↓ scroll  esc back  ctrl-c leave")
	case m.filter != "":
		return m.style.Yellow("only rows with "+m.filter) + m.style.Faint("  / change  esc all rows  ? keys  q leave")
	}
	return m.style.Faint("tab list  ↑↓ row  enter details  / filter  ? keys  q leave")
}

func (m *model) detailLines(room int) []string {
	body := m.detail.text
	if m.detail.err != "" {
		body = m.style.Red("! "+console.Line(m.detail.err)) + "\n\n" + body
	}
	return text(wrapped(strings.TrimRight(body, "\n"), m.width), room, &m.detail.scroll)
}

// wrapped breaks the lines of a text that do not fit.
func wrapped(body string, columns int) string {
	var out []string
	for line := range strings.SplitSeq(body, "\n") {
		out = append(out, console.Wrap(line, columns)...)
	}
	return strings.Join(out, "\n")
}

// text returns so many lines of a text from one on, which is brought back if it is beyond the end.
func text(body string, room int, from *int) []string {
	lines := strings.Split(body, "\n")
	*from = max(0, min(*from, len(lines)-room))
	return lines[*from:min(len(lines), *from+max(0, room))]
}

// lists are the sections below each other, or the one with the cursor if the window is small.
func (m *model) lists(s Screen, room int) []string {
	if m.height < stacked {
		return append([]string{m.tabs(s)}, m.section(s.Sections[m.focus], m.focus, room-1, false)...)
	}
	var out []string
	for i, n := range m.shares(s, room) {
		out = append(out, m.section(s.Sections[i], i, n, true)...)
	}
	return out
}

// shares divides the lines among the sections: each gets what it needs, as far as there is room; what is missing is taken from the largest.
func (m *model) shares(s Screen, room int) []int {
	shares, sum := make([]int, len(s.Sections)), 0
	for i, x := range s.Sections {
		shares[i] = 3 + max(1, len(x.Rows)) // its name, the headings, the rows, and an empty line
		sum += shares[i]
	}
	for ; sum > room; sum-- {
		largest := 0
		for i := range shares {
			if shares[i] > shares[largest] {
				largest = i
			}
		}
		shares[largest]--
	}
	return shares
}

// tabs are the names of all sections, where one of them is shown.
func (m *model) tabs(s Screen) string {
	var out []string
	for i, x := range s.Sections {
		name := fmt.Sprintf("%s %d", x.Name, len(x.Rows))
		if i == m.focus {
			name = m.style.Bold("[" + name + "]")
		}
		out = append(out, name)
	}
	return strings.Join(out, "  ")
}

// section returns at most so many lines of a section, around its cursor.
func (m *model) section(s Section, i, room int, named bool) []string {
	focused := i == m.focus
	var out []string
	if named {
		name := strings.ToUpper(s.Name)
		if focused {
			name = m.style.Bold("▸ " + name)
		} else {
			name = "  " + name
		}
		out = append(out, name+"  "+s.Note)
	}
	if len(s.Rows) == 0 {
		out = append(out, "    "+s.Empty, "")
		return out[:max(0, min(room, len(out)))]
	}
	var table strings.Builder
	fill := console.NewTable(s.Headings...).Long(s.Long...)
	for _, r := range s.Rows {
		fill.Row(r.Cells...)
	}
	style := m.style
	style.Columns = max(1, m.width-4)
	visible := max(1, room-len(out)-2)
	first := max(0, min(m.cursors[i].at-visible/2, len(s.Rows)-visible))
	fill.WriteRows(&table, style, func(row int) bool { return row == 0 || row > first && row <= first+visible })
	for n, line := range strings.Split(strings.TrimRight(table.String(), "\n"), "\n") {
		mark := "    "
		if focused && n > 0 && first+n-1 == m.cursors[i].at {
			mark = "  ▸ "
		}
		out = append(out, mark+line)
	}
	if len(out) < room {
		more := ""
		if hidden := len(s.Rows) - visible; hidden > 0 {
			more = m.style.Faint(fmt.Sprintf("    %d to %d of %d", first+1, first+visible, len(s.Rows)))
		}
		out = append(out, more)
	}
	return out[:max(0, min(len(out), room))]
}

// Bar draws how much of something is taken, in so many columns; the number beside it says the same.
func Bar(part, of int64, columns int) string {
	if of <= 0 {
		return strings.Repeat("·", columns)
	}
	full := int(min(part*int64(columns)/of, int64(columns)))
	return strings.Repeat("█", full) + strings.Repeat("·", columns-full)
}
