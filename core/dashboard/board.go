package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// board is what pages show of the state that takes looking for, found once for all who look.
type board struct {
	opts Options

	causes  memo[[]*cause]
	jobs    memo[[]*jobRow]
	nodes   memo[*nodeMap]
	counts  memo[counts]
	plugins memo[[]*apiv1.GetPluginResponse]
	why     whys

	mu   sync.Mutex    // guards what follows
	next chan struct{} // closed at the next commit; nil: nobody waits for one
}

func newBoard(opts Options) *board {
	b := &board{opts: opts}
	b.causes.now, b.jobs.now, b.nodes.now, b.counts.now, b.plugins.now = opts.Now, opts.Now, opts.Now, opts.Now, opts.Now
	b.why.board = b
	return b
}

// view returns the newest committed state as it is seen now.
func (b *board) view() *engine.State { return b.opts.View().At(b.opts.Now()) }

func (b *board) revision() uint64 { return uint64(b.opts.View().Revision) }

// changed returns what is closed at the next commit.
func (b *board) changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *board) committed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// How old what was found may be: it is looked for again no sooner than this after the last time, and only if something was committed, or after longer, since some of
// it follows from the time alone. What takes long to find is looked for more rarely, so that it takes no more than a twentieth of one processor, but never more rarely
// than people would wait.
const (
	memoLeast = time.Second
	memoMost  = 5 * time.Second
	memoShare = 20
	memoWait  = 15 * time.Second
)

// memo keeps what was found in a state, for all who look at about the same time.
type memo[T any] struct {
	now func() time.Time

	mu       sync.Mutex // guards what follows, and is held while it is looked for
	value    T
	there    bool
	revision uint64
	at       time.Time
	cost     time.Duration
}

// get returns what was found, or looks for it. An error is returned and not kept.
func (m *memo[T]) get(revision uint64, find func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	began := m.now()
	age := began.Sub(m.at)
	if m.there && (age < max(memoLeast, min(memoWait, memoShare*m.cost)) || revision == m.revision && age < memoMost) {
		return m.value, nil
	}
	value, err := find()
	if err != nil {
		return value, err
	}
	m.value, m.there, m.revision, m.at, m.cost = value, true, revision, began, m.now().Sub(began)
	return value, nil
}

// waiting returns how many things wait for something, those aside that wait as they should.
func (b *board) waiting(ctx context.Context) int {
	causes, err := b.stalled(ctx)
	if err != nil {
		return 0
	}
	n := 0
	for _, c := range causes {
		if !c.Quiet {
			n += c.Count
		}
	}
	return n
}
