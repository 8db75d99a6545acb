package top

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// Shot is all that there is to be shown at one moment.
type Shot interface {
	// Screen returns how it looks at a time: ages go on although nothing changes.
	Screen(now time.Time, style console.Style) Screen
}

// Source is where it comes from.
type Source interface {
	// Look asks for all anew.
	Look(ctx context.Context) (Shot, error)
	// Detail returns all of one row of a section, as text.
	Detail(ctx context.Context, section, key string, style console.Style) (string, error)
	// Watch calls told with what Look returns, at once and whenever something has changed, or with its error, until the context ends. Its
	// error is that nothing more can be shown.
	Watch(ctx context.Context, told func(Shot, error)) error
}

// Screen is what is shown.
type Screen struct {
	Title    string
	Sections []Section
}

// Section is one list.
type Section struct {
	Name     string
	Note     string // beside its name
	Empty    string // what is said instead of rows
	Headings []string
	Long     []string // headings of columns that are shortened where rows do not fit
	Rows     []Row
}

// Row is one row of a list. Key identifies it among those of its section from one screen to the next.
type Row struct {
	Key   string
	Cells []string
}

// filtered returns the section with those rows only that have a text in any of their cells.
func (s Section) filtered(text string) Section {
	if text == "" {
		return s
	}
	text = strings.ToLower(text)
	s.Rows = slices.DeleteFunc(slices.Clone(s.Rows), func(r Row) bool {
		return !strings.Contains(strings.ToLower(strings.Join(r.Cells, " ")), text)
	})
	s.Empty = "nothing matches"
	return s
}

// index returns where the row of a key is; -1: nowhere.
func (s Section) index(key string) int {
	return slices.IndexFunc(s.Rows, func(r Row) bool { return r.Key == key })
}
