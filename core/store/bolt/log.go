package bolt

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// A page of a bbolt tree has two values at least, and a leaf is written anew with all of them when one is added. So a large record in the log would be written
// again with each of the next three or four. It has a bucket of its own instead, which is written once, and of which the log has only the root.

// apart is from how many bytes on a record of the log has a bucket of its own. A bucket on a page of its own takes at least a quarter of a page.
const apart = 1024

// keyBatch is the key of the batch in such a bucket.
var keyBatch = []byte("batch")

// logKey is the key of a revision's record in the log: big endian, so that the order of keys is that of revisions.
func logKey(revision uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, revision)
}

// putLog appends a packed batch.
func putLog(log *bbolt.Bucket, revision uint64, packed []byte) error {
	if len(packed) < apart {
		if err := log.Put(logKey(revision), packed); err != nil {
			return fmt.Errorf("append to the log: %w", err)
		}
		return nil
	}
	own, err := log.CreateBucket(logKey(revision))
	if err != nil {
		return fmt.Errorf("append a bucket to the log: %w", err)
	}
	if err := own.Put(keyBatch, packed); err != nil {
		return fmt.Errorf("append to the log: %w", err)
	}
	return nil
}

// packedAt returns the packed batch at a key of the log, of which a cursor gave the value. It is empty, which no batch is, where a bucket holds no batch.
func packedAt(log *bbolt.Bucket, key, value []byte) []byte {
	if value != nil {
		return value
	}
	own := log.Bucket(key)
	if own == nil {
		return nil
	}
	return own.Get(keyBatch)
}

// dropOldest removes n records from the start of the log.
func dropOldest(log *bbolt.Bucket, oldest uint64, n int) error {
	for i := range uint64(n) {
		key, drop := logKey(oldest+1+i), log.Delete
		if log.Get(key) == nil {
			drop = log.DeleteBucket
		}
		if err := drop(key); err != nil {
			return fmt.Errorf("drop revision %d from the log: %w", oldest+1+i, err)
		}
	}
	return nil
}
