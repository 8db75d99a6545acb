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
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

// restoredStep is how far a restored state's revision is raised where the clock tells nothing: more turns than there ever are between a backup and the loss.
const restoredStep = 10_000_000_000

// restoredSince is when the microseconds begin that restored revisions are counted in.
var restoredSince = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

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
	replaced, err := lastRevision(ctx, to)
	if err != nil {
		return out, err
	}
	head.Revision = raised(max(head.Revision, replaced), time.Now())
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

// raised returns the revision that a restored state begins with, above all that any agent has seen and any task's id was made of. A copy does not tell what came after it, nor whether it was
// restored before, and the state that did may be lost. So the revision is the number of microseconds since restoredSince, in whole seconds, which a cluster that commits less often than each
// microsecond never overtakes. A clock that is behind what is known counts for nothing.
func raised(known uint64, now time.Time) uint64 {
	if seconds := now.Unix() - restoredSince.Unix(); seconds > 0 && uint64(seconds)*1_000_000 > known {
		return uint64(seconds) * 1_000_000
	}
	return (known/restoredStep + 1) * restoredStep
}

// readCopy reads all records of a file, from a copy of it: opening a store may change it.
func readCopy(ctx context.Context, file, scratch string) (store.Head, []store.Record, error) {
	fail := func(err error) (store.Head, []store.Record, error) {
		if damage := (*store.CorruptError)(nil); errors.As(err, &damage) {
			damage.File = file // what was read is gone when this is
		}
		if other := (*store.FormatError)(nil); errors.As(err, &other) {
			other.File = file
		}
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
		if !engine.IsOlderCopy(r.Key) { // it is accepted now
			records = append(records, r)
		}
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

// lastRevision returns the last revision of the state that is there, which no server may have open; 0 if there is none, or if it is damaged, which is why it is replaced.
func lastRevision(ctx context.Context, path string) (_ uint64, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	backend, err := bolt.Open(path, bolt.Options{AnyFilesystem: true})
	if inUse := (*store.InUseError)(nil); errors.As(err, &inUse) {
		return 0, fmt.Errorf("restore the state: %w: stop it first", err)
	}
	if err != nil {
		return 0, nil //nolint:nilerr // damage is no matter
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	head, err := backend.Load(ctx, func(store.Record) error { return nil })
	if err != nil {
		return 0, ctx.Err()
	}
	return head.Revision, nil
}

// putAside renames the state that is there.
func putAside(path string) (string, error) {
	aside := path + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	err := os.Rename(path, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("restore the state: %w", err)
	}
	return aside, nil
}
