package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// LogLimits bound what is kept of one stream of one task.
type LogLimits struct {
	// MaxBytes is the size of one file; at least 64 KiB, which smaller values are raised to.
	MaxBytes int64 `json:"max_bytes"`
	// MaxFiles is how many files are kept, the one written to included; at least 2.
	MaxFiles int `json:"max_files"`
}

const (
	minLogBytes = 64 << 10
	minLogFiles = 2
	// maxLineBytes is where a line is cut in two.
	maxLineBytes = 16 << 10
	// stampLayout has a fixed width, so that stamps are compared as text too.
	stampLayout = "2006-01-02T15:04:05.000000000Z"
	// lineFull and linePart stand between stamp and text.
	lineFull = 'F'
	linePart = 'P'
	// headerBytes is the length of what precedes the text.
	headerBytes = len(stampLayout) + 3
)

// or returns the limits, with those of another where they say nothing.
func (l LogLimits) or(other LogLimits) LogLimits {
	return LogLimits{MaxBytes: cmp.Or(l.MaxBytes, other.MaxBytes), MaxFiles: cmp.Or(l.MaxFiles, other.MaxFiles)}
}

func (l LogLimits) orDefault() LogLimits {
	if l.MaxBytes == 0 {
		l.MaxBytes = 10 << 20
	}
	if l.MaxFiles == 0 {
		l.MaxFiles = 4
	}
	return LogLimits{MaxBytes: max(l.MaxBytes, minLogBytes), MaxFiles: max(l.MaxFiles, minLogFiles)}
}

// streamWord begins the names of a stream's files.
func streamWord(s driver.Stream) string {
	if s == driver.Stderr {
		return "err"
	}
	return "out"
}

func segmentName(dir string, s driver.Stream, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d.log", streamWord(s), n))
}

// segments returns the numbers of a stream's files in order. A missing directory has none.
func segments(dir string, s driver.Stream) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), streamWord(s)+".")
		if !ok {
			continue
		}
		digits, ok := strings.CutSuffix(rest, ".log")
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// A logWriter writes one stream's files. Each line gets a stamp, and no file grows beyond the limit. When the disk takes nothing, lines are
// dropped and counted rather than blocking the task, and the count is written as soon as it can be.
type logWriter struct {
	dir    string
	stream driver.Stream
	limits LogLimits

	segment int
	file    *os.File
	size    int64 // of file, without pending
	pending []byte
	lines   int // in pending
	dropped int // lines lost and not yet told of in a file
	telling int // of dropped, those that a line in pending tells of
}

func newLogWriter(dir string, s driver.Stream, limits LogLimits) *logWriter {
	return &logWriter{dir: dir, stream: s, limits: limits.orDefault()}
}

// copyFrom writes what r yields, line by line, until r ends or fails.
func (w *logWriter) copyFrom(r io.Reader, now func() time.Time) {
	buf := make([]byte, maxLineBytes)
	fill := 0
	cut := false // the last line written goes on
	for {
		n, err := r.Read(buf[fill:])
		at := now()
		rest := buf[:fill+n]
		for {
			line, after, found := bytes.Cut(rest, []byte{'\n'})
			if !found {
				break
			}
			w.line(at, lineFull, line)
			rest, cut = after, false
		}
		if len(rest) == len(buf) {
			w.line(at, linePart, rest)
			rest, cut = nil, true
		}
		if err != nil && (len(rest) > 0 || cut) {
			w.line(at, lineFull, rest)
		}
		w.flush()
		if err != nil {
			w.close()
			return
		}
		fill = copy(buf, rest)
	}
}

func (w *logWriter) line(at time.Time, kind byte, text []byte) {
	if w.dropped > 0 && w.telling == 0 {
		w.put(at, lineFull, fmt.Appendf(nil, "setpoint: %d lines could not be written here", w.dropped))
		w.telling = w.dropped
	}
	w.put(at, kind, text)
}

// put appends one line to what is pending, and begins a new file if it does not fit into this one.
func (w *logWriter) put(at time.Time, kind byte, text []byte) {
	if w.size+int64(len(w.pending)+headerBytes+len(text)+1) > w.limits.MaxBytes {
		w.flush()
		w.next()
	}
	w.pending = at.UTC().AppendFormat(w.pending, stampLayout)
	w.pending = append(w.pending, ' ', kind, ' ')
	w.pending = append(w.pending, text...)
	w.pending = append(w.pending, '\n')
	w.lines++
}

// next closes the file; the following flush opens another and deletes the oldest.
func (w *logWriter) next() {
	w.close()
	w.size = 0
}

func (w *logWriter) close() {
	if w.file != nil {
		_ = w.file.Close() // written data was accepted by write; nothing is left to report
		w.file = nil
	}
}

func (w *logWriter) flush() {
	if len(w.pending) == 0 {
		return
	}
	switch err := w.write(); {
	case err == nil:
		w.dropped -= w.telling
	case w.telling > 0:
		w.dropped += w.lines - 1 // the line which tells the count is none of the task's
	default:
		w.dropped += w.lines
	}
	w.pending, w.lines, w.telling = w.pending[:0], 0, 0
}

func (w *logWriter) write() error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	n, err := w.file.Write(w.pending)
	if err == nil {
		w.size += int64(n)
		return nil
	}
	if n > 0 && w.file.Truncate(w.size) != nil { // no half lines
		w.size += int64(n)
	}
	return err
}

func (w *logWriter) open() error {
	f, err := os.OpenFile(segmentName(w.dir, w.stream, w.segment+1), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w.segment++
	w.file, w.size = f, 0
	if old := w.segment - w.limits.MaxFiles; old > 0 {
		_ = os.Remove(segmentName(w.dir, w.stream, old)) // if it cannot be deleted the file is kept, which harms no reader
	}
	return nil
}
