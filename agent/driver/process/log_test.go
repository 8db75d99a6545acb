package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/agent/driver"
)

// A chunkReader yields what it holds in pieces of the given sizes.
type chunkReader struct {
	data  []byte
	sizes []int
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(r.data))
	if len(r.sizes) > 0 {
		n, r.sizes = min(n, r.sizes[0]), r.sizes[1:]
	}
	copy(p, r.data[:n])
	r.data = r.data[n:]
	return n, nil
}

// Whatever is written in whatever pieces: no file exceeds its size, no more than the number of files is kept, and what is kept is the whole
// end of what was written, line by line.
func TestRotation(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		line := rapid.Custom(func(t *rapid.T) string {
			c := rapid.SampledFrom([]string{"a", "ü", " ", "\x00", "\xff"}).Draw(t, "text")
			n := rapid.SampledFrom([]int{0, 1, 60, 1000, maxLineBytes - 1, maxLineBytes, maxLineBytes + 1, 3*maxLineBytes + 5}).Draw(t, "bytes")
			return strings.Repeat(c, n/len(c))
		})
		written := rapid.SliceOfN(line, 0, 40).Draw(t, "lines")
		text := strings.Join(written, "\n")
		limits := LogLimits{MaxBytes: minLogBytes, MaxFiles: rapid.IntRange(2, 4).Draw(t, "files")}
		pieces := rapid.SliceOfN(rapid.IntRange(1, 50000), 0, 50).Draw(t, "pieces")
		w := newLogWriter(dir, driver.Stdout, limits)
		w.copyFrom(&chunkReader{data: []byte(text), sizes: pieces}, time.Now)

		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > limits.MaxFiles {
			t.Fatalf("%d files are kept, limit %d", len(entries), limits.MaxFiles)
		}
		kept := int64(0)
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > limits.MaxBytes {
				t.Fatalf("%s has %d bytes, limit %d", e.Name(), info.Size(), limits.MaxBytes)
			}
			kept += info.Size()
		}
		var got bytes.Buffer
		err = readLogs(t.Context(), dir, driver.LogsRequest{}, nil, func(l driver.LogLine) bool {
			got.Write(l.Text)
			if !l.Partial {
				got.WriteByte('\n')
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		want := text
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if !strings.HasSuffix(want, got.String()) {
			t.Fatalf("kept %d bytes that are not the end of what was written", got.Len())
		}
		// All but the newest file are full up to a line that did not fit.
		if w.segment <= limits.MaxFiles && got.String() != want {
			t.Fatalf("%d of %d bytes are kept although nothing had to be deleted", got.Len(), len(want))
		}
		if full := int64(limits.MaxFiles-1) * (limits.MaxBytes - maxLineBytes - int64(headerBytes) - 1); w.segment > limits.MaxFiles && kept < full {
			t.Fatalf("%d bytes are kept, expected at least %d: files rotate too early", kept, full)
		}
	})
}

func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "tail")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		at := time.Unix(1e9, 0).UTC()
		writers := map[driver.Stream]*logWriter{}
		var all []string
		for _, s := range []driver.Stream{driver.Stdout, driver.Stderr} {
			writers[s] = newLogWriter(dir, s, LogLimits{MaxBytes: minLogBytes, MaxFiles: 100})
		}
		pad := strings.Repeat("x", 4000) // several files
		for i := range rapid.IntRange(0, 60).Draw(t, "lines") {
			s := rapid.SampledFrom([]driver.Stream{driver.Stdout, driver.Stderr}).Draw(t, "stream")
			at = at.Add(time.Millisecond)
			text := fmt.Sprint(i, pad)
			writers[s].line(at, lineFull, []byte(text))
			writers[s].flush()
			all = append(all, text)
		}
		for _, w := range writers {
			w.close()
		}
		n := rapid.IntRange(1, 70).Draw(t, "tail")
		var got []string
		err = readLogs(t.Context(), dir, driver.LogsRequest{Tail: n}, nil, func(l driver.LogLine) bool {
			got = append(got, string(l.Text))
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := all[max(0, len(all)-n):]; strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("the last %d are %d lines, want %d", n, len(got), len(want))
		}
	})
}

func TestSince(t *testing.T) {
	dir := t.TempDir()
	w := newLogWriter(dir, driver.Stderr, LogLimits{})
	t0 := time.Unix(1e9, 0)
	for i := range 5 {
		w.line(t0.Add(time.Duration(i)*time.Second), lineFull, fmt.Append(nil, i))
	}
	w.flush()
	w.close()
	var got []string
	err := readLogs(t.Context(), dir, driver.LogsRequest{Since: t0.Add(3 * time.Second)}, nil, func(l driver.LogLine) bool {
		got = append(got, string(l.Text))
		return true
	})
	if err != nil || strings.Join(got, "") != "34" {
		t.Errorf("since the third second: %q, %v", got, err)
	}
}

