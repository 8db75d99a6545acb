package bench

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// A tailer reads a file that grows, whole lines only. The zero value has none to read.
type tailer struct {
	path   string
	offset int64
}

// more returns the lines that have come since the last call, without their ends. A file that is not there has none.
func (t *tailer) more() ([]string, error) {
	if t.path == "" {
		return nil, nil
	}
	f, err := os.Open(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(data, '\n')
	if end < 0 {
		return nil, nil
	}
	t.offset += int64(end) + 1
	var out []string
	for line := range bytes.SplitSeq(data[:end], []byte("\n")) {
		out = append(out, string(line))
	}
	return out, nil
}
