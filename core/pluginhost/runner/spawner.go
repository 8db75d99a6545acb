package runner

import (
	"context"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// spawner starts processes from one thread that outlives them all. The kernel sends a plugin its parent-death signal when the
// thread that started it ends, not only when the whole host does, and Go ends threads when it likes.
type spawner struct {
	guard    *guard // nil: there is none
	once     sync.Once
	requests chan func()
	ended    sync.WaitGroup
}

func newSpawner() *spawner { return &spawner{requests: make(chan func())} }

// start creates a process, which will be in a control group if one is named. It returns ctx's error if the thread is busy for longer than ctx allows.
func (s *spawner) start(ctx context.Context, path string, argv []string, group string, attr *os.ProcAttr) (*os.Process, error) {
	s.once.Do(func() { s.ended.Go(s.loop) })
	var (
		process *os.Process
		err     error
		done    = make(chan struct{})
	)
	request := func() {
		defer close(done)
		if s.guard == nil {
			process, err = os.StartProcess(path, argv, attr)
			return
		}
		// The guard stands by before there is anything to guard, and hears of it before anybody else does.
		s.guard.ready()
		if process, err = os.StartProcess(path, argv, attr); err == nil {
			s.guard.add(process.Pid, group)
		}
	}
	select {
	case s.requests <- request:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-done
	return process, err
}

// close ends the thread. No process that it started may be alive, or it would be killed.
func (s *spawner) close() {
	close(s.requests)
	s.ended.Wait()
}

// loop stays on its thread to the end and never unlocks it: with the unshared umask it may not serve other goroutines, so the
// thread ends with the goroutine.
func (s *spawner) loop() {
	runtime.LockOSThread()
	// Sockets and files of plugins are for their user alone. Where a sandbox forbids this call, the umask stays shared with the
	// whole host and must not be touched; the sockets' directory is private anyway.
	if unix.Unshare(unix.CLONE_FS) == nil {
		unix.Umask(0o077)
	}
	for request := range s.requests {
		request()
	}
}
