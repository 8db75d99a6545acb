package store

import (
	"bytes"
	"fmt"
)

// Size is the number of bytes in the batch's keys and values, as Limits counts them.
func (b Batch) Size() int {
	n := 0
	for _, r := range b.Records {
		n += len(r.Key) + len(r.Value)
	}
	return n
}

// Check says whether the batch may follow the head within the limits; if not, the error wraps ErrRefused. Every backend asks it before a
// commit.
func (b Batch) Check(head Head, l Limits) error {
	if b.Revision != head.Revision+1 {
		return fmt.Errorf("%w: %w", ErrRefused, &RevisionError{Op: "commit", Revision: b.Revision, Head: head.Revision})
	}
	if b.Engine < head.Engine {
		return fmt.Errorf("%w: engine time %v is before the head's %v", ErrRefused, b.Engine, head.Engine)
	}
	if len(b.Records) > l.Changes {
		return fmt.Errorf("%w: %d changes, at most %d", ErrRefused, len(b.Records), l.Changes)
	}
	if n := b.Size(); n > l.Bytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrRefused, n, l.Bytes)
	}
	seen := make(map[string]struct{}, len(b.Records))
	for _, r := range b.Records {
		if r.Key == "" || len(r.Key) > l.Key {
			return fmt.Errorf("%w: a key of %d bytes, not between 1 and %d", ErrRefused, len(r.Key), l.Key)
		}
		seen[r.Key] = struct{}{}
	}
	if len(seen) == len(b.Records) {
		return nil
	}
	clear(seen)
	for _, r := range b.Records {
		if _, twice := seen[r.Key]; twice {
			return fmt.Errorf("%w: key %q is changed twice", ErrRefused, r.Key)
		}
		seen[r.Key] = struct{}{}
	}
	panic("store: two counts of the same keys differ")
}

// Clone copies the batch with its values, so that neither can be changed through the other. Wall time comes back as backends keep it.
func (b Batch) Clone() Batch {
	out := b
	out.Wall = b.Wall.Round(0).UTC()
	out.Records = make([]Record, len(b.Records))
	for i, r := range b.Records {
		out.Records[i] = Record{Key: r.Key, Value: bytes.Clone(r.Value)}
	}
	return out
}
