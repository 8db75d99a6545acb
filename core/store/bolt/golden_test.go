package bolt_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

// golden are the files, each written by the first program of its format.
const golden = "testdata/format%d.db.gz"

// goldenOptions leave some of the file folded and some not.
func goldenOptions() bolt.Options {
	return bolt.Options{
		Initial:   store.Head{Revision: 10, ClusterID: "golden"},
		Retention: store.Retention{Revisions: 6},
	}.Quick().Folding(4, 1<<20, 3)
}

func goldenBatches() []store.Batch {
	return []store.Batch{
		turn(11, "job/web", "v1", "node/a", "v1"),
		turn(12, "task/web/1", "v1", "task/web/2", "v1", "large", strings.Repeat("large", 1000)),
		turn(13, "job/web", "v2", "task/web/1", ""),
		turn(14),
		turn(15, "task/web/3", "v1"),
		turn(16, "node/a", ""),
		turn(17, "task/web/3", "v2"),
		turn(18, "node/b", "v1"),
		turn(19, "task/web/4", "v1", "job/web", "v3"),
		turn(20, "task/web/4", ""),
	}
}

// A file of each format is read by every later program, and goes on in the program's own. With -update-golden the test writes the newest anew, which is right only
// while no such file exists anywhere else.
func TestGoldenFile(t *testing.T) {
	if flag.Lookup("update-golden").Value.String() == "true" {
		writeGolden(t)
	}
	for format := range bolt.Format {
		t.Run(fmt.Sprintf("format %d", format+1), func(t *testing.T) { testGolden(t, fmt.Sprintf(golden, format+1)) })
	}
}

func testGolden(t *testing.T, from string) {
	path := filepath.Join(t.TempDir(), "state.db")
	unpack(t, from, path)
	b, head, held := open(t, path, bolt.Options{})
	want := map[string]string{
		"job/web": "v3", "node/b": "v1", "task/web/2": "v1", "task/web/3": "v2", "large": strings.Repeat("large", 1000),
	}
	if !maps.Equal(held, want) {
		t.Errorf("held %v, want %v", held, want)
	}
	if head.Revision != 20 || head.ClusterID != "golden" || head.Oldest == 10 || head.Oldest > 14 {
		t.Errorf("head = %+v, want revision 20 of cluster golden, and old log dropped", head)
	}
	var log []store.Batch
	if err := b.Read(t.Context(), head.Oldest, func(batch store.Batch) error {
		log = append(log, batch)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !sameBatches(log, goldenBatches()[head.Oldest-10:]) {
		t.Errorf("log = %v", log)
	}
	if s := b.Stats(); s.Folded <= head.Oldest || s.Folded >= head.Revision {
		t.Errorf("folded = %d, want the file to show folded and unfolded batches", s.Folded)
	}
	commit(t, b, turn(21, "job/web", strings.Repeat("wide", 1000)))
	closed(t, b)
	if got := bolt.FormatOf(t, path); got != bolt.Format {
		t.Errorf("after a commit the file says format %d, want %d", got, bolt.Format)
	}
	want["job/web"] = strings.Repeat("wide", 1000)
	if held, _, err := contents(t.Context(), path); err != nil || !maps.Equal(held, want) {
		t.Errorf("then held %v, %v, want %v", held, err, want)
	}
}

func writeGolden(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	b, _, _ := open(t, path, goldenOptions())
	commit(t, b, goldenBatches()...)
	closed(t, b)
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf(golden, bolt.Format), packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, from, path string) {
	t.Helper()
	packed, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() // only read
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, plain, 0o600); err != nil {
		t.Fatal(err)
	}
}
