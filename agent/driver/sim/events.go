package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	// Started: the task runs from then on.
	Started Kind = "started"
	// Rejected: Start refused it.
	Rejected Kind = "rejected"
	// StopAsked: Stop was called, and changed something.
	StopAsked Kind = "stop_asked"
	// Ended: it had run until then. The event may be written later, by the next call that finds it ended.
	Ended Kind = "ended"
	// Removed: its record was removed.
	Removed Kind = "removed"
)

// Event is one thing that happened to one task.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   Kind      `json:"kind"`
	TaskID string    `json:"task_id"`
	// Spec comes with Started.
	Spec *driver.Spec `json:"spec,omitempty"`
	// Signal and Grace come with StopAsked.
	Signal string        `json:"signal,omitempty"`
	Grace  time.Duration `json:"grace_ns,omitempty"`
	// Exit comes with Ended.
	Exit *driver.Exit `json:"exit,omitempty"`
	// Reason comes with Rejected.
	Reason string `json:"reason,omitempty"`
}

func eventsPath(dir string) string { return filepath.Join(dir, "events.jsonl") }

// Events reads what happened so far, oldest first as it was written. A directory in which nothing happened yet has none.
func Events(dir string) ([]Event, error) {
	var out []Event
	_, err := readEvents(dir, func(e Event) error {
		out = append(out, e)
		return nil
	})
	return out, err
}

// readEvents calls each for every whole line and returns how many bytes these take.
func readEvents(dir string, each func(Event) error) (int64, error) {
	f, err := os.Open(eventsPath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var size int64
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil // what has no end was cut short by a kill, and nobody was told of it
		}
		if err != nil {
			return size, err
		}
		var e Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return size, fmt.Errorf("read %s at byte %d: %w", f.Name(), size, err)
		}
		if err := each(e); err != nil {
			return size, fmt.Errorf("read %s at byte %d: %w", f.Name(), size, err)
		}
		size += int64(len(line))
	}
}

// write appends one event. A call returns to its caller only after what it did was written.
func (d *Driver) write(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(eventsPath(d.dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// replay applies an event that was read.
func (d *Driver) replay(e Event) error {
	t := d.tasks[e.TaskID]
	if e.Kind != Started && e.Kind != Rejected && t == nil {
		return fmt.Errorf("%s of task %s, which was never started", e.Kind, e.TaskID)
	}
	switch e.Kind {
	case Started:
		if e.Spec == nil {
			return fmt.Errorf("start of task %s without its spec", e.TaskID)
		}
		s, err := parseScript(e.Spec.Settings)
		if err != nil {
			return err
		}
		d.tasks[e.TaskID] = &task{spec: *e.Spec, script: s, started: e.Time, changed: make(chan struct{})}
	case StopAsked:
		t.order(e.Signal, e.Time, e.Grace)
	case Ended:
		t.exit = e.Exit
	case Removed:
		delete(d.tasks, e.TaskID)
	case Rejected:
	default:
		return fmt.Errorf("unknown kind of event %q", e.Kind)
	}
	return nil
}
