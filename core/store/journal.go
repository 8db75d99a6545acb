package store

import (
	"context"
	"fmt"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// Journal keeps records of the vocabulary in a backend, encoded.
type Journal struct {
	Backend Backend
}

// Load reads every record, on all processors. Each is decoded and handed to a function that preparer returned, in no order; what that returns is handed to put, in the
// order of keys, one at a time. It returns the head, or the first error of any of them; an error of put is returned as it is. The functions of preparer are for one
// goroutine each and may not keep the record, which is used again; without a preparer put gets a record of its own. What put has had is given to them once more, as
// spent, to be used again if it is of theirs. Put may be called from another goroutine than the caller's, never after Load has returned.
func (j Journal) Load(ctx context.Context, preparer func() func(record, spent any) any, put func(any) error) (Head, error) {
	var head Head
	err := decodeAll(ctx, func(ctx context.Context, each func(Record) error) (err error) {
		head, err = j.Backend.Load(ctx, each)
		return err
	}, preparer, put)
	if err != nil {
		return Head{}, err
	}
	return head, nil
}

// Commit makes one turn durable: records as they are now, and those that are no more as they were.
func (j Journal) Commit(ctx context.Context, rev cluster.Revision, now cluster.Time, puts, deletes []any) error {
	records, err := encode(puts, deletes)
	if err != nil {
		return err
	}
	return j.Backend.Commit(ctx, Batch{Revision: uint64(rev), Engine: now.Engine, Wall: time.Unix(0, now.Wall), Records: records})
}

// Room that is made for a key and a value to begin with, in bytes.
const (
	usualKey   = 32
	usualValue = 256
)

// encode returns records as a backend takes them. All keys share one piece of memory, and all values another.
func encode(puts, deletes []any) ([]Record, error) {
	records := make([]Record, 0, len(puts)+len(deletes))
	keys, ends := make([]byte, 0, cap(records)*usualKey), make([]int, 0, cap(records))
	values := make([]byte, 0, len(puts)*usualValue)
	for _, v := range puts {
		var err error
		if keys, err = wire.AppendKey(keys, v); err != nil {
			return nil, fmt.Errorf("encode %T: %w", v, err)
		}
		begin := len(values)
		if values, err = wire.AppendValue(values, v); err != nil {
			return nil, err
		}
		ends = append(ends, len(keys))
		records = append(records, Record{Value: values[begin:len(values):len(values)]})
	}
	for _, v := range deletes {
		var err error
		if keys, err = wire.AppendKey(keys, v); err != nil {
			return nil, err
		}
		ends = append(ends, len(keys))
		records = append(records, Record{})
	}
	all, begin := string(keys), 0
	for i, end := range ends {
		records[i].Key = all[begin:end]
		begin = end
	}
	return records, nil
}

// Read calls yield with every turn after a revision, in order: its revision and time, the records that it wrote and the keys of those that it deleted. Errors
// are those of Backend.Read; an error of yield is returned as it is.
func (j Journal) Read(ctx context.Context, from cluster.Revision, yield func(cluster.Revision, cluster.Time, []any, []string) error) error {
	return j.Backend.Read(ctx, uint64(from), func(b Batch) error {
		var puts []any
		var deleted []string
		for _, r := range b.Records {
			if r.Value == nil {
				deleted = append(deleted, r.Key)
				continue
			}
			v, err := wire.Decode(r.Key, r.Value)
			if err != nil {
				return fmt.Errorf("read revision %d: %w", b.Revision, err)
			}
			puts = append(puts, v)
		}
		return yield(cluster.Revision(b.Revision), cluster.Time{Engine: b.Engine, Wall: b.Wall.UnixNano()}, puts, deleted)
	})
}
