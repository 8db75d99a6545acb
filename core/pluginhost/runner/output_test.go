package runner

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Lines that are almost hclog's: go-plugin's own reader panics on some, which would end the host.
func TestMalformedLogLinesHarmNobody(t *testing.T) {
	l, log := newLauncher(t)
	lines := []string{
		`{"@level":"info","@message":1}`, `{"@level":2,"@message":"m"}`, `{"@level":"info","@message":"m","@timestamp":3}`,
		`{"@level":"info"}`, `{`, `null`, `[]`, `"x"`, `{"@level":null,"@message":null}`, `]`, `[]x`, `[WARN] old style`,
		`{"@level":"error","@message":"well formed","size":3,"who":{"a":[1]}}`, "", "\x1b[2J",
	}
	p := start(t, l, play("logs", lines...))
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context(), 10*time.Second, p.Shutdown); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"@level": "debug", "@message": "plugin stderr", "line": `{"@level":"info","@message":1}`},
		{"@level": "info", "@message": "m"},
		{"@level": "warn", "@message": "plugin stderr", "line": "[WARN] old style"},
		{"@level": "error", "@message": "well formed", "size": "3", "who": `{"a":[1]}`},
		{"@level": "debug", "@message": "plugin stderr", "line": `\x1b[2J`},
	}
	for _, w := range want {
		if !logged(log, w) {
			t.Errorf("not logged: %v\n%s", w, log)
		}
	}
}

// logged reports whether one line of the log has all the fields of want.
func logged(log *logBuffer, want map[string]any) bool {
	for line := range strings.Lines(log.String()) {
		var got map[string]any
		if json.Unmarshal([]byte(line), &got) != nil {
			return false
		}
		same := true
		for key, value := range want {
			same = same && got[key] == value
		}
		if same {
			return true
		}
	}
	return false
}

func TestStdoutIsDrainedForEver(t *testing.T) {
	l, _ := newLauncher(t)
	file := filepath.Join(t.TempDir(), "written")
	start(t, l, play("flood-after", file))
	if got := content(t, file); got != "<nil>" {
		t.Errorf("4 MiB on stdout: %s", got)
	}
}

func TestPrintsOfServedPluginsAreLogged(t *testing.T) {
	l, log := newLauncher(t)
	start(t, l, play("print-later"))
	eventually(t, "both lines are logged", func() bool {
		return logged(log, map[string]any{"@level": "info", "@message": "plugin stdout", "line": "from stdout"}) &&
			logged(log, map[string]any{"@level": "warn", "@message": "from stderr", "size": "3", "plugin": "print-later"})
	})
}

func TestSplitter(t *testing.T) {
	type piece struct {
		text  string
		whole bool
	}
	var got []piece
	s := splitter{limit: 4, each: func(line []byte, whole bool) { got = append(got, piece{string(line), whole}) }}
	for _, chunk := range []string{"a", "b\n\nabc", "d\nabcde\r\nx\r", "\nlast"} {
		if n, err := s.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	s.finish()
	want := []piece{{"ab", true}, {"", true}, {"abcd", true}, {"abcd", false}, {"x", true}, {"last", false}}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestEndlessLineTakesNoMemory(t *testing.T) {
	s := splitter{limit: maxLine, each: func([]byte, bool) {}}
	chunk := bytes.Repeat([]byte("x"), 16<<10)
	for range 10 << 20 / len(chunk) {
		_, _ = s.Write(chunk)
	}
	if cap(s.line) > 2*maxLine {
		t.Errorf("holds %d bytes", cap(s.line))
	}
}

func TestLimiter(t *testing.T) {
	l := limiter{perSecond: 2}
	now := time.Unix(1000, 0)
	steps := []struct {
		after   time.Duration
		ok      bool
		dropped int
	}{{0, true, 0}, {0, true, 0}, {0, false, 0}, {999 * time.Millisecond, false, 0}, {time.Millisecond, true, 2}, {0, true, 0}, {0, false, 0}, {-time.Hour, true, 1}}
	for i, s := range steps {
		now = now.Add(s.after)
		if ok, dropped := l.allow(now); ok != s.ok || dropped != s.dropped {
			t.Errorf("step %d: %t, %d dropped; want %t, %d", i, ok, dropped, s.ok, s.dropped)
		}
	}
}

func TestOutputKeepsTailAndPanic(t *testing.T) {
	o := newOutput(hclog.NewNullLogger())
	for i := range 3 * maxTailLines {
		o.stderrLine([]byte("line " + strconv.Itoa(i)))
	}
	tail := o.stderrTail()
	if len(tail) != maxTailLines || tail[maxTailLines-1] != "line 119" {
		t.Errorf("tail %q", tail)
	}
	if o.panicText() != "" {
		t.Errorf("panic %q", o.panicText())
	}
	o.stderrLine([]byte("panic: boom"))
	o.stderrLine([]byte(`{"@level":"info","@message":"another goroutine"}`))
	for range 10000 {
		o.stderrLine([]byte("goroutine 1 [running]:"))
	}
	text := o.panicText()
	if !strings.HasPrefix(text, "panic: boom\ngoroutine 1") || len(text) > maxPanic+64 || strings.Contains(text, "another") {
		t.Errorf("%d bytes: %.60s", len(text), text)
	}
	if got := (ExitStatus{Code: 2, Panic: text}).String(); got != `exited with status 2 after "panic: boom"` {
		t.Errorf("got %s", got)
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain\ttext é", 99, "plain\ttext é"},
		{"\x1b[31m\n", 99, `\x1b[31m\n`},
		{"\xff", 99, `\xff`},
		{"abcdef", 3, "abc…"},
		{"aé", 2, "a…"},
		{"", 3, ""},
	} {
		if got := printable(c.in, c.limit); got != c.want {
			t.Errorf("printable(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// Whatever a plugin writes, no line breaks the host, and what is kept is bounded.
func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"@level":"info","@message":1}`), []byte("1|1|unix|/x|grpc|y\n"))
	f.Add([]byte("panic: x\n]\n[\n[]\n"), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, stderr, stdout []byte) {
		o := newOutput(hclog.NewNullLogger())
		lines := splitter{limit: maxLine, each: func(line []byte, _ bool) { o.stderrLine(line) }}
		_, _ = lines.Write(stderr)
		lines.finish()
		g := newGreeting(o, []int{1})
		g.dir = "/nonexistent"
		g.drain(bytes.NewReader(stdout))
		if accepted, ended, _ := g.state(); accepted || !ended {
			t.Errorf("accepted %t, ended %t", accepted, ended)
		}
		if len(g.first) > maxFirstBytes || len(o.stderrTail()) > maxTailLines {
			t.Errorf("keeps %d bytes, %d lines", len(g.first), len(o.stderrTail()))
		}
	})
}
