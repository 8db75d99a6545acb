package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// maxInquiries is how many tasks are looked for at the same time when an agent starts.
	maxInquiries = 16
	// inquiryTimeout is how long a driver may take to tell what became of a task, or what there is.
	inquiryTimeout = 10 * time.Second
	// recoverTimeout is how long all that may take when an agent starts; the server waits meanwhile.
	recoverTimeout = 20 * time.Second
)

// recover asks the drivers what became of each task on record, and what else there is. What they cannot tell now is asked again later.
func (s *Set) recover(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	var group sync.WaitGroup
	slots := make(chan struct{}, maxInquiries)
	s.mu.Lock()
	tasks := make([]*task, 0, len(s.tasks))
	for _, t := range s.tasks {
		tasks = append(tasks, t)
	}
	s.mu.Unlock()
	for _, t := range tasks {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			t.find(ctx)
		})
	}
	group.Wait()
	s.sweepSecrets(tasks)
	for _, d := range s.opts.Drivers {
		err := s.sweep(ctx, d)
		if err == nil {
			continue
		}
		s.opts.Log.Error("driver does not tell what it runs", "driver", d.Name(), "error", err)
		s.mu.Lock()
		s.begin(&sweeper{set: s, driver: d})
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		s.begin(t)
	}
}

// sweep finds what a driver has without a record.
func (s *Set) sweep(ctx context.Context, d driver.Driver) error {
	ctx, cancel := context.WithTimeout(ctx, inquiryTimeout)
	defer cancel()
	list, err := d.List(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		id := cluster.TaskID(l.Handle.TaskID)
		if s.tasks[id] != nil {
			continue
		}
		s.found[id] = struct{}{}
		if l.Status.State != driver.StateExited && l.Status.State != driver.StateNotStarted {
			s.strays[id] = struct{}{}
			s.opts.Log.Warn("task without a record found, stopping it", "task", id, "driver", d.Name(), "state", l.Status.State)
		}
		s.begin(&stray{set: s, driver: d, handle: l.Handle})
	}
	s.straysChanged()
	return nil
}

// sweeper asks a driver that could not tell what it has, until it does.
type sweeper struct {
	set    *Set
	driver driver.Driver
}

func (w *sweeper) run(ctx context.Context) {
	for failures := 1; pause(ctx, delay(failures)); failures++ {
		if w.set.sweep(ctx, w.driver) == nil {
			return
		}
	}
}

// stray is something that a driver has without a record. It is stopped, waited for and removed.
type stray struct {
	set    *Set
	driver driver.Driver
	handle driver.Handle
}

func (w *stray) run(ctx context.Context) {
	grace := driver.DefaultStopGrace
	if !w.patiently(ctx, "stop", func() error {
		err := w.end(ctx, grace)
		grace = 0 // the next attempt kills
		return err
	}) {
		return
	}
	w.set.strayEnded(cluster.TaskID(w.handle.TaskID))
	w.patiently(ctx, "remove", func() error { return w.driver.Remove(ctx, w.handle) })
}

// patiently tries something until it is done, and reports false if the context ended before.
func (w *stray) patiently(ctx context.Context, what string, try func() error) bool {
	for failures := 0; ; failures++ {
		err := try()
		if err == nil {
			return true
		}
		if !pause(ctx, delay(failures)) {
			return false
		}
		w.set.opts.Log.Warn("task without a record is still here", "task", w.handle.TaskID, "driver", w.driver.Name(), "attempted", what, "error", err)
	}
}

// end stops what is there and waits until nothing of it runs.
func (w *stray) end(ctx context.Context, grace time.Duration) error {
	err := w.driver.Stop(ctx, w.handle, driver.StopRequest{Grace: grace})
	if err == nil {
		wait, cancel := context.WithTimeout(ctx, grace+patience)
		defer cancel()
		_, err = w.driver.Wait(wait, w.handle)
	}
	if errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrNotStarted) {
		return nil
	}
	return err
}

func (s *Set) strayEnded(id cluster.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strays, id)
	s.straysChanged()
}

// delay is the pause after so many failures in a row.
func delay(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 9), 30*time.Second)
}

// pause waits, and reports false if the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
