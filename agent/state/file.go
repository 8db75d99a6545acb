package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Name is the file's name in the agent's data directory.
const Name = "agent.db"

// format is the version of the file's layout.
const format = "1"

// lockWait is how long Open waits for another agent to let go of the file.
const lockWait = 1500 * time.Millisecond

var (
	bucketMeta        = []byte("meta")
	bucketAssignments = []byte("assignments")
	bucketStatuses    = []byte("statuses")
	bucketHandles     = []byte("handles")
	bucketForgotten   = []byte("forgotten")

	keyFormat    = []byte("format")
	keyCluster   = []byte("cluster_id")
	keyNode      = []byte("node_id")
	keyAuthority = []byte("authority")
	keyRevision  = []byte("revision")
)

// InUseError says that another agent holds the file.
type InUseError struct {
	Path string
	PID  int // of the other agent; 0 if not known
}

// Error names the file and its holder.
func (e *InUseError) Error() string {
	holder := "another agent"
	if e.PID != 0 {
		holder += fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("open %s: %s uses this data directory; stop it first, or give this one a directory of its own", e.Path, holder)
}

// File is an open agent.db. It is safe for use by several goroutines.
type File struct {
	path string
	db   *bbolt.DB

	mu    sync.Mutex // guards queue
	queue []*pending

	writer sync.Mutex // held by the one that commits the queue
}

// Open opens the file in a data directory, or makes it. If another agent holds it, the error is an *InUseError, after less than two seconds.
func Open(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agent state: %w", err)
	}
	path := filepath.Join(dir, Name)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, &InUseError{Path: path, PID: readPID(path)}
	}
	if err != nil {
		return nil, fmt.Errorf("open agent state %s: %w", path, err)
	}
	f := &File{path: path, db: db}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open agent state %s: %w", path, err), db.Close())
	}
	return f, nil
}

func (f *File) prepare() error {
	err := f.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketAssignments, bucketStatuses, bucketHandles, bucketForgotten} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		switch have := string(meta.Get(keyFormat)); have {
		case format:
			return nil
		case "":
			return meta.Put(keyFormat, []byte(format))
		default:
			return fmt.Errorf("its format is %q and this agent reads %q: use the version that wrote it", have, format)
		}
	})
	if err != nil {
		return err
	}
	return os.WriteFile(pidFile(f.path), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}

// Close closes the file and lets another agent have it.
func (f *File) Close() error {
	err := os.Remove(pidFile(f.path)) // while the lock is held: afterwards it may be somebody else's
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, f.db.Close()); err != nil {
		return fmt.Errorf("close agent state: %w", err)
	}
	return nil
}

// pidFile names the file in which the holder says who it is. It is for people; the lock is what counts.
func pidFile(path string) string { return strings.TrimSuffix(path, ".db") + ".pid" }

// readPID returns the process that holds the file, or 0 if that cannot be told.
func readPID(path string) int {
	text, err := os.ReadFile(pidFile(path))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return 0
	}
	return pid
}
