package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Limits bound the files.
type Limits struct {
	FileSize int64 // bytes, after which another file is begun
	Files    int   // that are kept, the newest included; 1 at least
}

// Log is the files. It is safe for use by several goroutines.
type Log struct {
	path   string
	limits Limits

	mu    sync.Mutex // guards queue
	queue []*pending

	writer sync.Mutex // held while what is queued is written; guards what follows
	file   *os.File
	size   int64
	failed bool // the latest write: the file is opened anew before the next
}

// pending is a line that waits to be written. What several goroutines write at the same time goes to the disk together.
type pending struct {
	line []byte
	done bool
	err  error
}

// Open opens the newest file, or makes it. A line that a crash cut short stays, and is no entry.
func Open(path string, limits Limits) (*Log, error) {
	l := &Log{path: path, limits: limits}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		l.size = info.Size()
		err = endLine(file, l.size)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file = file
	return nil
}

// endLine ends a line that was cut short, so that the next one can be read.
func endLine(file *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := file.WriteString("\n")
	return err
}

// Write writes an entry and returns once it is on the disk.
func (l *Log) Write(e Entry) error {
	if e.On == nil {
		e.On = map[string]string{}
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	p := &pending{line: append(line, '\n')}
	l.mu.Lock()
	l.queue = append(l.queue, p)
	l.mu.Unlock()

	l.writer.Lock()
	defer l.writer.Unlock()
	if p.done {
		return p.err
	}
	l.mu.Lock()
	all := l.queue
	l.queue = nil
	l.mu.Unlock()
	err = l.append(all)
	if err != nil {
		err = fmt.Errorf("write the audit log: %w", err)
	}
	for _, p := range all {
		p.done, p.err = true, err
	}
	return err
}

// append writes lines at the end of the newest file. The caller holds the writer.
func (l *Log) append(all []*pending) error {
	if l.file == nil {
		return os.ErrClosed
	}
	if l.failed {
		if err := l.reopen(); err != nil {
			return err
		}
	}
	l.failed = true // until it is known not to have
	if l.size >= l.limits.FileSize {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	var lines []byte
	for _, p := range all {
		lines = append(lines, p.line...)
	}
	n, err := l.file.Write(lines)
	l.size += int64(n)
	if err != nil {
		return errors.Join(err, l.file.Truncate(l.size-int64(n))) // half a line would spoil the next
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.failed = false
	return nil
}

// reopen opens the newest file anew: what was in the way may have been mended by another file, or another file system, in its place.
func (l *Log) reopen() error {
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	_ = old.Close() // what could not be written to it was not taken for written
	return nil
}

// rotate begins another file. The caller holds the writer.
func (l *Log) rotate() error {
	for i := l.limits.Files - 1; i > 0; i-- {
		err := os.Rename(l.numbered(i-1), l.numbered(i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if l.limits.Files <= 1 {
		if err := os.Remove(l.path); err != nil {
			return err
		}
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(old.Close(), syncDir(filepath.Dir(l.path)))
}

// numbered returns the name of a file: 0 is the newest.
func (l *Log) numbered(i int) string {
	if i == 0 {
		return l.path
	}
	return fmt.Sprintf("%s.%d", l.path, i)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Read calls yield with the entries that are wanted, oldest first, until it returns false. Writing goes on meanwhile.
func (l *Log) Read(f Filter, yield func(Entry) bool) error {
	files, err := l.files()
	defer func() {
		for _, file := range files {
			_ = file.Close() // it was only read
		}
	}()
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	give, flush := yield, func() {}
	if f.Tail > 0 {
		last := newTail(f.Tail)
		give, flush = last.add, func() { last.each(yield) }
	}
	for _, file := range files {
		more, err := readFile(file, &f, give)
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if !more {
			return nil
		}
	}
	flush()
	return nil
}

// files opens all files, oldest first. None of them is renamed meanwhile.
func (l *Log) files() ([]io.ReadCloser, error) {
	l.writer.Lock()
	defer l.writer.Unlock()
	var out []io.ReadCloser
	for i := l.limits.Files - 1; i >= 0; i-- {
		file, err := os.Open(l.numbered(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, file)
	}
	return out, nil
}

// Close closes the newest file; later entries are refused.
func (l *Log) Close() error {
	l.writer.Lock()
	defer l.writer.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
