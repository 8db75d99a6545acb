package sim

import (
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// A task is what was asked of one task, and when.
type task struct {
	spec    driver.Spec
	script  script
	started time.Time
	stop    *stopping
	// exit is set once its end was written to the events.
	exit *driver.Exit
	// changed is closed and replaced whenever stop or exit changes.
	changed chan struct{}
}

// A stopping is a stop that was asked for, with all later orders joined in.
type stopping struct {
	at       time.Time // of the first order with a grace; zero if there was none
	signal   string    // of that order
	deadline time.Time // when it is killed
}

// end tells when and how the task ends as things stand. It returns false if it would run for ever.
func (t *task) end() (driver.Exit, bool) {
	if t.exit != nil {
		return *t.exit, true
	}
	var out driver.Exit
	found := false
	earliest := func(e driver.Exit) {
		if !found || e.Finished.Before(out.Finished) {
			out, found = e, true
		}
	}
	if t.script.runFor != nil {
		by := driver.Exit{Code: t.script.exitCode, Started: t.started, Finished: t.started.Add(*t.script.runFor)}
		if t.script.oom && by.Code == 0 {
			by = signalled("KILL", by.Started, by.Finished)
		}
		by.OOM = t.script.oom
		earliest(by)
	}
	if t.stop != nil {
		if !t.stop.at.IsZero() {
			earliest(signalled(t.stop.signal, t.started, t.stop.at.Add(t.script.stopDelay)))
		}
		earliest(signalled("KILL", t.started, t.stop.deadline))
	}
	return out, found
}

func signalled(name string, started, at time.Time) driver.Exit {
	return driver.Exit{Code: 128 + signals[name], Signal: name, Started: started, Finished: at}
}

// order takes a stop order. It returns false if that changes nothing.
func (t *task) order(signal string, now time.Time, grace time.Duration) bool {
	deadline := now.Add(max(grace, 0))
	switch {
	case t.stop == nil && grace > 0:
		t.stop = &stopping{at: now, signal: signal, deadline: deadline}
	case t.stop == nil:
		t.stop = &stopping{deadline: deadline}
	case deadline.Before(t.stop.deadline):
		t.stop.deadline = deadline
	default:
		return false
	}
	return true
}

// notify wakes whoever waits for a change.
func (t *task) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// output is every line that the task writes until it ends, oldest first.
func (t *task) output(until time.Time, s driver.Stream) []driver.LogLine {
	var out []driver.LogLine
	add := func(stream driver.Stream, text []string, i int) {
		at := t.started.Add(time.Duration(i) * t.script.logEvery)
		if i < len(text) && !at.After(until) && (s == driver.StreamBoth || s == stream) {
			out = append(out, driver.LogLine{Time: at, Stream: stream, Text: []byte(text[i])})
		}
	}
	for i := range max(len(t.script.stdout), len(t.script.stderr)) {
		add(driver.Stdout, t.script.stdout, i)
		add(driver.Stderr, t.script.stderr, i)
	}
	return out
}
