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
	if _, err := os.Stat(path); err != nil {
		return Report{}, fmt.Errorf("check store: %w", err)
	}
	f, fresh, err := openLocked(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close() // nothing was written; a second close, after bbolt's, does nothing
	if fresh {
		return Report{}, fmt.Errorf("check store: %s: %w", path, os.ErrNotExist)
	}
	var r Report
	if r.Clean, err = prepare(f, nil); err != nil {
		return Report{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return Report{}, fmt.Errorf("stat %s: %w", path, err)
	}
	r.Bytes = info.Size()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		ReadOnly: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
	if err != nil {
		return Report{}, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error { return r.read(ctx, path, tx) })
	return r, errors.Join(err, db.Close())
}

func (r *Report) read(ctx context.Context, path string, tx *bbolt.Tx) error {
	m, err := readMeta(path, tx)
	if err != nil {
		return err
	}
	l := loader{ctx: ctx, file: path, meta: m, put: func(store.Record) error {
		r.Records++
		return nil
	}}
	if err := l.load(tx); err != nil {
		return err
	}
	r.Head, r.Batches = m.head, l.history.Len()
	r.Head.Oldest = l.history.Oldest()
	return nil
}
