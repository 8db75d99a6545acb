package history_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/internal/history"
)

// fill makes a log of n batches after revision 100, one per second, 10 bytes each.
func fill(n int) *history.Log {
	l := history.New(100)
	for i := range n {
		l.Append(time.Duration(i)*time.Second, 10)
	}
	return l
}

func TestExcess(t *testing.T) {
	const head = 110
	for _, tt := range []struct {
		name   string
		keep   store.Retention
		now    time.Duration
		folded uint64
		limit  int
		want   int
	}{
		{"all within the bounds", store.Retention{}, 9 * time.Second, head, 100, 0},
		{"too many revisions", store.Retention{Revisions: 4}, 9 * time.Second, head, 100, 6},
		{"too old", store.Retention{Age: 3 * time.Second}, 9 * time.Second, head, 100, 6},
		{"too many bytes", store.Retention{Bytes: 35}, 9 * time.Second, head, 100, 7},
		{"recovery needs them", store.Retention{Revisions: 4}, 9 * time.Second, 102, 100, 2},
		{"nothing folded", store.Retention{Revisions: 4}, 9 * time.Second, 100, 100, 0},
		{"limit", store.Retention{Revisions: 4}, 9 * time.Second, head, 5, 5},
		{"the last one stays", store.Retention{Revisions: 1, Bytes: 1}, time.Hour, head, 100, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := fill(10)
			n := l.Excess(tt.keep, tt.now, tt.folded, tt.limit)
			if n != tt.want {
				t.Fatalf("Excess = %d, want %d", n, tt.want)
			}
			l.Cut(n)
			if got, want := l.Oldest(), uint64(100+tt.want); got != want {
				t.Errorf("Oldest = %d, want %d", got, want)
			}
			if got, want := l.Bytes(), int64(10*(10-tt.want)); got != want {
				t.Errorf("Bytes = %d, want %d", got, want)
			}
			if got, want := l.Len(), 10-tt.want; got != want {
				t.Errorf("Len = %d, want %d", got, want)
			}
		})
	}
}
