package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

const (
	// compactSuffix is added to the name of the copy until it is complete.
	compactSuffix = ".compact"
	// compactStep is how many bytes go into one transaction of the copy.
	compactStep = 16 << 20
)

// Compact rewrites a file without its free pages, which only this gives back to the file system, and returns its size in bytes before and
// after. The file must not be in use, and is replaced only by a copy that was checked and is on disk; the copy needs space beside it.
//
// Errors: as of Check.
func Compact(ctx context.Context, path string) (before, after int64, err error) {
	src, report, err := openChecked(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	tmp := path + compactSuffix
	after, err = copyCompact(ctx, tmp, src)
	if err == nil {
		// The lock on the old file is held until the new one has its name; who waits for it finds that the name has moved on.
		if err = os.Rename(tmp, path); err == nil {
			err = syncDir(filepath.Dir(path))
		}
	}
	if err := errors.Join(err, src.Close()); err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", path, err)
	}
	return report.Bytes, after, nil
}

// copyCompact copies src into a new file, checks and syncs it.
func copyCompact(ctx context.Context, tmp string, src *bbolt.DB) (size int64, err error) {
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("remove an old attempt: %w", err)
	}
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return 0, fmt.Errorf("create %s: %w", tmp, err)
	}
	err = bbolt.Compact(dst, src, compactStep)
	if err == nil {
		var r Report
		err = dst.View(func(tx *bbolt.Tx) error { return r.read(ctx, tmp, tx) })
	}
	if err == nil {
		err = dst.Sync()
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(tmp))
	}
	info, err := os.Stat(tmp)
	if err != nil {
		return 0, fmt.Errorf("stat %s: %w", tmp, err)
	}
	return info.Size(), nil
}
