package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Age writes a duration in its one or two largest units, as in 45s, 4m10s, 3h, 2d5h. Less than a second is 0s.
func Age(d time.Duration) string {
	d = max(d, 0)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		n := d / u.size
		if n == 0 {
			continue
		}
		text := strconv.FormatInt(int64(n), 10) + u.name
		// Next to ten and more of a unit the smaller one says little.
		if i+1 < len(units) && n < 10 {
			if rest := (d % u.size) / units[i+1].size; rest > 0 {
				text += strconv.FormatInt(int64(rest), 10) + units[i+1].name
			}
		}
		return text
	}
	return "0s"
}

// Since writes how long ago a moment was, or a dash if it never was.
func Since(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return Age(now.Sub(then))
}

// CPU writes thousandths of a core as cores, as in 0.5 or 4.
func CPU(milli int64) string {
	sign := ""
	if milli < 0 {
		sign, milli = "-", -milli
	}
	text := fmt.Sprintf("%s%d.%03d", sign, milli/1000, milli%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Bytes writes an amount of memory in the largest binary unit that it has at least one of, as in 256MiB or 1.5GiB.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + Bytes(-n)
	}
	unit, size := "B", int64(1)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if n/size < 1024 {
			break
		}
		unit, size = next, size*1024
	}
	text := strconv.FormatFloat(float64(n)/float64(size), 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + unit
}

// Count writes a number with its noun, as in 1 task or 3 tasks.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}
