package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

func TestBatchCheck(t *testing.T) {
	head := store.Head{Revision: 4, Engine: time.Minute}
	limits := store.Limits{Changes: 2, Bytes: 10, Key: 3}
	batch := func(revision uint64, records ...store.Record) store.Batch {
		return store.Batch{Revision: revision, Engine: time.Minute, Records: records}
	}
	record := func(key, value string) store.Record { return store.Record{Key: key, Value: []byte(value)} }
	for _, tt := range []struct {
		name  string
		batch store.Batch
		want  string
	}{
		{"fits", batch(5, record("abc", "1234"), record("def", "")), ""},
		{"empty", batch(5), ""},
		{"gap", batch(6), "batch refused: commit: revision 6 does not fit head 4"},
		{"again", batch(4), "batch refused: commit: revision 4 does not fit head 4"},
		{"engine time", store.Batch{Revision: 5, Engine: time.Second}, "batch refused: engine time 1s is before the head's 1m0s"},
		{"changes", batch(5, record("a", ""), record("b", ""), record("c", "")), "batch refused: 3 changes, at most 2"},
		{"bytes", batch(5, record("abc", "12345678")), "batch refused: 11 bytes, at most 10"},
		{"long key", batch(5, record("abcd", "")), "batch refused: a key of 4 bytes, not between 1 and 3"},
		{"no key", batch(5, record("", "1")), "batch refused: a key of 0 bytes, not between 1 and 3"},
		{"twice", batch(5, record("a", "1"), store.Record{Key: "a"}), `batch refused: key "a" is changed twice`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.batch.Check(head, limits)
			if got := text(err); got != tt.want {
				t.Errorf("error = %q, want %q", got, tt.want)
			}
			if err != nil && !errors.Is(err, store.ErrRefused) {
				t.Error("the error is not an ErrRefused")
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestClone(t *testing.T) {
	wall := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	b := store.Batch{Revision: 1, Wall: wall, Records: []store.Record{{Key: "a", Value: []byte("v")}, {Key: "b"}, {Key: "c", Value: []byte{}}}}
	c := b.Clone()
	c.Records[0].Value[0] = 'w'
	c.Records[1].Key = "x"
	if string(b.Records[0].Value) != "v" || b.Records[1].Key != "b" {
		t.Error("a change of the copy changed the batch")
	}
	if c.Records[1].Value != nil || c.Records[2].Value == nil {
		t.Error("nil and empty values are no longer apart")
	}
	if !c.Wall.Equal(wall) || c.Wall.Location() != time.UTC {
		t.Errorf("wall time = %v, want %v in UTC", c.Wall, wall)
	}
}

func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			&store.InUseError{File: "/d/state.db", PID: 4711, Command: "setpoint", Since: time.Date(2026, 5, 1, 10, 21, 5, 0, time.UTC)},
			"/d/state.db is in use by pid 4711 (setpoint, since 2026-05-01 10:21:05); one server per data directory",
		},
		{&store.InUseError{File: "/d/state.db", PID: 4711}, "/d/state.db is in use by pid 4711; one server per data directory"},
		{&store.InUseError{File: "/d/state.db"}, "/d/state.db is in use by another process; one server per data directory"},
		{
			&store.CorruptError{File: "f", Part: "log", Revision: 7, Reason: "wrong checksum"},
			"f is damaged: log of revision 7: wrong checksum; keep the file and restore the last good backup",
		},
		{
			&store.CorruptError{File: "f", Part: "page", Offset: 8192, Reason: "page 2 is used twice", Err: errors.New("cause")},
			"f is damaged: page at offset 8192: page 2 is used twice: cause; keep the file and restore the last good backup",
		},
		{
			&store.CorruptError{File: "f", Part: "obj", Key: "task/1", Reason: "too short"},
			`f is damaged: obj "task/1": too short; keep the file and restore the last good backup`,
		},
		{
			&store.FormatError{File: "f", Format: 3, MinReader: 2, Known: 1},
			"f has format 3, which needs a program that knows format 2; this one knows 1: run a newer version, or restore a backup made before the upgrade",
		},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("text = %q, want %q", got, tt.want)
		}
	}
}

func TestRetentionDefaults(t *testing.T) {
	want := store.Retention{Revisions: 100_000, Age: time.Hour, Bytes: 64 << 20}
	if got := (store.Retention{Age: time.Hour}).WithDefaults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
