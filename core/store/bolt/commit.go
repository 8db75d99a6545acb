package bolt

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/store"
)

const (
	// dropLimit bounds how many old log records one commit removes; more than one is needed to catch up.
	dropLimit = 256
	// shedLimit bounds how many go at once to make room in a full file.
	shedLimit = 4096
	// logFill is how full a page of the log is made, which is only ever appended to.
	logFill = 0.95
)

// Commit implements store.Backend.
func (b *Backend) Commit(ctx context.Context, batch store.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit revision %d: %w", batch.Revision, err)
	}
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.RLock()
	err, head := b.usable(true), b.meta.head
	b.mu.RUnlock()
	if err != nil {
		return err
	}
	if err := batch.Check(head, b.Limits()); err != nil {
		return err
	}
	packed, records := encodeBatch(batch)
	plan := b.folder.plan(records, len(packed))
	err = b.append(batch, packed, records, plan)
	if err != nil && b.full(err) && (b.shed() || len(plan.keys) > 0) {
		err = b.append(batch, packed, records, slice{}) // without folding, which takes space too
	}
	switch {
	case err == nil:
		return nil
	case b.full(err):
		return fmt.Errorf("commit revision %d: %w: %w", batch.Revision, store.ErrNoSpace, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = fmt.Errorf("commit revision %d: %w: %w", batch.Revision, store.ErrOutcomeUnknown, err)
	return b.failed
}

// append makes one transaction: the batch's log record and the head; what is folded with it; and old log records, which go. In memory
// nothing changes unless it is durable.
func (b *Backend) append(batch store.Batch, packed []byte, records []store.Record, s slice) error {
	next := b.meta // only the holder of writer writes it
	next.head.Revision, next.head.Engine, next.head.Wall = batch.Revision, batch.Engine, batch.Wall.Round(0).UTC()
	if s.last {
		next.folded = s.until
	}
	drop := b.history.Excess(b.opts.Retention, batch.Engine, next.folded, dropLimit)
	b.dirty = true
	var done *bbolt.Tx
	err := b.db.Update(func(tx *bbolt.Tx) error {
		done = tx
		log := tx.Bucket(bucketLog)
		log.FillPercent = logFill
		if err := dropOldest(log, b.history.Oldest(), drop); err != nil {
			return err
		}
		if err := putLog(log, batch.Revision, packed); err != nil {
			return err
		}
		if next.format < Format { // a program that knows the older one only could not read it any more
			next.format = Format
			if err := putFormat(tx); err != nil {
				return err
			}
		}
		if len(s.keys) > 0 || s.last {
			var err error
			if next.objects, err = b.folder.write(tx, s, next.objects); err != nil {
				return err
			}
			if err := putFolded(tx, next.folded, next.objects); err != nil {
				return err
			}
		}
		return putHead(tx, batch.Revision, batch.Engine, batch.Wall)
	})
	if err != nil {
		return err
	}
	b.folder.done(s, batch.Revision, records, len(packed))

	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Cut(drop)
	b.history.Append(batch.Engine, len(packed))
	next.head.Oldest = b.history.Oldest()
	b.meta = next
	b.backlog = b.folder.backlog()
	b.commits++
	stats := done.Stats()
	b.last = store.Written{Bytes: len(packed), Sync: stats.GetWriteTime()}
	return nil
}

// full says whether an error of a transaction means that there was no space, and that nothing of it can be on disk: the head is still the
// one before. Data pages are written to pages that the old head does not use, so only the write of the head itself decides.
func (b *Backend) full(err error) bool {
	if !errors.Is(err, bolterrors.ErrMaxSizeReached) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return false
	}
	var found meta
	if err := b.db.View(func(tx *bbolt.Tx) (err error) {
		found, err = readMeta(b.path, tx)
		return err
	}); err != nil {
		return false
	}
	return found.head.Revision == b.meta.head.Revision
}

// shed gives up the log that is only kept for readers, so that its pages can be used again. It says whether there was any.
func (b *Backend) shed() bool {
	drop := b.history.Excess(store.Retention{Revisions: 1, Age: math.MaxInt64, Bytes: math.MaxInt64}, b.meta.head.Engine, b.meta.folded, shedLimit)
	if drop == 0 {
		return false
	}
	err := b.db.Update(func(tx *bbolt.Tx) error {
		return dropOldest(tx.Bucket(bucketLog), b.history.Oldest(), drop)
	})
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Cut(drop)
	b.meta.head.Oldest = b.history.Oldest()
	return true
}
