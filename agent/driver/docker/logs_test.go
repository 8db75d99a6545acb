package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

func frame(stream byte, payload string) []byte {
	out := []byte{stream, 0, 0, 0}
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	return append(out, payload...)
}

func TestReadFrame(t *testing.T) {
	const at = "2026-01-02T03:04:05.000000006Z "
	long := strings.Repeat("x", engineChunk)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"line":           {frame(1, at+"hello you\n"), "stdout hello you false"},
		"stderr":         {frame(2, at+"\n"), "stderr  false"},
		"without an end": {frame(1, at+"hello"), "stdout hello false"},
		"chunk":          {frame(1, at+long), "stdout " + long + " true"},
		"last chunk":     {frame(1, at+long+"\n"), "stdout " + long + " false"},
		"no time":        {frame(1, "hello\n"), "error"},
		"no text":        {frame(1, strings.TrimSpace(at)), "error"},
		"unknown stream": {frame(9, at+"x\n"), "error"},
		"huge":           {[]byte{1, 0, 0, 0, 255, 255, 255, 255, 0}, "error"},
		"cut":            {frame(1, at+"hello\n")[:20], "error"},
	} {
		line, err := readFrame(bufio.NewReader(bytes.NewReader(c.data)))
		got := fmt.Sprintf("%v %s %v", line.Stream, line.Text, line.Partial)
		if err != nil {
			got = "error"
		} else if line.Time.Nanosecond() != 6 {
			t.Errorf("%s: the time is %v", name, line.Time)
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(1, "2026-01-02T03:04:05Z hello\n"))
	f.Add(frame(2, "2026-01-02T03:04:05Z "))
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bufio.NewReader(bytes.NewReader(data))
		for range data {
			line, err := readFrame(from)
			if err != nil {
				return
			}
			if line.Stream != driver.Stdout && line.Stream != driver.Stderr || line.Time.IsZero() && len(line.Text) > len(data) {
				t.Errorf("line is %+v", line)
			}
		}
	})
}

// logServer is an engine that knows one container, which has written lines, and whose stream breaks after some of them.
type logServer struct {
	t      *testing.T
	owner  string
	lines  []driver.LogLine
	breaks []int // after how many lines each answer breaks, in turn; then none does
}

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/_ping"):
		w.Header().Set("Api-Version", "1.41")
	case strings.HasSuffix(r.URL.Path, "/json"):
		running := len(s.breaks) > 0
		fmt.Fprintf(w, `{"Id": "c1", "State": {"Running": %v, "StartedAt": "2026-01-02T03:04:05Z", "FinishedAt": "2026-01-02T03:04:06Z"},
			"Config": {"Labels": {"setpoint.task": "job/1/1", "setpoint.owner": %q}}}`, running, s.owner)
	case strings.HasSuffix(r.URL.Path, "/logs"):
		var since time.Time
		if text := r.URL.Query().Get("since"); text != "" {
			seconds, nanos, _ := strings.Cut(text, ".")
			sec, _ := strconv.ParseInt(seconds, 10, 64)
			nsec, _ := strconv.ParseInt(nanos, 10, 64)
			since = time.Unix(sec, nsec)
		}
		left := -1
		if r.URL.Query().Get("follow") != "" && len(s.breaks) > 0 {
			left, s.breaks = s.breaks[0], s.breaks[1:]
		}
		for _, line := range s.lines {
			if line.Time.Before(since) || line.Stream == driver.Stdout && r.URL.Query().Get("stdout") == "" || line.Stream == driver.Stderr && r.URL.Query().Get("stderr") == "" {
				continue
			}
			if left == 0 {
				return
			}
			left--
			_, _ = w.Write(frame(byte(line.Stream), line.Time.Format(time.RFC3339Nano)+" "+string(line.Text)+"\n"))
		}
	default:
		s.t.Errorf("asked for %s", r.URL.Path)
	}
}

// Following goes on where it was when the engine's answer broke off: no line is lost and none comes twice, though several have one time and the times of the two
// streams are not in order.
func TestFollowGoesOn(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var lines []driver.LogLine
	var all, errs []string
	for i, l := range []struct {
		after  int
		stream driver.Stream
	}{
		{0, driver.Stdout},
		{5, driver.Stderr},
		{3, driver.Stdout},
		{3, driver.Stdout},
		{3, driver.Stdout},
		{5, driver.Stderr},
		{7, driver.Stdout},
		{6, driver.Stderr},
		{8, driver.Stdout},
	} {
		text := strconv.Itoa(i)
		lines = append(lines, driver.LogLine{Time: base.Add(time.Duration(l.after)), Stream: l.stream, Text: []byte(text)})
		all = append(all, text)
		if l.stream == driver.Stderr {
			errs = append(errs, text)
		}
	}
	for _, breaks := range [][]int{nil, {0}, {1}, {3, 3}, {4, 2, 1}, {6, 0, 5}, {8, 2}} {
		for name, c := range map[string]struct {
			req  driver.LogsRequest
			want []string
		}{
			"all":               {driver.LogsRequest{Follow: true}, all},
			"one stream":        {driver.LogsRequest{Follow: true, Stream: driver.Stderr}, errs},
			"the last":          {driver.LogsRequest{Follow: true, Tail: 3}, all[len(all)-3:]},
			"last of a stream":  {driver.LogsRequest{Follow: true, Tail: 2, Stream: driver.Stderr}, errs[1:]},
			"since":             {driver.LogsRequest{Follow: true, Since: base.Add(5)}, []string{"1", "5", "6", "7", "8"}},
			"more than are":     {driver.LogsRequest{Follow: true, Tail: 100}, all},
			"last without more": {driver.LogsRequest{Tail: 2, Stream: driver.Stderr}, errs[1:]},
		} {
			t.Run(fmt.Sprint(name, breaks), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "sock")
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				d := open(t, "unix://"+path, t.TempDir())
				server := &http.Server{Handler: &logServer{t: t, owner: d.owner, lines: lines, breaks: slices.Clone(breaks)}}
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = server.Serve(l)
				}()
				defer func() { server.Close(); <-served }()
				var got []string
				for line, err := range d.Logs(t.Context(), driver.Handle{Driver: Name, TaskID: "job/1/1"}, c.req) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(line.Text))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

func TestLongLines(t *testing.T) {
	d := fresh(t)
	h := start(t, d, task("job/1/1", "long", "40000", "out", "short", "exit", "0"))
	wait(t, d, h)
	var whole strings.Builder
	partial := 0
	for line, err := range d.Logs(t.Context(), h, driver.LogsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		whole.Write(line.Text)
		if line.Partial {
			partial++
		} else {
			_, _ = io.WriteString(&whole, "\n")
		}
	}
	if whole.String() != strings.Repeat("x", 40000)+"\nshort\n" || partial != 2 {
		t.Errorf("%d bytes in %d chunks", whole.Len(), partial)
	}
}
