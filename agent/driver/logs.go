package driver

import (
	"fmt"
	"time"
)

// Stream is one of a task's outputs.
type Stream int

// The streams. The zero value in a LogsRequest means both.
const (
	StreamBoth Stream = iota
	Stdout
	Stderr
)

// String is the word that people use.
func (s Stream) String() string {
	switch s {
	case StreamBoth:
		return "both"
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return fmt.Sprintf("stream %d", int(s))
}

// LogsRequest says which output is wanted. The zero value means all that is kept of both streams.
type LogsRequest struct {
	// Stream limits it to one stream.
	Stream Stream
	// Follow goes on with what comes, until the task has ended.
	Follow bool
	// Since leaves out what was written before; zero: nothing.
	Since time.Time
	// Tail starts with at most so many of the last lines; zero: all.
	Tail int
}

// LogLine is one line of output.
type LogLine struct {
	// Time is when the line was read from the task.
	Time time.Time
	// Stream is Stdout or Stderr.
	Stream Stream
	// Text is the line without its end. It is valid until the next one is asked for.
	Text []byte
	// Partial is true if the line was too long and goes on in the next of its stream.
	Partial bool
}
