package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockWait is how long Open waits for the file: long enough for a server that is just ending, short enough to be told at once.
	lockWait = time.Second
	// lockRetry is the time between two attempts.
	lockRetry = 25 * time.Millisecond
	// newSuffix is added to the name of a file until it is complete.
	newSuffix = ".new"
)

// openLocked opens the file and takes its lock, which bbolt then shares since it is given this very descriptor. Fresh says that there was
// no file: what is open then is an empty one under a name of its own, to be renamed once it is complete.
func openLocked(path string) (f *os.File, fresh bool, err error) {
	deadline := time.Now().Add(lockWait)
	for {
		f, fresh, err = openEither(path)
		if err != nil {
			return nil, false, err
		}
		if err := waitLock(f, path, deadline); err != nil {
			return nil, false, errors.Join(err, f.Close())
		}
		// Between opening and locking, a file may have been renamed or created by somebody else.
		same, err := stillThere(f, path, fresh)
		if err != nil {
			return nil, false, errors.Join(err, f.Close())
		}
		if same {
			return f, fresh, nil
		}
		if err := f.Close(); err != nil {
			return nil, false, fmt.Errorf("close %s: %w", f.Name(), err)
		}
	}
}

func openEither(path string) (f *os.File, fresh bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		fresh = true
		f, err = os.OpenFile(path+newSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open store: %w", err)
	}
	return f, fresh, nil
}

func waitLock(f *os.File, path string, deadline time.Time) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return inUse(f, path)
		default:
			time.Sleep(lockRetry)
		}
	}
}

func stillThere(f *os.File, path string, fresh bool) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	if fresh {
		switch _, err := os.Stat(path); {
		case err == nil:
			return false, os.Remove(f.Name()) // somebody else's is complete, and this one, empty and locked, is nobody's
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("look for %s: %w", path, err)
		}
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return os.SameFile(opened, named), nil
}

// publish gives a new file its name, so that a file under that name is always complete.
func publish(path string) error {
	if err := os.Rename(path+newSuffix, path); err != nil {
		return fmt.Errorf("name the new store: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
