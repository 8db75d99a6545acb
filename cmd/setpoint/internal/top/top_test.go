package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// world is what a test shows.
type world struct {
	sections []Section
	asked    []string
	err      error
}

func (w *world) Screen(time.Time, console.Style) Screen {
	return Screen{Title: "setpoint ready", Sections: w.sections}
}

func (w *world) Look(context.Context) (Shot, error) { return w, w.err }

func (w *world) Detail(_ context.Context, section, key string, _ console.Style) (string, error) {
	w.asked = append(w.asked, section+" "+key)
	var out strings.Builder
	for i := range 40 {
		fmt.Fprintf(&out, "line %d of %s\n", i, key)
	}
	return out.String(), w.err
}

func (w *world) Watch(ctx context.Context, told func(Shot, error)) error {
	told(w, w.err)
	<-ctx.Done()
	return nil
}

func section(name string, rows int) Section {
	s := Section{Name: name, Note: "a note", Empty: "none", Headings: []string{"NAME", "WHY"}, Long: []string{"WHY"}}
	for i := range rows {
		key := fmt.Sprintf("%s-%d", name, i)
		s.Rows = append(s.Rows, Row{Key: key, Cells: []string{key, "because " + strings.Repeat("it is so ", 10)}})
	}
	return s
}

func newModel(t *testing.T, w *world, width, height int) *model {
	return &model{source: w, ctx: t.Context(), now: func() time.Time { return time.Unix(1000, 0) }, width: width, height: height, shot: w}
}

// press presses keys one after another, and lets what is asked for answer.
func (m *model) press(keys ...string) {
	for _, name := range keys {
		k := tea.KeyPressMsg{Text: name}
		switch name {
		case "enter":
			k = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			k = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "tab":
			k = tea.KeyPressMsg{Code: tea.KeyTab}
		case "shift+tab":
			k = tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
		case "down":
			k = tea.KeyPressMsg{Code: tea.KeyDown}
		case "up":
			k = tea.KeyPressMsg{Code: tea.KeyUp}
		case "backspace":
			k = tea.KeyPressMsg{Code: tea.KeyBackspace}
		default:
			k.Code = []rune(name)[0]
		}
		if _, cmd := m.Update(k); cmd != nil {
			if msg := cmd(); msg != nil {
				m.Update(msg)
			}
		}
	}
}

func (m *model) shown() string { return strings.Join(m.lines(), "\n") }

// marked is the row with the cursor.
func (m *model) marked() string {
	for _, line := range m.lines() {
		if rest, ok := strings.CutPrefix(line, "  ▸ "); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		keys, marked string
	}{
		{"", "stalls-0"},
		{"j", "stalls-1"},
		{"down down", "stalls-2"},
		{"down down down", "stalls-2"},
		{"j k", "stalls-0"},
		{"up", "stalls-0"},
		{"G", "stalls-2"},
		{"G g", "stalls-0"},
		{"tab", "jobs-0"},
		{"l j", "jobs-1"},
		{"tab tab tab", "stalls-0"},
		{"shift+tab", "nodes-0"},
		{"tab j shift+tab tab", "jobs-1"},
		{"/ - 2 enter", "stalls-2"},
		{"/ - 2 enter tab", "jobs-2"},
		{"/ x esc", "stalls-0"},
		{"/ - 2 backspace 1 enter", "stalls-1"},
		{"/ - 2 enter esc g", "stalls-0"},
		{"enter esc j", "stalls-1"},
		{"? q j", "stalls-1"},
	} {
		w := &world{sections: []Section{section("stalls", 3), section("jobs", 3), section("nodes", 3)}}
		m := newModel(t, w, 80, 30)
		m.press(strings.Fields(tt.keys)...)
		if got := m.marked(); got != tt.marked {
			t.Errorf("%s: the cursor is on %q, want %q:\n%s", tt.keys, got, tt.marked, m.shown())
		}
	}
}

// The cursor stays on its row when the list changes around it.
func TestCursorFollowsItsRow(t *testing.T) {
	w := &world{sections: []Section{section("jobs", 3)}}
	m := newModel(t, w, 80, 30)
	m.press("j")
	rows := w.sections[0].Rows
	w.sections[0].Rows = []Row{{Key: "new", Cells: []string{"new", ""}}, rows[2], rows[1]}
	if got := m.marked(); got != "jobs-1" {
		t.Errorf("the cursor is on %q", got)
	}
	w.sections[0].Rows = rows[:1] // the row is gone
	if got := m.marked(); got != "jobs-0" {
		t.Errorf("the cursor is on %q", got)
	}
	w.sections[0].Rows = nil
	m.press("j", "enter", "G")
	if !strings.Contains(m.shown(), "none") {
		t.Errorf("an empty list says nothing:\n%s", m.shown())
	}
}

