package store

import (
	"context"
	"time"
)

// Record is one key with its value. A nil Value deletes the key; an empty one that is not nil is a value like any other.
type Record struct {
	Key   string
	Value []byte
}

// Batch is what one turn of the engine changed.
type Batch struct {
	Revision uint64        // the head's revision plus one
	Engine   time.Duration // engine time of the turn, never less than the head's
	Wall     time.Time     // wall time of the turn, for people; kept in UTC to the nanosecond
	Records  []Record      // at most one for each key; none at all is fine
}

// Head says where the state stands.
type Head struct {
	Revision  uint64 // of the last batch; 0 if there was none
	Engine    time.Duration
	Wall      time.Time
	ClusterID string // given when the storage was created, the same for ever
	Oldest    uint64 // the lowest revision from which Read works
}

// Backend keeps batches durable. Backends share no memory with their callers: values that come in are copied, values that go out may be
// kept and changed, but for those that Load gives.
type Backend interface {
	// Load calls put with every live record once, in the order of keys, and returns the head. A value is good until put returns, and may
	// not be changed. What put was given counts only if Load returns no error: damage may be found at the end. It is called once with success, before anything else; after an error it may be
	// called again. An error of put is returned as it is.
	//
	// Errors: *CorruptError, ErrLoaded, ErrClosed, the context's.
	Load(ctx context.Context, put func(Record) error) (Head, error)

	// Commit makes the batch durable: when it returns nil the batch survives a crash of the process and of the machine. The context is
	// looked at before the work begins, never during it.
	//
	// Errors: ErrRefused (the batch breaks a rule; nothing was done), ErrNoSpace (nothing was done, reading goes on, the same batch may be
	// tried again later), ErrOutcomeUnknown (the batch may or may not be durable: every later call is refused, and the process must exit
	// and load again), ErrNotLoaded, ErrClosed, the context's.
	Commit(ctx context.Context, b Batch) error

	// Read calls yield with every batch after revision from, in order, up to the head at the time of the call. It may run beside Commit.
	// Yield is called without locks held, so it may take its time and may call the backend. An error of yield is returned as it is.
	//
	// Errors: ErrCompacted (some of the batches were dropped: take the state instead), *RevisionError (from is ahead of the head: it
	// belongs to other storage), *CorruptError, ErrNotLoaded, ErrOutcomeUnknown, ErrClosed, the context's.
	Read(ctx context.Context, from uint64, yield func(Batch) error) error

	// Lead waits until this process may write; lost is closed when it no longer may, at the latest by Close.
	Lead(ctx context.Context) (lost <-chan struct{}, err error)

	// Limits says how large a batch may be. It never changes.
	Limits() Limits

	// Stats counts what people and metrics ask for. It works in every state of the backend.
	Stats() Stats

	// Close releases the storage. Acknowledged batches are durable without it; it only makes the next start cheaper. A second call does
	// nothing.
	Close() error
}

// Limits bounds one batch.
type Limits struct {
	Changes int // records
	Bytes   int // of all keys and values together
	Key     int // bytes of one key
}

// DefaultLimits are those of the bolt and mem backends: many times what a turn aims at, since a turn that is too large ends the engine. Decisions are cut to
// thousands of changes; what is not cut is what one record holds, and what a turn says of all that waits.
func DefaultLimits() Limits {
	return Limits{Changes: 50_000, Bytes: 32 << 20, Key: 1024}
}

// Stats describes a backend at one moment. A backend leaves at zero what it does not have.
type Stats struct {
	Head         uint64 // revision of the last acknowledged batch
	Oldest       uint64 // the lowest revision from which Read works
	Folded       uint64 // every batch up to this revision is contained in the keyed records
	FileBytes    int64
	FreeBytes    int64 // within the file: to be used again before it grows
	LogBatches   int
	LogBytes     int64
	UnfoldedKeys int    // keys whose newest value is in the log alone
	Commits      uint64 // by this process
	Last         Written
}

// Written is what the last commit wrote.
type Written struct {
	Bytes int           // of the batch, encoded
	Sync  time.Duration // to write it to the disk and wait until it is there
}

// Retention says how much of the log is kept for Read once it is not needed for recovery. A batch is dropped as soon as one of the bounds
// is passed, the last batch excepted. Zero stands for the default of a bound.
type Retention struct {
	Revisions uint64        // default 100,000
	Age       time.Duration // in engine time, so nothing ages while no server runs; default 10 minutes
	Bytes     int64         // of the encoded batches; default 64 MiB
}

// WithDefaults fills in the bounds that are zero.
func (r Retention) WithDefaults() Retention {
	if r.Revisions == 0 {
		r.Revisions = 100_000
	}
	if r.Age == 0 {
		r.Age = 10 * time.Minute
	}
	if r.Bytes == 0 {
		r.Bytes = 64 << 20
	}
	return r
}
