package top

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// model is what is shown and where the cursor is. Its methods do no I/O; what has to be asked for is a command.
type model struct {
	source Source
	style  console.Style
	ctx    context.Context // of the program: commands of the framework are given none
	now    func() time.Time

	width, height int
	shot          Shot
	away          time.Time // since when the server does not answer; zero: it does
	why           string    // why it does not

	focus   int      // section that has the cursor
	cursors []cursor // of each section

	typing bool // the filter
	filter string
	help   bool
	detail *detail // nil: lists are shown
	scroll int     // of help
}

// cursor is on a row, which is found again by its key when the list has changed.
type cursor struct {
	key string
	at  int
}

// detail is all of one row.
type detail struct {
	section, key string
	text         string
	err          string
	scroll       int
}

// Messages.
type (
	shotMsg   struct{ shot Shot }
	awayMsg   struct{ err error }
	tickMsg   struct{}
	detailMsg struct {
		section, key, text string
		err                error
	}
)

// Init is part of tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// tick has ages go on.
func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// Update is part of tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, tick()
	case shotMsg:
		m.shot, m.away, m.why = msg.shot, time.Time{}, ""
		return m, m.ask()
	case awayMsg:
		if m.away.IsZero() {
			m.away = m.now()
		}
		m.why = msg.err.Error()
	case detailMsg:
		if d := m.detail; d != nil && d.section == msg.section && d.key == msg.key {
			if d.err = ""; msg.err != nil {
				d.err = msg.err.Error()
			} else {
				d.text = msg.text
			}
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.filter += console.Line(msg.Content)
		}
	}
	return m, nil
}

// ask asks for the details that are shown.
func (m *model) ask() tea.Cmd {
	d := m.detail
	if d == nil {
		return nil
	}
	source, ctx, style, section, key := m.source, m.ctx, m.style, d.section, d.key
	return func() tea.Msg {
		text, err := source.Detail(ctx, section, key, style)
		return detailMsg{section, key, text, err}
	}
}

// screen returns what is there now, filtered, with the cursors on the rows that they were on.
func (m *model) screen() Screen {
	s := m.shot.Screen(m.now(), m.style)
	s.Sections = slices.Clone(s.Sections)
	for len(m.cursors) < len(s.Sections) {
		m.cursors = append(m.cursors, cursor{})
	}
	for i := range s.Sections {
		s.Sections[i] = s.Sections[i].filtered(m.filter)
		c := &m.cursors[i]
		if at := s.Sections[i].index(c.key); at >= 0 && c.key != "" {
			c.at = at
		}
		c.at = max(0, min(c.at, len(s.Sections[i].Rows)-1))
	}
	m.focus = min(m.focus, len(s.Sections)-1)
	return s
}
