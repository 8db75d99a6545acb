package bolt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/internal/history"
)

// Open opens the file at path, whose directory must exist, and creates it with mode 0600 if it is not there. The structure of the file is
// checked before anything is done with it; the records are checked by Load.
//
// Errors: *store.InUseError (within 2 s), *store.FormatError, *store.CorruptError, those of the operating system.
func Open(path string, opts Options) (*Backend, error) {
	opts.Retention = opts.Retention.WithDefaults()
	if !opts.AnyFilesystem {
		if err := checkFilesystem(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	f, fresh, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	b := &Backend{path: path, opts: opts, lost: make(chan struct{}), folder: folder{limits: opts.fold.withDefaults()}}
	if err := b.open(f, fresh); err != nil {
		removed := removePID(path) // while the lock is still ours
		if b.db != nil {
			return nil, errors.Join(err, removed, b.db.Close())
		}
		if closing := f.Close(); !errors.Is(closing, os.ErrClosed) { // by bbolt, which may have come as far as owning it
			err = errors.Join(err, closing)
		}
		return nil, errors.Join(err, removed)
	}
	return b, nil
}

// open makes a store of the locked file.
func (b *Backend) open(f *os.File, fresh bool) error {
	if err := writePID(b.path); err != nil {
		return err
	}
	if fresh {
		if err := f.Truncate(0); err != nil { // what is left of an attempt that was cut off
			return fmt.Errorf("empty %s: %w", f.Name(), err)
		}
	} else if _, err := prepare(f, b.opts.Progress); err != nil {
		return err
	}
	db, err := openBolt(f, b.opts)
	if err != nil {
		return err
	}
	b.db, b.page = db, db.Info().PageSize // which must not be asked beside a commit
	if fresh {
		if err := b.create(); err != nil {
			return fmt.Errorf("create %s: %w", b.path, err)
		}
	}
	err = db.View(func(tx *bbolt.Tx) error {
		b.meta, err = readMeta(b.path, tx)
		return err
	})
	if err != nil {
		return err
	}
	b.history = history.New(b.meta.head.Revision)
	return nil
}

// prepare brings a file into memory and checks its structure.
func prepare(f *os.File, progress func(done, total int64)) (clean bool, err error) {
	if err := preRead(f, progress); err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return checkPages(f.Name(), f, info.Size())
}

// openBolt hands an open and locked file to bbolt, which owns it from then on, and closes it if there is an error.
func openBolt(f *os.File, opts Options) (*bbolt.DB, error) {
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{
		Timeout:        lockWait, // never needed: the lock is this very file's
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		MaxSize:        opts.MaxSize,
		NoSync:         opts.noSync,
		OpenFile:       func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &store.CorruptError{File: f.Name(), Part: "page", Reason: "meta pages", Err: err}
	default:
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
}

// create fills a new file and gives it its name.
func (b *Backend) create() error {
	initial := b.opts.Initial
	if initial.ClusterID == "" {
		id := make([]byte, 16)
		if _, err := rand.Read(id); err != nil {
			return fmt.Errorf("choose a cluster id: %w", err)
		}
		initial.ClusterID = hex.EncodeToString(id)
	}
	if err := b.db.Update(func(tx *bbolt.Tx) error { return create(tx, initial) }); err != nil {
		return err
	}
	b.dirty = true
	return publish(b.path)
}

// Load implements store.Backend.
func (b *Backend) Load(ctx context.Context, put func(store.Record) error) (store.Head, error) {
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.RLock()
	err, m := b.usable(false), b.meta
	b.mu.RUnlock()
	if err != nil {
		return store.Head{}, err
	}
	l := loader{ctx: ctx, file: b.path, meta: m, put: put}
	if err := b.db.View(func(tx *bbolt.Tx) error {
		mapAhead(b.db.Info().Data, uintptr(tx.Size()))
		return l.load(tx)
	}); err != nil {
		return store.Head{}, err
	}
	b.folder.current = l.unfolded
	b.folder.freeze()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.history = l.history
	b.meta.head.Oldest = l.history.Oldest()
	b.backlog = b.folder.backlog()
	b.loaded = true
	return b.meta.head, nil
}