func TestDetails(t *testing.T) {
	w := &world{sections: []Section{section("stalls", 2), section("jobs", 2)}}
	m := newModel(t, w, 80, 20)
	m.press("tab", "j", "enter")
	if len(w.asked) != 1 || w.asked[0] != "jobs jobs-1" {
		t.Fatalf("asked for %q", w.asked)
	}
	if !strings.Contains(m.shown(), "line 0 of jobs-1") || strings.Contains(m.shown(), "line 39") {
		t.Errorf("the beginning is not shown:\n%s", m.shown())
	}
	m.press("G")
	if !strings.Contains(m.shown(), "line 39 of jobs-1") {
		t.Errorf("the end is not shown:\n%s", m.shown())
	}
	m.press("k")
	if strings.Contains(m.shown(), "line 39") {
		t.Errorf("it did not scroll back:\n%s", m.shown())
	}
	// It is asked for again whenever something has changed, and what was shown stays if there is no answer.
	w.err = errors.New("no answer")
	_, cmd := m.Update(shotMsg{w})
	m.Update(cmd())
	if len(w.asked) != 2 || !strings.Contains(m.shown(), "line 30 of jobs-1") {
		t.Errorf("asked for %q:\n%s", w.asked, m.shown())
	}
	m.press("g")
	if !strings.Contains(m.shown(), "! no answer") {
		t.Errorf("that there is no answer is not said:\n%s", m.shown())
	}
	m.press("esc")
	if m.marked() != "jobs-1" {
		t.Errorf("the cursor is on %q", m.marked())
	}
}

// A server that is away is said in words, and that it is back by the title.
func TestAway(t *testing.T) {
	w := &world{sections: []Section{section("jobs", 1)}}
	m := newModel(t, w, 200, 20)
	now := time.Unix(1000, 0)
	m.now = func() time.Time { return now }
	m.Update(awayMsg{errors.New("connection refused")})
	now = now.Add(70 * time.Second)
	m.Update(awayMsg{errors.New("connection refused")})
	if want := "! NO ANSWER for 1m10s, trying again; this is from before: connection refused"; m.lines()[0] != want || !strings.Contains(m.shown(), "jobs-0") {
		t.Errorf("want %q:\n%s", want, m.shown())
	}
	m.Update(shotMsg{w})
	if m.lines()[0] != "setpoint ready" {
		t.Errorf("it is back, but:\n%s", m.shown())
	}
}

// Nothing is drawn beyond the window, however small that is.
func TestWindows(t *testing.T) {
	for _, rows := range []int{0, 1, 3, 500} {
		for _, height := range []int{0, 1, 2, 3, 4, 5, 10, 17, 18, 24, 60} {
			for _, width := range []int{0, 1, 2, 8, 20, 80, 200} {
				for _, keys := range []string{"", "G", "enter", "? G", "/ x", "tab G"} {
					w := &world{sections: []Section{section("stalls", rows), section("jobs", rows), section("nodes", rows)}}
					m := newModel(t, w, width, height)
					m.press(strings.Fields(keys)...)
					lines := m.lines()
					if len(lines) > height {
						t.Fatalf("%d rows, %dx%d, %q: %d lines", rows, width, height, keys, len(lines))
					}
					for _, line := range lines {
						if console.Width(line) > width {
							t.Fatalf("%d rows, %dx%d, %q: a line of %d columns: %q", rows, width, height, keys, console.Width(line), line)
						}
					}
					if keys == "G" && rows > 0 && height >= 5 && width >= 20 && m.marked() == "" {
						t.Fatalf("%d rows, %dx%d: the cursor is not shown:\n%s", rows, width, height, m.shown())
					}
				}
			}
		}
	}
}

// All lists are shown where there is room, stalls first; otherwise the names of all and the one with the cursor.
func TestSmallWindow(t *testing.T) {
	w := &world{sections: []Section{section("stalls", 2), section("jobs", 2)}}
	large := newModel(t, w, 60, 24).shown()
	if s, j := strings.Index(large, "▸ STALLS  a note"), strings.Index(large, "  JOBS  a note"); s < 0 || j < s {
		t.Errorf("not both lists:\n%s", large)
	}
	small := newModel(t, w, 60, 10)
	small.press("tab")
	if got := small.shown(); !strings.Contains(got, "stalls 2  [jobs 2]") || strings.Contains(got, "stalls-0") || small.marked() != "jobs-0" {
		t.Errorf("not one list:\n%s", got)
	}
}

// Without colours nothing is lost but colours.
func TestNoColour(t *testing.T) {
	w := &world{sections: []Section{section("stalls", 2)}}
	m := newModel(t, w, 80, 24)
	if strings.Contains(m.shown(), "\x1b") {
		t.Errorf("an escape sequence without colours: %q", m.shown())
	}
	m.style.Color = true
	if !strings.Contains(m.shown(), "\x1b[") {
		t.Error("no colours")
	}
}

func TestQuit(t *testing.T) {
	m := newModel(t, &world{sections: []Section{section("stalls", 2)}}, 80, 24)
	for _, k := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		_, cmd := m.Update(k)
		if cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not leave", k)
		}
	}
	if _, cmd := m.Update(tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl}); cmd == nil || cmd() != tea.Suspend() {
		t.Error("ctrl+z does not suspend")
	}
	m.press("/", "q")
	if m.filter != "q" {
		t.Error("a q that is typed is part of the filter")
	}
}

// Keys are explained in a narrow window, too.
func TestHelpIsWrapped(t *testing.T) {
	m := newModel(t, &world{sections: []Section{section("stalls", 2)}}, 60, 40)
	m.press("?")
	for _, want := range []string{"takes it", "until fg", "what is shown is from before."} {
		if !strings.Contains(strings.Join(strings.Fields(m.shown()), " "), want) {
			t.Errorf("%q is cut off:\n%s", want, m.shown())
		}
	}
}
