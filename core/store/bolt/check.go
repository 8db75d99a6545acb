package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/setpointd/setpoint/core/store"
)

// Report is what Check found in a file that is in order.
type Report struct {
	Head    store.Head
	Clean   bool  // the file was closed properly
	Records int   // live ones
	Batches int   // in the log
	Bytes   int64 // of the file
}

// Check reads a whole file and checks everything that can be checked: the structure of the pages, and what Load checks. It changes nothing.
// The file must not be in use: stop the server, or copy the file while it is stopped. Nothing that Check finds makes it panic.
//
// Errors: *store.InUseError, *store.FormatError, *store.CorruptError, those of the operating system.
func Check(ctx context.Context, path string) (Report, error) {
	db, r, err := openChecked(ctx, path)
	if err != nil {
		return Report{}, err
	}
	return r, db.Close()
}

// openChecked opens an existing file for reading only and checks all of it. It stays locked until the database is closed.
func openChecked(ctx context.Context, path string) (*bbolt.DB, Report, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, Report{}, fmt.Errorf("check store: %w", err)
	}
	f, fresh, err := openLocked(path)
	if err != nil {
		return nil, Report{}, err
	}
	if fresh { // it went away in between
		return nil, Report{}, errors.Join(fmt.Errorf("check store: %s: %w", path, os.ErrNotExist), f.Close())
	}
	r := Report{}
	if r.Clean, err = prepare(f, nil); err != nil {
		return nil, Report{}, errors.Join(err, f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, Report{}, errors.Join(fmt.Errorf("stat %s: %w", path, err), f.Close())
	}
	r.Bytes = info.Size()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		ReadOnly: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
	if err != nil { // bbolt has closed the file
		return nil, Report{}, fmt.Errorf("open %s: %w", path, err)
	}
	if err := db.View(func(tx *bbolt.Tx) error { return r.read(ctx, path, tx) }); err != nil {
		return nil, Report{}, errors.Join(err, db.Close())
	}
	return db, r, nil
}

// read checks the records, and counts them.
func (r *Report) read(ctx context.Context, path string, tx *bbolt.Tx) error {
	m, err := readMeta(path, tx)
	if err != nil {
		return err
	}
	records := 0
	l := loader{ctx: ctx, file: path, meta: m, put: func(store.Record) error {
		records++
		return nil
	}}
	if err := l.load(tx); err != nil {
		return err
	}
	r.Head, r.Records, r.Batches = m.head, records, l.history.Len()
	r.Head.Oldest = l.history.Oldest()
	return nil
}
