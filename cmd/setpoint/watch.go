package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How often something that is watched is asked for: not more often, and not more rarely, since not all that changes is an event. What takes long to ask for is asked
// for more rarely, so that watching it costs the server no more than a fifth of one processor.
const (
	watchLeast = 300 * time.Millisecond
	watchMost  = 2 * time.Second
	watchShare = 5

	watchPatience = 10 * time.Second // for one answer
)

// watch calls look at once and whenever something has happened at the server, until the context ends. A server that went away after the first time is waited for; that
// is said.
func (a *app) watch(ctx context.Context, s *server, look func(context.Context) error) error {
	first, away := true, false
	return watch(ctx, s, func(ctx context.Context) error {
		began := time.Now()
		err := look(ctx)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil
		case err != nil && (first || !unreachable(err)):
			return err
		case err != nil && !away:
			fmt.Fprintf(a.errOut, "No answer from the server at %s since %s; what is shown is from before. Trying again.\n", s.Addr(), began.Format(time.TimeOnly))
		case err == nil && away:
			fmt.Fprintln(a.errOut, "The server answers again.")
		}
		first, away = false, err != nil
		return nil
	})
}

// watch calls look at once and whenever something has happened at the server, until the context ends or look fails.
func watch(ctx context.Context, s *server, look func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	happened := make(chan struct{}, 1)
	var following sync.WaitGroup
	following.Go(func() {
		s.Changes(ctx, func() {
			select {
			case happened <- struct{}{}:
			default:
			}
		})
	})
	defer following.Wait()
	defer cancel()
	for {
		began := time.Now()
		limited, stop := context.WithTimeout(ctx, watchPatience)
		err := look(limited)
		least := max(watchLeast, watchShare*time.Since(began))
		if limited.Err() != nil {
			least = watchLeast // there was no answer, which costs nobody anything
		}
		stop()
		if err != nil {
			return err
		}
		if pause(ctx, nil, least) != nil || pause(ctx, happened, watchMost) != nil {
			return nil
		}
	}
}

// pause waits so long, or until something has happened. It returns the context's error once that ends.
func pause(ctx context.Context, happened <-chan struct{}, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-happened:
	case <-timer.C:
	}
	return ctx.Err()
}
