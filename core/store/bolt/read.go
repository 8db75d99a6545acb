package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/setpointd/setpoint/core/store"
)

// A read takes the log in chunks, each in a transaction of its own: a transaction that stays open keeps the file from using pages again,
// and lets it grow for ever.
const (
	chunkBatches = 256
	chunkBytes   = 1 << 20
)

// Read implements store.Backend.
func (b *Backend) Read(ctx context.Context, from uint64, yield func(store.Batch) error) error {
	b.mu.RLock()
	err, head := b.usable(true), b.meta.head.Revision
	b.mu.RUnlock()
	switch {
	case err != nil:
		return err
	case from > head:
		return &store.RevisionError{Op: "read", Revision: from, Head: head}
	}
	for from < head {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read from revision %d: %w", from, err)
		}
		chunk, err := b.chunk(from, head)
		if err != nil {
			return err
		}
		for _, batch := range chunk {
			if err := yield(batch); err != nil {
				return err
			}
			from = batch.Revision
		}
	}
	return nil
}

// chunk reads some batches after revision from and up to head; there is at least one.
func (b *Backend) chunk(from, head uint64) ([]store.Batch, error) {
	var out []store.Batch
	err := b.db.View(func(tx *bbolt.Tx) error {
		log := tx.Bucket(bucketLog)
		c := log.Cursor()
		size := 0
		k, value := c.Seek(logKey(from + 1))
		for ; k != nil && len(out) < chunkBatches && size < chunkBytes; k, value = c.Next() {
			revision := binary.BigEndian.Uint64(k)
			if revision > head {
				break
			}
			if revision != from+1 {
				return fmt.Errorf("read from revision %d: %w", from, store.ErrCompacted)
			}
			packed := packedAt(log, k, value)
			batch, err := decodeBatch(revision, packed)
			if err != nil {
				return &store.CorruptError{File: b.path, Part: "log", Revision: revision, Reason: err.Error()}
			}
			out = append(out, batch)
			size += len(packed)
			from = revision
		}
		if len(out) == 0 {
			return fmt.Errorf("read from revision %d: %w", from, store.ErrCompacted)
		}
		return nil
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, store.ErrClosed
	}
	return out, err
}
