package pluginhost

import (
	"context"
	"slices"
	"sync"

	"github.com/setpointd/setpoint/core/pluginhost/runner"
)

// What is kept of what a plugin writes, whatever becomes of its processes.
const (
	maxLines     = 1000
	maxLineBytes = 1 << 20
)

// lineRing keeps the last lines of a plugin's processes. Safe for use by several goroutines.
type lineRing struct {
	mu      sync.Mutex // guards what follows
	lines   []runner.Line
	bytes   int
	first   uint64        // number of lines[0]; the first line ever has number 0
	changed chan struct{} // closed and replaced with each line; nil: nobody waits
}

func newLineRing() *lineRing { return &lineRing{} }

// add keeps a line.
func (r *lineRing) add(l runner.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
	r.bytes += len(l.Text)
	drop := 0
	for len(r.lines)-drop > maxLines || r.bytes > maxLineBytes && len(r.lines)-drop > 1 {
		r.bytes -= len(r.lines[drop].Text)
		drop++
	}
	if drop > 0 {
		clear(r.lines[:drop])
		r.lines = r.lines[drop:]
		r.first += uint64(drop)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// from returns the lines from a number on, the number that follows, and what is closed when there are more.
func (r *lineRing) from(number uint64) (lines []runner.Line, next uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	next = r.first + uint64(len(r.lines))
	number = min(max(number, r.first), next)
	return slices.Clone(r.lines[number-r.first:]), next, r.changed
}

// tail returns the number of the line with which the last n begin.
func (r *lineRing) tail(n int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first + uint64(max(0, len(r.lines)-n))
}

// Logs calls yield with the last lines that a plugin's processes wrote, tail of them at most (negative: all that are kept, 1,000), and if follow is set with
// those that come, until ctx ends, which is no error, or yield fails. It fails with ErrUnknownPlugin.
func (h *Host) Logs(ctx context.Context, plugin string, tail int, follow bool, yield func([]runner.Line) error) error {
	s := h.supervisor(plugin)
	if s == nil {
		return unknown(plugin)
	}
	var at uint64
	if tail >= 0 {
		at = s.lines.tail(tail)
	}
	for {
		lines, next, more := s.lines.from(at)
		if len(lines) > 0 {
			if err := yield(lines); err != nil {
				return err
			}
		}
		at = next
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-s.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
