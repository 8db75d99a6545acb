package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrCompacted: batches that were asked for are no longer in the log.
	ErrCompacted = errors.New("compacted: the log no longer reaches back that far")
	// ErrClosed: the backend was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrNotLoaded: Load has to come first.
	ErrNotLoaded = errors.New("the store has not been loaded")
	// ErrLoaded: Load was called a second time.
	ErrLoaded = errors.New("the store has been loaded already")
	// ErrRefused: the batch breaks a rule of Commit, and nothing was done.
	ErrRefused = errors.New("batch refused")
	// ErrNoSpace: nothing was done since storage is full; reading works, and so does the same commit once there is space.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrOutcomeUnknown: a commit failed in a way that leaves open whether its batch is durable. The backend refuses everything from then
	// on; the process must exit and load again.
	ErrOutcomeUnknown = errors.New("outcome of a commit unknown: the process must stop and load again")
)

// RevisionError says that a revision does not fit the head.
type RevisionError struct {
	Op       string // commit or read
	Revision uint64 // that was asked for
	Head     uint64
}

// Error says both revisions.
func (e *RevisionError) Error() string {
	return fmt.Sprintf("%s: revision %d does not fit head %d", e.Op, e.Revision, e.Head)
}

// CorruptError says where stored bytes are not what was written. There is no going on: the storage has to be restored.
type CorruptError struct {
	File     string
	Part     string // what was being read: page, meta, log, obj
	Key      string // of the record or meta value, if there is one
	Revision uint64 // of the log record, if there is one
	Offset   int64  // in the file, of a damaged page; 0 if unknown
	Reason   string
	Err      error // what lies under it, or nil
}

// Error names the place, the reason, and what to do.
func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is damaged: %s", e.File, e.Part)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	if e.Revision != 0 {
		fmt.Fprintf(&b, " of revision %d", e.Revision)
	}
	if e.Offset != 0 {
		fmt.Fprintf(&b, " at offset %d", e.Offset)
	}
	fmt.Fprintf(&b, ": %s", e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	b.WriteString("; keep the file and restore the last good backup")
	return b.String()
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// InUseError says that another process has the storage open. What is not known about it is zero.
type InUseError struct {
	File    string
	PID     int
	Command string
	Since   time.Time
}

// Error names the file and its holder.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return e.File + " is in use by another process; one server per data directory"
	}
	var about []string
	if e.Command != "" {
		about = append(about, e.Command)
	}
	if !e.Since.IsZero() {
		about = append(about, "since "+e.Since.Format(time.DateTime))
	}
	who := fmt.Sprintf("pid %d", e.PID)
	if len(about) > 0 {
		who += " (" + strings.Join(about, ", ") + ")"
	}
	return fmt.Sprintf("%s is in use by %s; one server per data directory", e.File, who)
}

// FormatError says that storage was written in a format that this program cannot read, so an older program is looking at a newer file.
type FormatError struct {
	File      string
	Format    uint32 // that the file was written in
	MinReader uint32 // the lowest format that a program must know to read it
	Known     uint32 // the highest that this program knows
}

// Error names the formats, and what to do.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, which needs a program that knows format %d; this one knows %d: run a newer version, or restore a backup made before the upgrade",
		e.File, e.Format, e.MinReader, e.Known)
}
