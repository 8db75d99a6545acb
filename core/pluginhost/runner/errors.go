package runner

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What callers branch on with errors.Is.
var (
	// ErrDigest: the executable is not the one whose sha256 was pinned.
	ErrDigest = errors.New("sha256 differs from the pinned one")
	// ErrTimeout: the plugin did not answer within its handshake timeout.
	ErrTimeout = errors.New("handshake timed out")
	// ErrExited: the plugin ended before it had answered.
	ErrExited = errors.New("plugin exited before its handshake")
	// ErrHandshake: the plugin wrote something else than a usable handshake.
	ErrHandshake = errors.New("unusable handshake")
	// ErrClosed: the launcher was closed.
	ErrClosed = errors.New("launcher is closed")
	// ErrStillAlive: a process survived SIGKILL for longer than Stop waits; it hangs in the kernel.
	ErrStillAlive = errors.New("process does not die")
)

// Step is the part of a start that went wrong.
type Step string

// The steps of a start, in order.
const (
	StepOpen      Step = "open"      // find and open the executable
	StepVerify    Step = "verify"    // hash it
	StepSpawn     Step = "spawn"     // create the process
	StepConfine   Step = "confine"   // take from it what it must not have
	StepHandshake Step = "handshake" // read its line on stdout
	StepConnect   Step = "connect"   // first call over its socket
)

// StartError says why a plugin could not be started, for people to read.
type StartError struct {
	Name, Path string
	Argv       []string
	Step       Step
	Reason     string
	Hint       string        // what to do about it; may be empty
	Timeout    time.Duration // the limit that was reached, if one was
	Exit       *ExitStatus   // how the process ended by itself; nil if it did not
	Stdout     string        // first bytes on stdout, quoted and escaped; "" if there were none
	Stderr     []string      // last lines on stderr
	Err        error         // one of the sentinels above, a *VersionError, or the system's error
}

const shownStderr = 3 // lines of stderr in the text of an error; all that was kept is in the field

// Error gives everything in one line.
func (e *StartError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "start plugin %s (%s): %s", e.Name, strings.Join(e.Argv, " "), e.Reason)
	if e.Exit != nil && !errors.Is(e.Err, ErrExited) {
		fmt.Fprintf(&b, "; it %s", e.Exit)
	}
	if e.Stdout != "" {
		fmt.Fprintf(&b, "; stdout began with %s", e.Stdout)
	}
	if n := len(e.Stderr); n > 0 {
		fmt.Fprintf(&b, "; stderr ended with %q", strings.Join(e.Stderr[max(0, n-shownStderr):], "\n"))
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// VersionError: host and plugin speak no common version of the protocol.
type VersionError struct {
	Plugin int   // the version that the plugin offered
	Host   []int // the versions that the host speaks, ascending
}

// Error names both sides.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the plugin speaks protocol version %d, the host %s", e.Plugin, versionRange(e.Host))
}

func (e *VersionError) hint() string {
	if e.Plugin > e.Host[len(e.Host)-1] {
		return "upgrade the host, or install an older release of the plugin"
	}
	return "upgrade the plugin, or rebuild it with the current SDK"
}

// versionRange shows ascending versions: "1", "1 to 3", or "1, 3" if some are missing between.
func versionRange(versions []int) string {
	first, last := versions[0], versions[len(versions)-1]
	switch {
	case first == last:
		return fmt.Sprint(first)
	case last-first+1 == len(versions):
		return fmt.Sprintf("%d to %d", first, last)
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(versions), " ", ", "), "[]")
}

// refuse makes a StartError without what the launcher fills in: name, path, argv and the process's output.
func refuse(step Step, reason, hint string, err error) error {
	return &StartError{Step: step, Reason: reason, Hint: hint, Err: err}
}
