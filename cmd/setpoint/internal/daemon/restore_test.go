package daemon

import (
	"testing"
	"time"
)

func TestRevisionOfARestoredState(t *testing.T) {
	at := func(d time.Duration) time.Time { return restoredSince.Add(d) }
	for name, c := range map[string]struct {
		known uint64
		now   time.Time
		want  uint64
	}{
		"microseconds, in whole seconds":           {known: 44, now: at(time.Hour + 300*time.Millisecond), want: 3_600_000_000},
		"the same copy ten seconds later":          {known: 44, now: at(time.Hour + 10*time.Second), want: 3_610_000_000},
		"what followed on a restoration is passed": {known: 3_600_000_450, now: at(time.Hour + 10*time.Second), want: 3_610_000_000},
		"in the same second":                       {known: 3_600_000_001, now: at(time.Hour), want: 10_000_000_000},
		"a clock that was never set":               {known: 44, now: time.Unix(0, 0), want: 10_000_000_000},
		"a clock that was never set, once more":    {known: 10_000_000_045, now: time.Unix(0, 0), want: 20_000_000_000},
		"a clock behind what is known":             {known: 3_600_000_001, now: at(time.Minute), want: 10_000_000_000},
	} {
		if got := raised(c.known, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
