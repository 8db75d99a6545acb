// Package history keeps account of which batches a log holds, and says which of them retention gives up. It owns no log: the backend
// drops the batches and then tells the account. Pure; imports core/store only.
package history

import (
	"time"

	"github.com/setpointd/setpoint/core/store"
)

// Log is the account of a log: batches of consecutive revisions, oldest first.
type Log struct {
	before  uint64 // revision before the first entry
	entries []entry
	bytes   int64
}

type entry struct {
	engine time.Duration
	size   int64
}

// New starts an account of an empty log whose next batch has revision head+1.
func New(head uint64) *Log {
	return &Log{before: head}
}

// Append adds the next batch, with its engine time and its size in the log.
func (l *Log) Append(engine time.Duration, size int) {
	l.entries = append(l.entries, entry{engine: engine, size: int64(size)})
	l.bytes += int64(size)
}

// Oldest is the lowest revision from which the log can be read: the one before its first batch.
func (l *Log) Oldest() uint64 { return l.before }

// Len is the number of batches.
func (l *Log) Len() int { return len(l.entries) }

// Bytes is the size of all batches.
func (l *Log) Bytes() int64 { return l.bytes }

// Excess says how many of the oldest batches may go, at most limit of them: those past one of the bounds of keep at engine time now, and
// not after revision folded, which recovery still needs. The last batch always stays.
func (l *Log) Excess(keep store.Retention, now time.Duration, folded uint64, limit int) int {
	keep = keep.WithDefaults()
	n, bytes := 0, l.bytes
	for n < limit && n < len(l.entries)-1 && l.before+uint64(n) < folded {
		e := l.entries[n]
		over := uint64(len(l.entries)-n) > keep.Revisions || now-e.engine > keep.Age || bytes > keep.Bytes
		if !over {
			break
		}
		bytes -= e.size
		n++
	}
	return n
}

// Cut removes the n oldest batches from the account.
func (l *Log) Cut(n int) {
	for _, e := range l.entries[:n] {
		l.bytes -= e.size
	}
	l.before += uint64(n)
	l.entries = l.entries[n:]
}
