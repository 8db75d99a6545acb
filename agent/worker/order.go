package worker

import "time"

// patience is how long after a stop's end the driver may still take to kill what is left, before it is ordered to again.
const patience = 5 * time.Second

// order is what a driver was last told about stopping a task. The zero value: nothing.
type order struct {
	given    bool
	shortest time.Duration // the grace that was given, or the shortest of several
	deadline time.Time     // when the driver kills it
	repeat   time.Time     // when it has to be told again to kill it
	pause    time.Duration // until the repetition after that
}

// due reports whether an order with this grace has to be given: there was none, it ends sooner than the one before, or that one had no effect.
func (o *order) due(now time.Time, grace time.Duration) bool {
	return !o.given || now.Add(grace).Before(o.deadline) || !now.Before(o.repeat)
}

// grace returns the grace to order: none if an earlier order should long have had its effect.
func (o *order) grace(now time.Time, grace time.Duration) time.Duration {
	if o.given && !now.Before(o.repeat) {
		return 0
	}
	return grace
}

// give notes that an order was given.
func (o *order) give(now time.Time, grace time.Duration) {
	again := o.given && !now.Before(o.repeat)
	if !o.given || grace < o.shortest {
		o.shortest = grace
	}
	o.given = true
	if end := now.Add(grace); o.deadline.IsZero() || end.Before(o.deadline) {
		o.deadline = end
	}
	o.pause = patience
	if again {
		o.pause = min(2*o.pause, time.Minute)
	}
	o.repeat = o.deadline.Add(o.pause)
	if again {
		o.repeat = now.Add(o.pause)
	}
}
