package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/audit"
)

func open(t *testing.T, path string, limits audit.Limits) *audit.Log {
	t.Helper()
	l, err := audit.Open(path, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// entry is the nth, a second after the one before.
func entry(n int) audit.Entry {
	e := audit.Entry{Time: time.Unix(int64(n), 0).UTC(), Who: "ann", Role: "operator", Serial: "01", From: "10.0.0.1:5", Call: "RunJob", On: map[string]string{"job": fmt.Sprint(n)}, Result: audit.OK}
	if n%2 == 1 {
		e.Who, e.Result, e.Message, e.Call = "bob", "permission_denied", "bob has the role reader", "StopJob"
	}
	return e
}

func read(t *testing.T, l *audit.Log, f audit.Filter) string {
	t.Helper()
	var out []string
	if err := l.Read(f, func(e audit.Entry) bool {
		out = append(out, e.On["job"])
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestFilters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, audit.Limits{FileSize: 600, Files: 100})
	for i := range 10 {
		if err := l.Write(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for want, f := range map[string]audit.Filter{
		"0 1 2 3 4 5 6 7 8 9": {}, "0 2 4 6 8": {Who: "ann"}, "1 3 5 7 9": {Refused: true}, "7 8 9": {Since: at(7)}, "0 1 2": {Until: at(2)}, "3 5": {Since: at(3), Until: at(5), Call: "StopJob"},
		"8 9": {Tail: 2}, "5 7 9": {Tail: 3, Who: "bob"}, "1 3 5 7 9 ": {Tail: 100, Refused: true}, "": {Who: "nobody"},
	} {
		if got := read(t, l, f); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
	n := 0
	if err := l.Read(audit.Filter{}, func(audit.Entry) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("a reader that had enough got %d, %v", n, err)
	}
}

func TestOldFilesGo(t *testing.T) {
	for files, want := range map[int]int{1: 1, 3: 3} {
		dir := t.TempDir()
		l := open(t, filepath.Join(dir, "audit.log"), audit.Limits{FileSize: 1000, Files: files})
		for i := range 100 {
			if err := l.Write(entry(i)); err != nil {
				t.Fatal(err)
			}
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != want {
			t.Errorf("%d files: %v, %v", files, left, err)
		}
		got := strings.Fields(read(t, l, audit.Filter{}))
		if len(got) == 0 || len(got) > files*8 || got[len(got)-1] != "99" {
			t.Errorf("%d files have %v", files, got)
		}
	}
}

func TestALineThatWasCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, audit.Limits{FileSize: 1 << 20, Files: 2})
	if err := l.Write(entry(0)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(entry(1)); err == nil {
		t.Error("written after Close")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"20`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, audit.Limits{FileSize: 1 << 20, Files: 2})
	if err := again.Write(entry(2)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, again, audit.Filter{}); got != "0 2" {
		t.Errorf("read %q", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "audit.log"), audit.Limits{FileSize: 2000, Files: 1000})
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			if err := l.Write(entry(i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Go(func() { read(t, l, audit.Filter{}) })
	group.Wait()
	if got := strings.Fields(read(t, l, audit.Filter{})); len(got) != 200 {
		t.Errorf("%d entries, want 200", len(got))
	}
}
