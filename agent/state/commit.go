package state

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Batch is what is written together: all of it or nothing.
type Batch struct {
	Revision    cluster.Revision // of the newest assignments that were applied; 0: as it was
	Assignments []Assignment
	Statuses    []Status
	Handles     []driver.Handle
	Forgotten   []cluster.TaskID
	Deleted     []cluster.TaskID // no record of these is left
}

// pending is a batch that waits to be committed.
type pending struct {
	batch Batch
	done  bool
	err   error
}

// Commit makes a batch durable. What several goroutines commit at the same time goes to the disk together.
func (f *File) Commit(b Batch) error {
	p := &pending{batch: b}
	f.mu.Lock()
	f.queue = append(f.queue, p)
	f.mu.Unlock()

	f.writer.Lock()
	defer f.writer.Unlock()
	if p.done {
		return p.err
	}
	f.mu.Lock()
	all := f.queue
	f.queue = nil
	f.mu.Unlock()
	err := f.db.Update(func(tx *bbolt.Tx) error {
		for _, p := range all {
			if err := p.batch.put(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("write agent state: %w", err)
	}
	for _, p := range all {
		p.done, p.err = true, err
	}
	return err
}

func (b *Batch) put(tx *bbolt.Tx) error {
	if b.Revision != 0 {
		if err := tx.Bucket(bucketMeta).Put(keyRevision, binary.BigEndian.AppendUint64(nil, uint64(b.Revision))); err != nil {
			return err
		}
	}
	for _, a := range b.Assignments {
		if err := putMessage(tx.Bucket(bucketAssignments), a.Task, a.toProto()); err != nil {
			return err
		}
	}
	for _, s := range b.Statuses {
		if err := putMessage(tx.Bucket(bucketStatuses), s.Task, s.ToProto()); err != nil {
			return err
		}
	}
	for _, h := range b.Handles {
		value, err := json.Marshal(h)
		if err != nil {
			return err
		}
		if err := putValue(tx.Bucket(bucketHandles), cluster.TaskID(h.TaskID), value); err != nil {
			return err
		}
	}
	for _, id := range b.Forgotten {
		if err := tx.Bucket(bucketForgotten).Put([]byte(id), []byte{1}); err != nil {
			return err
		}
	}
	for _, id := range b.Deleted {
		for _, name := range [][]byte{bucketAssignments, bucketStatuses, bucketHandles, bucketForgotten} {
			if err := tx.Bucket(name).Delete([]byte(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

func putMessage(bucket *bbolt.Bucket, id cluster.TaskID, m proto.Message) error {
	value, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return putValue(bucket, id, value)
}

func putValue(bucket *bbolt.Bucket, id cluster.TaskID, value []byte) error {
	sum := crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))
	return bucket.Put([]byte(id), append(binary.BigEndian.AppendUint32(nil, sum), value...))
}
