package api_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// BenchmarkWatch measures what it costs to tell many watchers what happens, over TLS, their own reading included: time of all processors for one event and
// watcher. A turn has a hundred events, as one has that places a hundred tasks. With idle, as many watchers more never read.
func BenchmarkWatch(b *testing.B) {
	const perTurn = 100
	for _, size := range []struct{ watchers, idle int }{{10, 0}, {100, 0}, {1000, 0}, {1000, 1000}} {
		b.Run(fmt.Sprintf("watchers=%d/idle=%d", size.watchers, size.idle), func(b *testing.B) {
			s := serve(b, nil)
			c := s.as(pki.RoleReader)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var seen, want atomic.Int64
			all := make(chan struct{}, 1) // every watcher has seen everything
			var reading sync.WaitGroup
			for range size.watchers {
				watch, err := c.WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{Follow: true}))
				if err != nil {
					b.Fatal(err)
				}
				if !watch.Receive() {
					b.Fatal(watch.Err())
				}
				reading.Go(func() {
					defer watch.Close()
					for watch.Receive() {
						if n := int64(len(watch.Msg().GetEvents())); n > 0 && seen.Add(n) == want.Load() {
							all <- struct{}{}
						}
					}
				})
			}
			for range size.idle {
				watch, err := c.WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{Follow: true}))
				if err != nil {
					b.Fatal(err)
				}
				defer watch.Close()
			}
			records := []any{node("a", "n1"), job("web", perTurn)}
			var changes []engine.Authored
			for i := range perTurn {
				t := task(fmt.Sprintf("web/%d/3", i+1))
				records = append(records, t)
				changes = append(changes, engine.Authored{By: cluster.AuthorPlace, Change: cluster.SetPlacement{Task: t.ID, Placement: cluster.Placement{Node: "a"}}})
			}
			began, cpu := time.Now(), processTime(b)
			revision := cluster.Revision(1)
			for b.Loop() {
				before := state(revision, records...)
				revision++
				want.Add(perTurn * int64(size.watchers))
				s.events.Committed(engine.Turn{Before: before, State: state(revision, records...), Changes: changes})
				<-all
			}
			n := float64(seen.Load())
			b.ReportMetric(float64((processTime(b)-cpu).Nanoseconds())/1000/n, "cpu-µs/event")
			b.ReportMetric(n/time.Since(began).Seconds(), "events/s")
			stop()
			reading.Wait()
		})
	}
}

// processTime returns how long processors have worked for this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
