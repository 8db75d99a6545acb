package worker

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// TestDecide looks at every view there is.
func TestDecide(t *testing.T) {
	flags := []bool{false, true}
	n := 0
	for observed := cluster.Accepted; observed <= cluster.Stopped; observed++ {
		for r := unknown; r <= ended; r++ {
			for bits := range 1 << 8 {
				bit := func(i int) bool { return flags[bits>>i&1] }
				v := view{
					observed: observed, runtime: r, wanted: bit(0), mayStart: bit(1), forgotten: bit(2), sick: bit(3), startErr: bit(4), refused: bit(5),
					stopDue: bit(6), unsaved: bit(7),
				}
				n++
				if problem := wrong(v, decide(v)); problem != "" {
					t.Errorf("%+v: action %d: %s", v, decide(v), problem)
				}
			}
		}
	}
	if n != 8*6*256 {
		t.Errorf("looked at %d views", n)
	}
}

// wrong says what is wrong with an action, or nothing.
func wrong(v view, a action) string {
	holds := func(rule string, ok bool) string {
		if ok {
			return ""
		}
		return rule
	}
	over := v.observed.Terminal()
	switch a {
	case start:
		return holds("only what is wanted, may start, certainly does not run and has a durable intent is started",
			v.wanted && v.mayStart && v.runtime == absent && v.observed == cluster.Starting && !v.unsaved && !v.startErr && !v.refused)
	case intend:
		return holds("only what will be started is intended", v.wanted && v.mayStart && v.runtime == absent && v.observed <= cluster.Starting)
	case stop:
		return holds("only what runs and should not is stopped", !over && v.runtime == running && v.stopDue && (!v.wanted || v.sick))
	case abandon:
		return holds("only an unwanted start is given up", !over && v.runtime == starting && !v.wanted)
	case announce:
		return holds("observed states move forward", v.observed < cluster.Running && v.runtime == running && v.wanted)
	case conclude:
		return holds("only what does not run has ended", !over && (v.runtime == absent || v.runtime == ended))
	case remove:
		return holds("only what has ended and is to be forgotten is removed", over && v.forgotten && !v.unsaved)
	case inquire:
		return holds("only what is not known is asked for", !over && v.runtime == unknown)
	case save:
		return holds("only what is not saved is", v.unsaved)
	case rest:
		switch {
		case over:
			return holds("what has ended is saved and removed", !v.unsaved && !v.forgotten)
		case v.runtime == unknown, v.runtime == ended:
			return "there is something to do"
		case v.runtime == absent:
			return holds("what is wanted and may be started is", v.wanted && !v.mayStart && v.observed < cluster.Running)
		case v.runtime == running && v.stopDue:
			return holds("what should not run is stopped", v.wanted && !v.sick)
		case v.runtime == starting:
			return holds("an unwanted start is given up", v.wanted)
		}
	}
	return ""
}

func TestOrder(t *testing.T) {
	var o order
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	if !o.due(at(0), 10*time.Second) || o.grace(at(0), 10*time.Second) != 10*time.Second {
		t.Fatal("the first order is not due")
	}
	o.give(at(0), 10*time.Second)
	for _, c := range []struct {
		at    int
		grace time.Duration
		due   bool
	}{
		{1, 10 * time.Second, false}, // would end later
		{1, 9 * time.Second, false},  // would end as the first
		{1, 8 * time.Second, true},   // sooner
		{5, 0, true},
		{12, 10 * time.Second, false}, // the driver is killing
		{15, 10 * time.Second, true},  // it had its time
	} {
		if got := o.due(at(c.at), c.grace); got != c.due {
			t.Errorf("after %d s, grace %s: due %v, want %v", c.at, c.grace, got, c.due)
		}
	}
	if got := o.grace(at(15), 10*time.Second); got != 0 {
		t.Errorf("the repetition has a grace of %s", got)
	}
	o.give(at(15), 0)
	if o.due(at(20), 10*time.Second) || !o.due(at(25), 10*time.Second) {
		t.Error("it is repeated at the wrong time")
	}
	var short order
	short.give(at(0), 10*time.Second)
	short.give(at(1), 2*time.Second)
	if !short.due(at(8), 10*time.Second) || short.due(at(7), 10*time.Second) || short.shortest != 2*time.Second {
		t.Errorf("a shorter order does not count: %+v", short)
	}
}
