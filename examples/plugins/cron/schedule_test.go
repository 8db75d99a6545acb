package main

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata"
)

func parse(t *testing.T, text string) schedule {
	t.Helper()
	s, err := parseSchedule(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

func at(t *testing.T, text, zone string) time.Time {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out.In(in)
}

func TestLatest(t *testing.T) {
	for _, test := range []struct {
		schedule, zone, now string
		want                []string // the latest first
	}{
		{"*/20 9-10 * * *", "UTC", "2026-09-14T10:00:59Z", []string{"2026-09-14T10:00:00Z", "2026-09-14T09:40:00Z", "2026-09-14T09:20:00Z", "2026-09-14T09:00:00Z", "2026-09-13T10:40:00Z"}},
		{"5/25 * * * *", "UTC", "2026-09-14T10:31:00Z", []string{"2026-09-14T10:30:00Z", "2026-09-14T10:05:00Z", "2026-09-14T09:55:00Z"}},
		{"0 3 * * *", "UTC", "2026-03-01T02:59:59Z", []string{"2026-02-28T03:00:00Z", "2026-02-27T03:00:00Z"}},
		{"0 0 29 2 *", "UTC", "2027-01-01T00:00:00Z", []string{"2024-02-29T00:00:00Z", "2020-02-29T00:00:00Z"}},
		{"30 4 * jan,JUL mon-wed", "UTC", "2026-07-07T04:29:00Z", []string{"2026-07-06T04:30:00Z", "2026-07-01T04:30:00Z", "2026-01-28T04:30:00Z"}},
		{"0 12 13 * fri", "UTC", "2026-03-14T00:00:00Z", []string{"2026-03-13T12:00:00Z", "2026-03-06T12:00:00Z", "2026-02-27T12:00:00Z", "2026-02-20T12:00:00Z", "2026-02-13T12:00:00Z"}},
		{"0 12 */2 * fri", "UTC", "2026-03-14T00:00:00Z", []string{"2026-03-13T12:00:00Z", "2026-02-27T12:00:00Z"}},
		{"@weekly", "UTC", "2026-09-14T00:00:00Z", []string{"2026-09-13T00:00:00Z", "2026-09-06T00:00:00Z"}},
		{"0 0 * * 7", "UTC", "2026-09-14T00:00:00Z", []string{"2026-09-13T00:00:00Z"}},
		{"0 9 * * *", "Asia/Kathmandu", "2026-09-14T03:15:00Z", []string{"2026-09-14T03:15:00Z", "2026-09-13T03:15:00Z"}},
		// Clocks go from 2:00 to 3:00 on 2026-03-29 and from 3:00 to 2:00 on 2026-10-25.
		{"30 2 * * *", "Europe/Paris", "2026-03-30T12:00:00Z", []string{"2026-03-30T00:30:00Z", "2026-03-28T01:30:00Z"}},
		{"30 2 * * *", "Europe/Paris", "2026-10-26T12:00:00Z", []string{"2026-10-26T01:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z", "2026-10-24T00:30:00Z"}},
		// Clocks went from 0:00 to 1:00 on 2018-11-04, and from 24:00 to 23:00 on 2018-02-17.
		{"45 23 * * *", "America/Sao_Paulo", "2018-11-05T00:00:00Z", []string{"2018-11-04T02:45:00Z", "2018-11-03T02:45:00Z"}},
		{"0 12 4 * *", "America/Sao_Paulo", "2018-11-03T20:00:00Z", []string{"2018-10-04T15:00:00Z"}},
		{"45 23 * * *", "America/Sao_Paulo", "2018-02-18T12:00:00Z", []string{"2018-02-18T02:45:00Z", "2018-02-18T01:45:00Z", "2018-02-17T01:45:00Z"}},
	} {
		s := parse(t, test.schedule)
		now := at(t, test.now, test.zone)
		var got []string
		for next := now; len(got) < len(test.want); {
			l := s.latest(next, now.AddDate(-9, 0, 0))
			got = append(got, l.UTC().Format(time.RFC3339))
			next = l.Add(-time.Minute)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s in %s before %s:\n got %v\nwant %v", test.schedule, test.zone, test.now, got, test.want)
		}
	}
}

// TestLatestAgreesWithLookingAtEachMinute goes through two years in a zone whose clocks are changed at midnight.
func TestLatestAgreesWithLookingAtEachMinute(t *testing.T) {
	begin := at(t, "2017-01-01T03:00:00Z", "America/Sao_Paulo")
	for _, text := range []string{"13 0,23 * * *", "59 23 1,17,18 2,11 sat,sun", "0 0 31 * *", "*/30 1-3 */5 * mon"} {
		s := parse(t, text)
		var want []time.Time
		for m := begin; m.Before(begin.AddDate(2, 0, 0)); m = m.Add(time.Minute) {
			if s.on(m) && s.hour&(1<<m.Hour()) != 0 && s.minute&(1<<m.Minute()) != 0 {
				want = append(want, m)
			}
		}
		var got []time.Time
		for l := s.latest(begin.AddDate(2, 0, 0).Add(-time.Minute), begin.Add(-time.Second)); !l.IsZero(); l = s.latest(l.Add(-time.Minute), begin.Add(-time.Second)) {
			got = append(got, l)
		}
		slices.Reverse(got)
		if len(want) == 0 || !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s: got %d times, want %d", text, len(got), len(want))
		}
	}
}

func TestLatestStopsAtItsBound(t *testing.T) {
	s := parse(t, "0 3 * * *")
	three := at(t, "2026-09-14T03:00:00Z", "UTC")
	if got := s.latest(three.Add(time.Hour), three); !got.IsZero() {
		t.Errorf("got %s, want none after the bound", got)
	}
	if got := s.latest(three.Add(time.Hour), three.Add(-time.Second)); !got.Equal(three) {
		t.Errorf("got %s, want %s", got, three)
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	for text, want := range map[string]string{
		"* * * *":       "it has 4 fields, not five (minute, hour, day of month, month, day of week), and is not @hourly, @daily, @weekly, @monthly or @yearly",
		"60 * * * *":    `minute "60": 60 is not within 0 and 59`,
		"0 24 * * *":    `hour "24": 24 is not within 0 and 23`,
		"0 0 0 * *":     `day of month "0": 0 is not within 1 and 31`,
		"0 0 * foo *":   `month "foo": "foo" is no number`,
		"0 0 * * 5-1":   `day of week "5-1": 5-1 ends before it begins`,
		"*/0 * * * *":   `minute "*/0": the step "0" is no number above 0`,
		"1,,2 * * * *":  `minute "1,,2": "" is no number`,
		"-1 * * * *":    `minute "-1": "" is no number`,
		"1-x/3 * * * *": `minute "1-x/3": "x" is no number`,
	} {
		if _, err := parseSchedule(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{"*/20 9-10 * jan mon,7", "@daily", "1/2,3-4/5 * * * *", "", "- / , * *"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSchedule(text)
		if err != nil {
			return
		}
		now := time.Date(2026, 9, 14, 0, 0, 0, 0, time.UTC)
		if got := s.latest(now, now.AddDate(-1, 0, 0)); got.After(now) || got.Second() != 0 {
			t.Errorf("%q: latest is %s", text, got)
		}
	})
}
