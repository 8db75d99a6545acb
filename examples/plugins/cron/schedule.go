package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// schedule says at which minutes something happens: a set of numbers for each field, as bits. The zero schedule never happens.
type schedule struct {
	minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                bool // the field began with *
}

// field is one of the five fields of a schedule.
type field struct {
	name     string
	min, max int
	words    []string // for the numbers from min on
}

var fields = []field{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", max: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var short = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
}

// parseSchedule reads five fields as cron has them, or one of the short forms. Of several mistakes it names the first.
func parseSchedule(text string) (schedule, error) {
	if long, ok := short[text]; ok {
		text = long
	}
	words := strings.Fields(text)
	if len(words) != len(fields) {
		return schedule{}, fmt.Errorf("it has %d fields, not five (minute, hour, day of month, month, day of week), and is not @hourly, @daily, @weekly, @monthly or @yearly",
			len(words))
	}
	var sets [5]uint64
	for i, f := range fields {
		set, err := f.parse(strings.ToLower(words[i]))
		if err != nil {
			return schedule{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
		sets[i] = set
	}
	const sunday = 1 << 7 // the other number of it
	if sets[4]&sunday != 0 {
		sets[4] = sets[4]&^sunday | 1
	}
	return schedule{
		minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		anyDay: strings.HasPrefix(words[2], "*"), anyWeekday: strings.HasPrefix(words[4], "*"),
	}, nil
}

// parse reads a list of *, numbers and ranges, each possibly with a step.
func (f field) parse(list string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(list, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("the step %q is no number above 0", stepText)
			}
		}
		first, last := f.min, f.max
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			var err error
			if first, err = f.number(from); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if last, err = f.number(to); err != nil {
					return 0, err
				}
			case !stepped:
				last = first
			}
		}
		if first > last {
			return 0, fmt.Errorf("%s ends before it begins", span)
		}
		for n := first; n <= last; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func (f field) number(text string) (int, error) {
	if i := slices.Index(f.words, text); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	if n < f.min || n > f.max {
		return 0, fmt.Errorf("%d is not within %d and %d", n, f.min, f.max)
	}
	return n, nil
}

// on reports whether something happens on the day of t. With both a day of the month and a day of the week one of the two is enough, as cron has it.
func (s *schedule) on(t time.Time) bool {
	if s.month&(1<<t.Month()) == 0 {
		return false
	}
	day, weekday := s.day&(1<<t.Day()) != 0, s.weekday&(1<<t.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// latest returns the latest time that is not after t and is after the given one, in the time zone of t; the zero time if there is none. A time of day that
// the clocks skip does not happen; one that they show twice happens twice.
func (s *schedule) latest(t, after time.Time) time.Time {
	t = t.Truncate(time.Minute)
	for t.After(after) {
		switch {
		case !s.on(t):
			t = dayBefore(t)
		case s.hour&(1<<t.Hour()) == 0:
			t = hourBefore(t)
		case s.minute&(1<<t.Minute()) == 0:
			t = t.Add(-time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// dayBefore returns the last minute of the day before, or, where the clocks are changed at midnight, some later minute.
func dayBefore(t time.Time) time.Time {
	year, month, day := t.Date()
	end := time.Date(year, month, day, 0, 0, 0, 0, t.Location()).Add(-time.Minute)
	if end.Hour() == 23 && end.Before(t) {
		return end
	}
	return hourBefore(t)
}

// hourBefore returns the last minute of the hour before.
func hourBefore(t time.Time) time.Time { return t.Add(-time.Duration(t.Minute()+1) * time.Minute) }