func TestFollowAcrossRotation(t *testing.T) {
	d := fresh(t)
	const n = 60000 // some 7 MB at 65 kB a file... the follower keeps up or loses only what was deleted
	d.opts.Log = LogLimits{MaxBytes: minLogBytes, MaxFiles: 1000}
	h := start(t, d, sh("a/1/1", fmt.Sprintf("seq %d", n)))
	next := 1
	for line, err := range d.Logs(t.Context(), h, driver.LogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(line.Text) != fmt.Sprint(next) {
			t.Fatalf("line is %q, want %d", line.Text, next)
		}
		next++
	}
	if next != n+1 {
		t.Errorf("followed %d lines, want %d", next-1, n)
	}
	if all, err := segments(d.dir("a/1/1").logs(), driver.Stdout); err != nil || len(all) < 10 {
		t.Errorf("files are %v, %v", all, err)
	}
}

// A task is not held up by a disk that takes nothing, and afterwards the log says what is missing.
func TestLinesThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	w := newLogWriter(dir, driver.Stdout, LogLimits{})
	now := func() time.Time { return time.Unix(1e9, 0) }
	w.copyFrom(strings.NewReader("lost 1\nlost 2\n"), now) // the directory is missing
	if w.dropped != 2 {
		t.Fatalf("%d lines are counted as lost, want 2", w.dropped)
	}
	w.copyFrom(strings.NewReader("lost 3\n"), now)
	if w.dropped != 3 {
		t.Fatalf("%d lines are counted as lost, want 3", w.dropped)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.copyFrom(strings.NewReader("kept 1\nkept 2\n"), now)
	data, err := os.ReadFile(segmentName(dir, driver.Stdout, 1))
	stamp := "2001-09-09T01:46:40.000000000Z F "
	want := stamp + "setpoint: 3 lines could not be written here\n" + stamp + "kept 1\n" + stamp + "kept 2\n"
	if err != nil || string(data) != want || w.dropped != 0 {
		t.Errorf("wrote %q, %v, %d still counted; want %q", data, err, w.dropped, want)
	}
}

func TestOutputOfAFloodingTask(t *testing.T) {
	d := fresh(t)
	d.opts.Log = LogLimits{MaxBytes: minLogBytes, MaxFiles: 2}
	h := start(t, d, sh("a/1/1", "yes | head -n 3000000; echo end"))
	if exit := wait(t, d, h); exit.Code != 0 {
		t.Errorf("exit is %+v", exit)
	}
	got := readAll(t, d, h, driver.LogsRequest{Tail: 2})
	if len(got) != 2 || got[0] != "y" || got[1] != "end" {
		t.Errorf("the last lines are %q", got)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("2001-09-09T01:46:40.000000000Z F text"))
	f.Add([]byte("2001-09-09T01:46:40.000000000Z P "))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, ok := parseLine(line, driver.Stdout)
		if !ok {
			return
		}
		kind := byte(lineFull)
		if l.Partial {
			kind = linePart
		}
		again := l.Time.AppendFormat(nil, stampLayout)
		again = append(append(again, ' ', kind, ' '), l.Text...)
		if !bytes.Equal(again, line) {
			t.Errorf("%q was read as %q", line, again)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		stat, err := parseStat(data)
		if err == nil && stat.state == 0 {
			t.Errorf("%q has no state", data)
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("7 (a) S 9 (b) Z 5 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0\n"))
	if want := (procStat{state: 'Z', parent: 5, start: 12345}); err != nil || got != want {
		t.Errorf("stat is %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "7 (a", "7 (a) S 1", "7 (a) S x 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestEscapeID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.String().Draw(t, "id")
		name := escapeID(id)
		if len(name) > maxEscaped || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
			t.Fatalf("%q becomes %q", id, name)
		}
		back, ok := unescapeID(name)
		if cut := strings.Contains(name, "~"); ok == cut && id != "" {
			t.Fatalf("%q comes back from %q: %v", id, name, ok)
		}
		if ok && back != id {
			t.Fatalf("%q becomes %q becomes %q", id, name, back)
		}
	})
	if got := escapeID("web/3/42"); got != "web%2F3%2F42" {
		t.Errorf("web/3/42 becomes %s", got)
	}
}

func TestReadRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	var v map[string]int
	if ok, err := readRecord(path, &v); ok || err != nil {
		t.Errorf("no file reads as %v, %v", ok, err)
	}
	if err := writeRecord(path, map[string]int{"a": 1}, true); err != nil {
		t.Fatal(err)
	}
	if ok, err := readRecord(path, &v); !ok || err != nil || v["a"] != 1 {
		t.Errorf("record reads as %v, %v, %v", v, ok, err)
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if ok, err := readRecord(path, &v); ok || err == nil {
		t.Errorf("an empty file reads as %v, %v", ok, err)
	}
}
