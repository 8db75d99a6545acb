package mem

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/store"
)

// Fault is what a commit is told to do.
type Fault int

// The faults.
const (
	FaultNone    Fault = iota
	FaultNoSpace       // refuse with ErrNoSpace, cleanly
	FaultBefore        // fail with ErrOutcomeUnknown; the batch was not written
	FaultAfter         // fail with ErrOutcomeUnknown; the batch was written
)

// Options of a Backend. The zero value is a backend without faults.
type Options struct {
	Retention  store.Retention
	FailCommit func(revision uint64) Fault // asked before each commit; nil means no faults
}

// Backend is one process's hold on a Disk.
type Backend struct {
	disk   *Disk
	opts   Options
	lost   chan struct{}
	loaded bool  // guarded by disk.mu, as is what follows
	closed bool  //
	failed error // why the outcome of a commit is unknown
	done   uint64
	last   store.Written
}

var _ store.Backend = (*Backend)(nil)

// Open takes hold of a disk. While another Backend has it, the error is a *store.InUseError.
func Open(d *Disk, opts Options) (*Backend, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holder != nil {
		return nil, &store.InUseError{File: "memory"}
	}
	opts.Retention = opts.Retention.WithDefaults()
	b := &Backend{disk: d, opts: opts, lost: make(chan struct{})}
	d.holder = b
	return b, nil
}

// Load implements store.Backend.
func (b *Backend) Load(ctx context.Context, put func(store.Record) error) (store.Head, error) {
	b.disk.mu.Lock()
	live, head, err := maps.Clone(b.disk.live), b.disk.head, b.usable(false)
	b.disk.mu.Unlock()
	if err != nil {
		return store.Head{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(live)) {
		if err := ctx.Err(); err != nil {
			return store.Head{}, fmt.Errorf("load: %w", err)
		}
		if err := put(store.Record{Key: key, Value: live[key]}); err != nil {
			return store.Head{}, err
		}
	}
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	b.loaded = true
	return head, nil
}

// Commit implements store.Backend.
func (b *Backend) Commit(ctx context.Context, batch store.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit revision %d: %w", batch.Revision, err)
	}
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	if err := b.usable(true); err != nil {
		return err
	}
	if err := batch.Check(b.disk.head, b.Limits()); err != nil {
		return err
	}
	fault := FaultNone
	if b.opts.FailCommit != nil {
		fault = b.opts.FailCommit(batch.Revision)
	}
	switch fault {
	case FaultNoSpace:
		return fmt.Errorf("commit revision %d: %w", batch.Revision, store.ErrNoSpace)
	case FaultBefore:
		b.failed = fmt.Errorf("commit revision %d: %w", batch.Revision, store.ErrOutcomeUnknown)
		return b.failed
	case FaultNone, FaultAfter:
		b.disk.apply(batch, b.opts.Retention)
	}
	if fault == FaultAfter {
		b.failed = fmt.Errorf("commit revision %d: %w", batch.Revision, store.ErrOutcomeUnknown)
		return b.failed
	}
	b.done++
	b.last = store.Written{Bytes: batch.Size()}
	return nil
}

// Read implements store.Backend.
func (b *Backend) Read(ctx context.Context, from uint64, yield func(store.Batch) error) error {
	b.disk.mu.Lock()
	err, head, log := b.usable(true), b.disk.head, slices.Clone(b.disk.log)
	b.disk.mu.Unlock()
	switch {
	case err != nil:
		return err
	case from > head.Revision:
		return &store.RevisionError{Op: "read", Revision: from, Head: head.Revision}
	case from < head.Oldest:
		return fmt.Errorf("read from revision %d: %w", from, store.ErrCompacted)
	}
	for _, batch := range log[from-head.Oldest:] {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read from revision %d: %w", from, err)
		}
		if err := yield(batch.Clone()); err != nil {
			return err
		}
	}
	return nil
}

// Lead implements store.Backend: it leads at once, until Close.
func (b *Backend) Lead(ctx context.Context) (<-chan struct{}, error) {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	return b.lost, ctx.Err()
}

// Limits implements store.Backend.
func (b *Backend) Limits() store.Limits { return store.DefaultLimits() }

// Stats implements store.Backend.
func (b *Backend) Stats() store.Stats {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	return store.Stats{
		Head:       b.disk.head.Revision,
		Oldest:     b.disk.head.Oldest,
		Folded:     b.disk.head.Revision,
		LogBatches: b.disk.history.Len(),
		LogBytes:   b.disk.history.Bytes(),
		Commits:    b.done,
		Last:       b.last,
	}
}

// Close implements store.Backend. The disk can then be opened again.
func (b *Backend) Close() error {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	b.disk.holder = nil
	close(b.lost)
	return nil
}

// usable says why a call is refused, or nil. The caller holds disk.mu.
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
