package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// readFile calls yield with the entries of a file that are wanted, and reports false if it had enough. What is no entry, such as a line that a crash cut short, is left out.
func readFile(file io.Reader, f *Filter, yield func(Entry) bool) (more bool, err error) {
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return true, nil // what has no end yet is being written
		}
		if err != nil {
			return false, err
		}
		var e Entry
		if json.Unmarshal(line, &e) != nil || !f.matches(&e) {
			continue
		}
		if !yield(e) {
			return false, nil
		}
	}
}

// tail keeps the last of what it is given.
type tail struct {
	entries []Entry
	next    int // where the oldest is once it is full
	limit   int
}

func newTail(limit int) *tail { return &tail{limit: limit} }

func (t *tail) add(e Entry) bool {
	if len(t.entries) < t.limit {
		t.entries = append(t.entries, e)
		return true
	}
	t.entries[t.next] = e
	t.next = (t.next + 1) % t.limit
	return true
}

func (t *tail) each(yield func(Entry) bool) {
	for i := range t.entries {
		if !yield(t.entries[(t.next+i)%len(t.entries)]) {
			return
		}
	}
}
