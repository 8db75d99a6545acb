package top

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// key does what a key says.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	switch {
	case m.typing:
		m.typed(k)
		return nil
	case m.help:
		m.help = m.scrolled(k, &m.scroll)
		return nil
	case m.detail != nil:
		if !m.scrolled(k, &m.detail.scroll) {
			m.detail = nil
		}
		return nil
	}
	return m.listKey(k)
}

// typed changes the filter.
func (m *model) typed(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	default:
		m.filter += k.Text
	}
}

// scrolled moves through text, and reports false for the keys that leave it.
func (m *model) scrolled(k tea.KeyPressMsg, at *int) bool {
	page := max(1, m.height-3)
	switch k.String() {
	case "q", "esc", "backspace", "left", "h", "?", "enter":
		*at = 0
		return false
	case "down", "j":
		*at++
	case "up", "k":
		*at--
	case "pgdown", "space", "ctrl+f":
		*at += page
	case "pgup", "ctrl+b":
		*at -= page
	case "home", "g":
		*at = 0
	case "end", "G":
		*at = 1 << 30 // the view brings it back to the end
	}
	*at = max(0, *at)
	return true
}

func (m *model) listKey(k tea.KeyPressMsg) tea.Cmd {
	s := m.screen()
	sections := len(s.Sections)
	rows := s.Sections[m.focus].Rows
	c := &m.cursors[m.focus]
	page := max(1, m.height/2)
	switch k.String() {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "tab", "right", "l":
		m.focus = (m.focus + 1) % sections
	case "shift+tab", "left", "h":
		m.focus = (m.focus + sections - 1) % sections
	case "down", "j":
		c.move(rows, c.at+1)
	case "up", "k":
		c.move(rows, c.at-1)
	case "pgdown", "ctrl+f":
		c.move(rows, c.at+page)
	case "pgup", "ctrl+b":
		c.move(rows, c.at-page)
	case "home", "g":
		c.move(rows, 0)
	case "end", "G":
		c.move(rows, len(rows)-1)
	case "enter":
		if len(rows) > 0 {
			c.move(rows, c.at)
			m.detail = &detail{section: s.Sections[m.focus].Name, key: c.key, text: "…"}
			return m.ask()
		}
	}
	return nil
}

// move puts the cursor on a row.
func (c *cursor) move(rows []Row, to int) {
	if len(rows) == 0 {
		return
	}
	c.at = max(0, min(to, len(rows)-1))
	c.key = rows[c.at].Key
}

const helpText = `Keys

  tab, →, l            the next list          shift-tab, ←, h   the one before
  ↓, j  and  ↑, k      the next row, and the one before
  page down, page up   half a window on, and back
  g, G                 the first row, and the last
  enter                all of the row: why it waits, the job, the node
  esc, q, ←            back
  /                    show only rows that have a text; enter keeps it, esc takes it back
  ?                    this
  q, ctrl-c            leave; ctrl-z until fg

Every colour stands beside a word that says the same: a stall begins with "!", a state is named.
What is shown is live. When the server does not answer, that is said at the top, and what is shown is from before.`
