package process

import (
	"errors"
	"syscall"
)

// A reaper collects the children of this process that have ended. One goroutine owns it and it alone reaps, so whatever child it signals is still there.
type reaper struct {
	main   int // the first process of what is watched
	status syscall.WaitStatus
	ended  bool // main was reaped
	alone  bool // no child is left, and for a process that reaps all its descendants that means no descendant
}

// reap collects every child that has ended; a process that reaps all its descendants has those as children whose parents are gone.
func (r *reaper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			r.alone = true
			return
		case pid == 0:
			return
		case pid == r.main:
			r.status, r.ended = status, true
		}
	}
}

// code returns main's exit code as shells tell it: for one that a signal ended, 128 and the signal's number.
func (r *reaper) code() int {
	if r.status.Signaled() {
		return 128 + int(r.status.Signal())
	}
	return r.status.ExitStatus()
}
