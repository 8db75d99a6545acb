package sdk

import (
	"sync"
	"time"
)

// work is one call of author's code.
type work interface {
	run()
	late() // called once if run takes longer than the deadline; run goes on
}

// pool runs author's code, a few calls at a time. A call that takes long loses its place to others, so that it delays none of them, and goes on by itself.
type pool struct {
	limit    int           // calls that hold a place
	patience time.Duration // after which a call loses its place
	deadline time.Duration // after which a call is late
	blocked  func()        // called when nothing waits and every call under way has lost its place

	mu      sync.Mutex // guards what follows
	queue   []work
	head    int
	workers map[*worker]struct{} // under way
	places  int                  // taken
	closed  bool
	watch   *time.Timer
	due     time.Time // when watch comes; zero if it does not
	done    sync.WaitGroup
}

// worker is one goroutine of the pool. Guarded by the pool's mu.
type worker struct {
	current work
	since   time.Time
	lost    bool // its place
	late    bool
}

func newPool(limit int, patience, deadline time.Duration, blocked func()) *pool {
	p := &pool{limit: limit, patience: min(patience, deadline), deadline: deadline, blocked: blocked, workers: make(map[*worker]struct{})}
	p.watch = time.AfterFunc(time.Hour, p.look)
	p.watch.Stop()
	return p
}

// submit queues calls. They begin in the order in which they were submitted.
func (p *pool) submit(calls []work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.queue = append(p.queue, calls...)
	p.fill()
}

// fill starts workers for what waits. It is called with mu held.
func (p *pool) fill() {
	waiting := len(p.queue) - p.head
	for ; waiting > 0 && p.places < p.limit; waiting-- {
		w := &worker{since: time.Now()}
		p.workers[w] = struct{}{}
		p.places++
		p.arm(p.patience)
		p.done.Go(func() { p.serve(w) })
	}
}

// arm makes look come after d at the latest. It is called with mu held.
func (p *pool) arm(d time.Duration) {
	if due := time.Now().Add(d); p.due.IsZero() || due.Before(p.due) {
		p.due = due
		p.watch.Reset(d)
	}
}

func (p *pool) serve(w *worker) {
	for p.next(w) {
		w.current.run()
	}
}

// next gives a worker its next call, or reports that it must end.
func (p *pool) next(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.lost || p.closed || p.head == len(p.queue) {
		if !w.lost {
			p.places--
		}
		delete(p.workers, w)
		return false
	}
	w.current, p.queue[p.head] = p.queue[p.head], nil
	w.since, w.late = time.Now(), false
	p.head++
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	}
	return true
}

// look takes places from calls that take long, tells of late ones, and comes again when the next may be due.
func (p *pool) look() {
	p.mu.Lock()
	now, next := time.Now(), p.deadline
	p.due = time.Time{}
	var late []work
	for w := range p.workers {
		age := now.Sub(w.since)
		if !w.lost && age >= p.patience {
			w.lost = true
			p.places--
		}
		if !w.late && age >= p.deadline && w.current != nil {
			w.late = true
			late = append(late, w.current)
		}
		if !w.lost {
			next = min(next, p.patience-age)
		} else if !w.late {
			next = min(next, p.deadline-age)
		}
	}
	p.fill()
	stuck := p.allLost()
	if len(p.workers) > 0 && !p.closed {
		p.arm(max(next, time.Millisecond))
	}
	p.mu.Unlock()
	for _, w := range late {
		w.late()
	}
	if stuck {
		p.blocked()
	}
}

// stuck reports whether calls are under way and all of them have lost their place.
func (p *pool) stuck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allLost()
}

func (p *pool) allLost() bool { return p.places == 0 && len(p.workers) > 0 }

// close drops what waits and waits for what is under way, at most for the given time: code that does not return is left alone.
func (p *pool) close(wait time.Duration) {
	p.mu.Lock()
	p.closed = true
	p.queue, p.head = nil, 0
	p.watch.Stop()
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		p.done.Wait()
		close(ended)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
