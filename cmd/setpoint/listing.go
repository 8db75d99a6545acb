package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/selector"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
)

// listing is what a command lists: how it is got and how it is shown.
type listing[T any] struct {
	fetch   func(context.Context, *server) ([]T, error)
	view    func([]T) any
	columns []column[T]                                                      // the first has what identifies a row
	labels  func(T) map[string]string                                        // nil: what is listed has none
	below   func(w io.Writer, style console.Style, now time.Time, items []T) // what follows the table; nil: nothing
}

// column is one column of a list.
type column[T any] struct {
	heading string
	cell    func(p pen, item T) string
	how     columnKind
}

// pen is with what a cell is written.
type pen struct {
	style console.Style
	now   time.Time
}

type columnKind uint8

const (
	always columnKind = iota
	long              // is shortened where rows do not fit the window
	ages              // changes although nothing does
	wide              // is shown with -o wide only
)

// viewed hides of which type the views are.
func viewed[T, V any](of func([]T) []V) func([]T) any {
	return func(items []T) any { return of(items) }
}

// list adds to a command what all lists can do.
func list[T any](a *app, cmd *cobra.Command, l *listing[T]) *cobra.Command {
	var watch bool
	var labels string
	cmd.Aliases, cmd.Args = []string{"list"}, takes(0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		want, err := selector.Parse(labels)
		if err != nil {
			return refuse(selectorHint, "bad --selector %q: %v", labels, err)
		}
		s, err := a.connect()
		if err != nil {
			return err
		}
		fetch := func(ctx context.Context) ([]T, error) {
			items, err := l.fetch(ctx, s)
			if err == nil && l.labels != nil {
				items = slices.DeleteFunc(items, func(x T) bool { return !want.Matches(l.labels(x)) })
			}
			return items, err
		}
		if watch {
			return (&listWatch[T]{app: a, listing: l, fetch: fetch}).run(cmd.Context(), s)
		}
		items, err := fetch(cmd.Context())
		if err != nil {
			return err
		}
		return a.print(l.view(items), func(w io.Writer, style console.Style) { l.write(w, style, a.output == outputWide, items) })
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes, until interrupted: drawn anew on a terminal, appended elsewhere")
	if l.labels != nil {
		cmd.Flags().StringVarP(&labels, "selector", "l", "", "only those whose labels are so, such as `zone=a,disk!=hdd,gpu`")
	}
	return named(cmd)
}

const selectorHint = "Say KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY notin (A, B), KEY or !KEY, with commas between."

// write writes the whole list.
func (l *listing[T]) write(w io.Writer, style console.Style, all bool, items []T) {
	now := time.Now()
	l.table(style, now, all, items).Write(w, style)
	if l.below != nil {
		l.below(w, style, now, items)
	}
}

func (l *listing[T]) table(style console.Style, now time.Time, all bool, items []T) *console.Table {
	var headings, longs []string
	for _, c := range l.shown(all) {
		headings = append(headings, c.heading)
		if c.how == long {
			longs = append(longs, c.heading)
		}
	}
	table := console.NewTable(headings...).Long(longs...)
	for _, x := range items {
		table.Row(l.cells(style, now, all, x)...)
	}
	return table
}

func (l *listing[T]) shown(all bool) []column[T] {
	return slices.DeleteFunc(slices.Clone(l.columns), func(c column[T]) bool { return c.how == wide && !all })
}

func (l *listing[T]) cells(style console.Style, now time.Time, all bool, item T) []string {
	var cells []string
	for _, c := range l.shown(all) {
		cells = append(cells, c.cell(pen{style, now}, item))
	}
	return cells
}

// listWatch shows a list whenever it has changed.
type listWatch[T any] struct {
	app     *app
	listing *listing[T]
	fetch   func(context.Context) ([]T, error)

	begun bool
	last  string            // the value, as programs are given it
	rows  map[string]string // what people were shown of each row last, ages aside
}

func (x *listWatch[T]) run(ctx context.Context, s *server) error {
	return x.app.watch(ctx, s, func(ctx context.Context) error {
		items, err := x.fetch(ctx)
		if err != nil {
			return err
		}
		return x.show(items)
	})
}

func (x *listWatch[T]) show(items []T) error {
	defer func() { x.begun = true }()
	a, l := x.app, x.listing
	value := l.view(items)
	switch {
	case a.structured():
		text, err := json.Marshal(value)
		if err != nil || x.begun && x.last == string(text) {
			return err
		}
		x.last = string(text)
		return a.printNext(value)
	case a.output != outputName && console.IsTerminal(a.out):
		var text bytes.Buffer
		l.write(&text, a.style(a.out), a.output == outputWide, items)
		return console.Redraw(a.out, text.String())
	}
	changed, gone := x.compare(items)
	if a.output == outputName {
		for i, item := range items {
			if changed[i] {
				fmt.Fprintln(a.out, view.Names(l.view([]T{item}))[0])
			}
		}
		return nil
	}
	style := a.style(a.out)
	l.table(style, time.Now(), a.output == outputWide, items).WriteRows(a.out, style, func(row int) bool {
		return row == 0 && !x.begun || row > 0 && changed[row-1]
	})
	for _, name := range gone {
		fmt.Fprintln(a.out, name+"  removed")
	}
	return nil
}

// compare returns which items are new or are shown otherwise than before, and what is there no more.
func (x *listWatch[T]) compare(items []T) (changed map[int]bool, gone []string) {
	changed, rows := map[int]bool{}, map[string]string{}
	for i, item := range items {
		key, text := "", ""
		for k, c := range x.listing.columns {
			cell := c.cell(pen{}, item)
			if k == 0 {
				key = cell
			}
			if c.how != ages && (c.how != wide || x.app.output == outputWide) {
				text += cell + "\x00"
			}
		}
		rows[key] = text
		if before, shown := x.rows[key]; !shown || before != text && x.app.output != outputName {
			changed[i] = true
		}
	}
	for key := range x.rows {
		if _, there := rows[key]; !there {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	x.rows = rows
	return changed, gone
}
