package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/internal/texts"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/internal/history"
)

// askContext is how many records go by between two looks at the context.
const askContext = 1024

// loader reads a whole file in one transaction: the log first, for what is not folded, then the keyed records with that laid over them.
type loader struct {
	ctx  context.Context //nolint:containedctx // lives for one call of Load
	file string
	meta meta
	put  func(store.Record) error

	history  *history.Log // out: the account of the log
	unfolded generation   // out: what is not folded
	steps    int
	keys     texts.Room // nobody keeps a few of them only
}

func (l *loader) load(tx *bbolt.Tx) error {
	if err := l.log(tx); err != nil {
		return err
	}
	return l.objects(tx)
}

// log checks that the log's records are whole and follow each other up to the head, and collects what is not folded.
func (l *loader) log(tx *bbolt.Tx) error {
	l.history = history.New(l.meta.head.Revision)
	log := tx.Bucket(bucketLog)
	c := log.Cursor()
	next := uint64(0)
	for k, value := c.First(); k != nil; k, value = c.Next() {
		if err := l.step(); err != nil {
			return err
		}
		revision, err := l.revision(k, next)
		if err != nil {
			return err
		}
		if next == 0 {
			l.history = history.New(revision - 1)
		}
		next = revision + 1
		if err := l.batch(revision, packedAt(log, k, value)); err != nil {
			return err
		}
	}
	switch {
	case next == 0 && l.meta.folded < l.meta.head.Revision:
		return l.corrupt("log", "", l.meta.folded+1, "missing")
	case next != 0 && next != l.meta.head.Revision+1:
		return l.corrupt("log", "", l.meta.head.Revision, fmt.Sprintf("the log ends with revision %d", next-1))
	case l.history.Oldest() > l.meta.folded:
		return l.corrupt("log", "", l.meta.folded+1, "missing")
	}
	return nil
}

// revision reads a key of the log, which must be the one that comes next; 0 takes any.
func (l *loader) revision(k []byte, next uint64) (uint64, error) {
	if len(k) != 8 {
		return 0, l.corrupt("log", string(k), 0, "not a revision")
	}
	revision := binary.BigEndian.Uint64(k)
	if revision == 0 || next != 0 && revision != next {
		return 0, l.corrupt("log", "", next, fmt.Sprintf("missing, followed by revision %d", revision))
	}
	return revision, nil
}

// batch takes one log record into account.
func (l *loader) batch(revision uint64, packed []byte) error {
	if revision <= l.meta.folded {
		_, b, _, err := decodeHeader(revision, packed)
		if err != nil {
			return l.corrupt("log", "", revision, err.Error())
		}
		l.history.Append(b.Engine, len(packed))
		return nil
	}
	b, err := decodeBatch(revision, packed)
	if err != nil {
		return l.corrupt("log", "", revision, err.Error())
	}
	l.history.Append(b.Engine, len(packed))
	l.unfolded.add(revision, b.Records, len(packed))
	return nil
}

// objects gives every live record to put: the keyed ones and, over them, the unfolded ones, both in the order of keys.
func (l *loader) objects(tx *bbolt.Tx) error {
	l.keys.Size = 16 << 10
	overlay := slices.Sorted(maps.Keys(l.unfolded.values))
	var found tally
	c := tx.Bucket(bucketObj).Cursor()
	for k, packed := c.First(); k != nil; k, packed = c.Next() {
		value, err := unseal(k, packed)
		if err != nil {
			return l.corrupt("obj", string(k), 0, err.Error())
		}
		found.add(packed)
		key := l.keys.Text(k)
		for len(overlay) > 0 && overlay[0] < key {
			if err := l.give(overlay[0], l.unfolded.values[overlay[0]]); err != nil {
				return err
			}
			overlay = overlay[1:]
		}
		if len(overlay) > 0 && overlay[0] == key {
			continue // the newer value comes with the overlay
		}
		if err := l.give(key, value); err != nil {
			return err
		}
	}
	for _, key := range overlay {
		if err := l.give(key, l.unfolded.values[key]); err != nil {
			return err
		}
	}
	if found != l.meta.objects {
		return l.corrupt("obj", "", 0, fmt.Sprintf("%d records with sum %#x, and there should be %d with %#x: a page was lost or is outdated",
			found.count, found.sum, l.meta.objects.count, l.meta.objects.sum))
	}
	return nil
}

// give hands out a live record; nil is a deletion.
func (l *loader) give(key string, value []byte) error {
	if err := l.step(); err != nil || value == nil {
		return err
	}
	return l.put(store.Record{Key: key, Value: value})
}

func (l *loader) step() error {
	l.steps++
	if l.steps%askContext != 1 {
		return nil
	}
	if err := l.ctx.Err(); err != nil {
		return fmt.Errorf("load %s: %w", l.file, err)
	}
	return nil
}

func (l *loader) corrupt(part, key string, revision uint64, reason string) error {
	return &store.CorruptError{File: l.file, Part: part, Key: key, Revision: revision, Reason: reason}
}
