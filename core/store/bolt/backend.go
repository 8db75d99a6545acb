package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/internal/history"
)

// Backend is a store in one bbolt file, open in this process.
type Backend struct {
	path string
	opts Options
	db   *bbolt.DB
	page int // size of a page of the file, in bytes
	lost chan struct{}

	// writer is held by Load, Commit and Close, which come one after the other. It is taken before mu.
	writer sync.Mutex
	folder folder // guarded by writer
	dirty  bool   // guarded by writer: written to since it was opened

	mu      sync.RWMutex // guards what follows
	meta    meta
	history *history.Log
	backlog int // keys, as folder counts them
	loaded  bool
	closed  bool
	failed  error // why the outcome of a commit is unknown
	commits uint64
	last    store.Written
}

var _ store.Backend = (*Backend)(nil)

// Lead implements store.Backend: whoever has the file open leads, until Close.
func (b *Backend) Lead(ctx context.Context) (<-chan struct{}, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	return b.lost, ctx.Err()
}

// Limits implements store.Backend.
func (b *Backend) Limits() store.Limits { return store.DefaultLimits() }

// Stats implements store.Backend.
func (b *Backend) Stats() store.Stats {
	size := int64(0)
	if info, err := os.Stat(b.path); err == nil {
		size = info.Size()
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	free := 0
	if !b.closed {
		s := b.db.Stats()
		free = (s.FreePageN + s.PendingPageN) * b.page
	}
	return store.Stats{
		Head:         b.meta.head.Revision,
		Oldest:       b.history.Oldest(),
		Folded:       b.meta.folded,
		FileBytes:    size,
		FreeBytes:    int64(free),
		LogBatches:   b.history.Len(),
		LogBytes:     b.history.Bytes(),
		UnfoldedKeys: b.backlog,
		Commits:      b.commits,
		Last:         b.last,
	}
}

// Close implements store.Backend. It waits for a commit and for readers, writes the list of free pages, and releases the lock.
func (b *Backend) Close() error {
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.lost)
	failed := b.failed
	b.mu.Unlock()

	var errs []error
	if b.dirty && failed == nil {
		b.db.NoFreelistSync = false
		if err := b.db.Update(func(*bbolt.Tx) error { return nil }); err != nil {
			errs = append(errs, fmt.Errorf("write the free list, without which the next start takes longer: %w", err))
		}
	}
	// The pid file goes first: once the lock is free, it may be somebody else's.
	if err := removePID(b.path); err != nil {
		errs = append(errs, err)
	}
	if err := b.db.Close(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", b.path, err)
	}
	return nil
}

// usable says why a call is refused, or nil. Loaded is whether the call needs, or must come before, Load. The caller holds mu.
func (b *Backend) usable(loaded bool) error {
	switch {
	case b.closed:
		return store.ErrClosed
	case b.failed != nil:
		return b.failed
	case loaded && !b.loaded:
		return store.ErrNotLoaded
	case !loaded && b.loaded:
		return store.ErrLoaded
	}
	return nil
}
