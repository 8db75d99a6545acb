package bolt_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
)

const (
	benchKeys  = 200_000
	benchValue = 280 // bytes
)

func benchKey(i int) string { return fmt.Sprintf("task/job-%03d/%06d", i%500, i) }

func benchRecord(random *rand.Rand, key string) store.Record {
	value := make([]byte, benchValue)
	for i := range 8 {
		value[i*4] = byte(random.Uint32())
	}
	return store.Record{Key: key, Value: value}
}

// fill makes a file of benchKeys records.
func fill(b *testing.B, path string, opts bolt.Options) (*bolt.Backend, uint64) {
	b.Helper()
	s, _, _ := open(b, path, opts)
	random := rand.New(rand.NewPCG(1, 1))
	revision := uint64(0)
	for at := 0; at < benchKeys; at += 10_000 {
		revision++
		batch := turn(revision)
		for i := range 10_000 {
			batch.Records = append(batch.Records, benchRecord(random, benchKey(at+i)))
		}
		commit(b, s, batch)
	}
	return s, revision
}

// BenchmarkCommit commits changes of random keys among 200,000, each durable when it returns.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("changes=%d", n), func(b *testing.B) {
			s, revision := fill(b, filepath.Join(b.TempDir(), "state.db"), bolt.Options{})
			random := rand.New(rand.NewPCG(2, 2))
			for b.Loop() {
				revision++
				batch := turn(revision)
				chosen := map[int]bool{}
				for len(chosen) < n {
					chosen[random.IntN(benchKeys)] = true
				}
				for k := range chosen {
					batch.Records = append(batch.Records, benchRecord(random, benchKey(k)))
				}
				commit(b, s, batch)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
			b.ReportMetric(float64(s.Stats().UnfoldedKeys), "unfolded")
		})
	}
}

// BenchmarkOpen opens and loads 200,000 records.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state.db")
	s, _ := fill(b, path, bolt.Options{}.Quick())
	closed(b, s)
	for b.Loop() {
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		if _, err := s.Load(b.Context(), func(store.Record) error { n++; return nil }); err != nil || n != benchKeys {
			b.Fatalf("%d records, %v", n, err)
		}
		closed(b, s)
	}
}
