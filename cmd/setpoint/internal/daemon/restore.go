package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

// restoredStep is what a restored state's revision is raised to a multiple of: more turns than there ever are between a backup and the loss. So no agent has seen as much, and no task gets
// an id that was given after the backup was made.
const restoredStep = 10_000_000_000

// Restored is what came of a restoration.
type Restored struct {
	Cluster  string
	Copied   uint64    // revision of the copy
	At       time.Time // when that was committed
	Revision uint64    // of the state now
	Records  int
	Replaced string // where the state that was there is kept; "" if there was none
}

// Restore makes the state of a copy of the store's file the one of a data directory in which no server runs, at a revision that nobody has seen. The state that was there is kept beside it.
func Restore(ctx context.Context, cfg *config.Config, file string) (out Restored, err error) {
	if cfg.Store.Kind != config.StoreBolt {
		return out, errors.New("restore the state: the configuration keeps it in memory")
	}
	to := cfg.Store.File
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return out, fmt.Errorf("restore the state: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(to), ".restore-")
	if err != nil {
		return out, fmt.Errorf("restore the state: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	head, records, err := readCopy(ctx, file, filepath.Join(scratch, "copy"))
	if err != nil {
		return out, err
	}
	if authority, err := pki.LoadAuthority(datadir.Dir(cfg.DataDir).Authority()); err == nil && authority.ClusterID() != head.ClusterID {
		return out, fmt.Errorf("restore the state: %s is of cluster %s, and the authority in %s of cluster %s", file, head.ClusterID, datadir.Dir(cfg.DataDir).Authority(), authority.ClusterID())
	}
	out = Restored{Cluster: head.ClusterID, Copied: head.Revision, At: head.Wall, Records: len(records)}
	head.Revision = (head.Revision/restoredStep + 1) * restoredStep
	made := filepath.Join(scratch, "state.db")
	if out.Revision, err = writeState(ctx, made, head, records); err != nil {
		return out, err
	}
	if out.Replaced, err = putAside(to); err != nil {
		return out, err
	}
	if err := os.Rename(made, to); err != nil {
		return out, fmt.Errorf("restore the state: %w", err)
	}
	return out, nil
}

// readCopy reads all records of a file, from a copy of it: opening a store may change it.
func readCopy(ctx context.Context, file, scratch string) (store.Head, []store.Record, error) {
	fail := func(err error) (store.Head, []store.Record, error) {
		return store.Head{}, nil, fmt.Errorf("read the copy of the state: %w", err)
	}
	if err := copyFile(file, scratch); err != nil {
		return fail(err)
	}
	backend, err := bolt.Open(scratch, bolt.Options{AnyFilesystem: true})
	if err != nil {
		return fail(err)
	}
	var records []store.Record
	head, err := backend.Load(ctx, func(r store.Record) error {
		records = append(records, r)
		return nil
	})
	if err = errors.Join(err, backend.Close()); err != nil {
		return fail(err)
	}
	return head, records, nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// writeState makes a file with these records, and returns the revision at which it stands.
func writeState(ctx context.Context, path string, head store.Head, records []store.Record) (_ uint64, err error) {
	backend, err := bolt.Open(path, bolt.Options{Initial: head, AnyFilesystem: true})
	if err != nil {
		return 0, fmt.Errorf("write the restored state: %w", err)
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if _, err := backend.Load(ctx, func(store.Record) error { return nil }); err != nil {
		return 0, fmt.Errorf("write the restored state: %w", err)
	}
	limits := backend.Limits()
	revision := head.Revision
	for first := true; first || len(records) > 0; first = false {
		n, size := 0, 0
		for n < len(records) && n < limits.Changes && (n == 0 || size+len(records[n].Key)+len(records[n].Value) <= limits.Bytes/2) {
			size += len(records[n].Key) + len(records[n].Value)
			n++
		}
		revision++
		if err := backend.Commit(ctx, store.Batch{Revision: revision, Engine: head.Engine, Wall: head.Wall, Records: records[:n]}); err != nil {
			return 0, fmt.Errorf("write the restored state: %w", err)
		}
		records = records[n:]
	}
	return revision, nil
}

// putAside renames the state that is there, which no server may have open; damage of it is why it is replaced, and is no matter.
func putAside(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	backend, err := bolt.Open(path, bolt.Options{AnyFilesystem: true})
	if inUse := (*store.InUseError)(nil); errors.As(err, &inUse) {
		return "", fmt.Errorf("restore the state: %w: stop it first", err)
	}
	if err == nil {
		if err := backend.Close(); err != nil {
			return "", fmt.Errorf("restore the state: %w", err)
		}
	}
	aside := path + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("restore the state: %w", err)
	}
	return aside, nil
}
