package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits on what one plugin can make the host keep or log.
const (
	maxLine       = 64 << 10
	maxMessage    = 4 << 10 // of a message or a value in the log
	maxPairs      = 32
	maxTailLines  = 40
	maxTailLine   = 512
	maxPanic      = 16 << 10
	maxFirstBytes = 200
	linesPerSec   = 200
)

// output takes what a plugin writes: lines for the log, the last lines of stderr, and the text of a panic. It trusts nothing in
// it: a line may be no JSON, have values of any type, never end, or come a million times a second.
type output struct {
	log   hclog.Logger
	lines func(stream, text string) // also gets each line, readable; may be nil

	mu      sync.Mutex // guards what follows
	limit   limiter
	tail    []string
	panic   []byte
	inPanic bool
}

func newOutput(log hclog.Logger) *output {
	return &output{log: log, limit: limiter{perSecond: linesPerSec}}
}

// pass hands a line on to whoever keeps them.
func (o *output) pass(stream, text string) {
	if o.lines != nil {
		o.lines(stream, text)
	}
}

// stdoutLine logs a line that has no business on stdout.
func (o *output) stdoutLine(message string, level hclog.Level, line []byte) {
	if len(line) > 0 {
		o.pass("stdout", printable(line, maxMessage))
	}
	if len(line) > 0 && o.admit() {
		o.log.Log(level, message, "line", printable(line, maxMessage))
	}
}

// stderrLine keeps a line and logs it: with its level and pairs if it is hclog's JSON, else as text.
func (o *output) stderrLine(line []byte) {
	if len(line) == 0 {
		return
	}
	entry, structured := parseEntry(line)
	text := printable(line, maxMessage)
	if structured {
		text = entry.String()
	}
	o.pass("stderr", text)
	first, inPanic := o.keep(line, text, entry)
	if !o.admit() {
		return
	}
	switch {
	case structured:
		o.log.Log(entry.level, entry.message, entry.pairs...)
	case first:
		o.log.Error("plugin panicked", "line", text)
	case inPanic:
		o.log.Trace("plugin panicked", "line", text) // all of it is told once the process has ended
	default:
		o.log.Log(prefixLevel(line), "plugin stderr", "line", text)
	}
}

// keep notes a line for errors to show, but for what is of interest only to who looks for mistakes in a plugin, and collects a panic's text.
func (o *output) keep(line []byte, text string, e entry) (first, inPanic bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	structured := e.level != hclog.NoLevel
	if !structured || e.level >= hclog.Info {
		if len(o.tail) == maxTailLines {
			o.tail = slices.Delete(o.tail, 0, 1)
		}
		o.tail = append(o.tail, printable(text, maxTailLine))
	}
	if structured {
		return false, false
	}
	if first = bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")); first {
		o.inPanic, o.panic = true, o.panic[:0]
	}
	if room := maxPanic - len(o.panic); o.inPanic && room > 0 {
		o.panic = append(o.panic, printable(line, min(room, maxMessage))+"\n"...)
	}
	return first, o.inPanic
}

// admit says whether one more line may be logged now, and logs how many could not.
func (o *output) admit() bool {
	o.mu.Lock()
	ok, dropped := o.limit.allow(time.Now())
	o.mu.Unlock()
	if dropped > 0 {
		o.log.Warn("plugin wrote too much to log", "dropped_lines", dropped, "limit_per_second", linesPerSec)
	}
	return ok
}

func (o *output) stderrTail() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tail)
}

func (o *output) panicText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.panic)
}

type entry struct {
	level   hclog.Level
	message string
	pairs   []any
}

// String is the entry as people read it: [LEVEL] message: key=value.
func (e entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %s", strings.ToUpper(e.level.String()), e.message)
	for i := 0; i+1 < len(e.pairs); i += 2 {
		sep := " "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%v=%v", sep, e.pairs[i], e.pairs[i+1])
	}
	return printable(b.String(), maxMessage)
}

// parseEntry reads a line in hclog's JSON form. Whatever is not exactly of that form is not an entry, and is logged as text.
func parseEntry(line []byte) (entry, bool) {
	if line[0] != '{' {
		return entry{}, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return entry{}, false
	}
	var message, level string
	if json.Unmarshal(fields["@message"], &message) != nil || json.Unmarshal(fields["@level"], &level) != nil {
		return entry{}, false
	}
	e := entry{level: hclog.LevelFromString(level), message: printable(message, maxMessage)}
	if e.level == hclog.NoLevel || e.level == hclog.Off {
		e.level = hclog.Info
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(key, "@") {
			continue
		}
		if len(e.pairs) == 2*maxPairs {
			e.pairs = append(e.pairs, "more_pairs", "cut")
			break
		}
		e.pairs = append(e.pairs, printable(key, maxTailLine), pairValue(fields[key]))
	}
	return e, true
}

// pairValue is the text of a JSON string, and any other value as it was written.
func pairValue(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return printable(s, maxMessage)
}

// prefixLevel knows the level in front of a line of Go's older loggers, "[WARN] …". All else is debug.
func prefixLevel(line []byte) hclog.Level {
	name, _, found := bytes.Cut(line, []byte("]"))
	if name, bracket := bytes.CutPrefix(name, []byte("[")); found && bracket {
		if level := hclog.LevelFromString(string(name)); level != hclog.NoLevel && level != hclog.Off {
			return level
		}
	}
	return hclog.Debug
}
