package dashboard

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// functions are what templates can call.
func functions() template.FuncMap {
	return template.FuncMap{
		"count": grouped, "plural": plural, "cores": cores, "bytes": byteText, "labels": labelText, "stamp": stampOf, "moment": momentOf, "machine": machineTime,
		"percent": percentInt, "took": took, "join": strings.Join, "query": url.QueryEscape, "tone": tone, "dict": dict, "words": words, "short": shortDuration,
	}
}

// grouped writes a number with thin spaces between thousands.
func grouped(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// plural returns a word for one or several.
func plural(n any, one, more string) string {
	if fmt.Sprint(n) == "1" {
		return one
	}
	return more
}

// cores writes thousandths of a core.
func cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// byteText writes an amount of bytes with three digits at most.
func byteText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			x := float64(n) / float64(unit.size)
			if x < 10 && n%unit.size != 0 {
				return fmt.Sprintf("%.1f %s", x, unit.name)
			}
			return fmt.Sprintf("%.0f %s", x, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func labelText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, " ")
}

// stampOf returns a moment of a message; zero if there is none.
func stampOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// momentOf writes a moment for people without a script; a script replaces it by how long ago that is.
func momentOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// machineTime writes a moment for scripts.
func machineTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func percentInt(part, whole int) int { return percent(int64(part), int64(whole)) }

// took writes a duration of a message.
func took(d *durationpb.Duration) string { return shortDuration(d.AsDuration()) }

// shortDuration writes a duration with two digits of its largest unit, or so.
func shortDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.3gs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// tones are how the words for states are shown. Red is for what waits, and for nothing else.
var tones = map[string]string{
	"stalled": "bad", "down": "dark", "lost": "dark", "crash_loop": "warn",
	"failed": "warn", "silent": "warn", "unhealthy": "warn", "paused": "warn", "backoff": "warn", "rejected": "warn", "pending": "busy",
	"updating": "busy", "rebalancing": "busy", "starting": "busy", "stopping": "busy", "draining": "busy",
	"running": "good", "ready": "good", "complete": "good", "active": "good",
}

func tone(word string) string {
	if t := tones[word]; t != "" {
		return t
	}
	return "calm"
}

// dict makes a map of its arguments, for templates that take several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("a key has no value")
	}
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out, nil
}

// words writes a word of the code for people.
func words(code string) string { return strings.ReplaceAll(code, "_", " ") }
