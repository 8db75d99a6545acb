package bolt_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/store/bolt"
)

// A commit writes what it brings, however large those before it were.
func TestLargeRecordsAreWrittenOnce(t *testing.T) {
	const large = 1 << 20
	b, _, _ := open(t, filepath.Join(t.TempDir(), "state.db"), bolt.Options{}.Quick())
	for i := range uint64(8) {
		before := bolt.PagesWritten(b)
		commit(t, b, turn(2*i+1, "large", strings.Repeat("x", large)))
		middle := bolt.PagesWritten(b)
		commit(t, b, turn(2*i+2, "small", fmt.Sprint(i)))
		if wrote := middle - before; wrote < large || wrote > large+64<<10 {
			t.Errorf("large commit %d wrote %d bytes of pages, want little more than its %d", i, wrote, large)
		}
		if wrote := bolt.PagesWritten(b) - middle; wrote > 64<<10 {
			t.Errorf("small commit %d wrote %d bytes of pages, want few", i, wrote)
		}
	}
}

// The pages of large records that are dropped are used again.
func TestDroppedLargeRecordsGiveTheirPagesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	opts := bolt.Options{}.Quick().Folding(1, 1, 1)
	opts.Retention.Revisions = 3
	b, _, _ := open(t, path, opts)
	for i := range uint64(200) {
		commit(t, b, turn(i+1, "large", strings.Repeat("x", 256<<10)))
	}
	closed(t, b)
	r, err := bolt.Check(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Batches > 8 || r.Bytes > 16<<20 {
		t.Errorf("the file has %d batches and %d bytes, want a few and not all that was ever written", r.Batches, r.Bytes)
	}
}
