package bolt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/store"
)

func batches() []store.Batch {
	return []store.Batch{
		{Revision: 1, Wall: time.Time{}.UTC(), Records: []store.Record{}},
		{Revision: 1 << 63, Engine: -time.Second, Wall: time.Unix(-1, 999_999_999).UTC(), Records: []store.Record{{Key: "deleted"}, {Key: "empty", Value: []byte{}}}},
		{Revision: 300, Engine: 1 << 62, Wall: time.Date(9999, 1, 1, 0, 0, 0, 1, time.UTC), Records: []store.Record{{Key: "k", Value: bytes.Repeat([]byte("v"), 70_000)}}},
	}
}

func TestBatchRoundTrip(t *testing.T) {
	for _, want := range batches() {
		packed, records := encodeBatch(want)
		got, err := decodeBatch(want.Revision, packed)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %.200v, want %.200v", got, want)
		}
		if !reflect.DeepEqual(records, want.Records) {
			t.Errorf("records kept are %.200v, want %.200v", records, want.Records)
		}
		if _, err := decodeBatch(want.Revision+1, packed); !errors.Is(err, errChecksum) {
			t.Errorf("as another revision: error = %v, want a wrong checksum", err)
		}
	}
}

// The bytes of format 1, which must never change.
func TestBatchBytes(t *testing.T) {
	packed, _ := encodeBatch(store.Batch{
		Revision: 258,
		Engine:   time.Microsecond,
		Wall:     time.Unix(3, 4),
		Records:  []store.Record{{Key: "ab", Value: []byte("xyz")}, {Key: "c"}, {Key: "d", Value: []byte{}}},
	})
	want := []byte{
		0xd0, 0x0f, // engine time, 1000 ns, zigzag
		6, // wall time, 3 s, zigzag
		4, // and 4 ns
		3, // records
		2, 'a', 'b', 4, 'x', 'y', 'z',
		1, 'c', 0,
		1, 'd', 1,
	}
	if !bytes.Equal(packed[crcSize:], want) {
		t.Errorf("payload = %v, want %v", packed[crcSize:], want)
	}
	// CRC32C of 08 00 00 00, the key 00 00 00 00 00 00 01 02, and the payload; little endian.
	if got, want := packed[:crcSize], []byte{0xc7, 0x51, 0x27, 0x5b}; !bytes.Equal(got, want) {
		t.Errorf("checksum = %#v, want %#v", got, want)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, b := range batches()[:2] {
		packed, _ := encodeBatch(b)
		f.Add(packed[crcSize:])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		packed := seal(logKey(7), append(make([]byte, crcSize), payload...))
		b, err := decodeBatch(7, packed)
		if err != nil {
			return
		}
		again, _ := encodeBatch(b)
		got, err := decodeBatch(7, again)
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("decoded %v, and encoded again it is %v, %v", b, got, err)
		}
	})
}

func FuzzCheckPages(f *testing.F) {
	path := filepath.Join(f.TempDir(), "state.db")
	b, err := Open(path, Options{noSync: true, fold: foldLimits{keys: 2, bytes: 1 << 20, batches: 2}})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := b.Load(f.Context(), func(store.Record) error { return nil }); err != nil {
		f.Fatal(err)
	}
	for r := range uint64(5) {
		if err := b.Commit(f.Context(), store.Batch{Revision: r + 1, Records: []store.Record{{Key: string(rune('a' + r)), Value: make([]byte, 1500)}}}); err != nil {
			f.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(16, uint64(0), 4096+10, uint64(1))
	f.Fuzz(func(t *testing.T, at int, value uint64, at2 int, value2 uint64) {
		bad := bytes.Clone(good)
		for _, w := range []struct {
			at    int
			value uint64
		}{{at, value}, {at2, value2}} {
			if w.at < 0 || w.at > len(bad)-8 {
				return
			}
			for i := range 8 {
				bad[w.at+i] ^= byte(w.value >> (8 * i))
			}
		}
		_, err := checkPages("fuzz", bytes.NewReader(bad), int64(len(bad))) // whatever it says, it comes back
		corrupt := (*store.CorruptError)(nil)
		if err != nil && !errors.As(err, &corrupt) {
			t.Errorf("error = %v, want a CorruptError", err)
		}
	})
}
