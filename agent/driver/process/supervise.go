package process

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// A stopOrder asks for the task's end.
type stopOrder struct {
	signal syscall.Signal
	grace  time.Duration
}

// A watch is the state of one task's supervision; main is the task's first process. Owner: one goroutine.
type watch struct {
	reaper
	shim *shim

	stopping bool
	deadline time.Time
	timer    *time.Timer
}

// supervise reaps and obeys stop orders until the task's first process has ended, and then kills all that it left behind.
func (s *shim) supervise(signals <-chan os.Signal) driver.Exit {
	w := &watch{reaper: reaper{main: s.record.Task.Pid}, shim: s, timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	defer w.timer.Stop()
	for w.reap(); !w.ended; w.reap() {
		select {
		case sig := <-signals:
			if sig == unix.SIGTERM { // the machine goes down
				term, err := parseSignal(s.intent.Spec.StopSignal)
				if err != nil {
					term = unix.SIGTERM
				}
				w.stop(stopOrder{signal: term, grace: s.intent.Spec.Grace()})
			}
		case order := <-s.stops:
			w.stop(order)
		case <-w.timer.C:
			w.kill()
		}
	}
	exit := driver.Exit{Started: s.record.Started, Finished: time.Now(), Code: w.code()}
	if w.status.Signaled() {
		exit.Signal = signalName(w.status.Signal())
	}
	if left := w.sweep(signals); left > 0 {
		exit.Err = fmt.Sprintf("%d processes of the task could not be killed within %v", left, killTimeout)
	}
	exit.OOM = s.intent.Group.OOMKills() > 0
	return exit
}

// stop signals the task's process group on the first order. Later ones only bring the kill forward.
func (w *watch) stop(order stopOrder) {
	if order.grace <= 0 {
		w.kill()
		return
	}
	deadline := time.Now().Add(order.grace)
	if !w.stopping {
		w.stopping = true
		_ = unix.Kill(-w.main, order.signal) // main is not reaped, so the group is the task's
	} else if !deadline.Before(w.deadline) {
		return
	}
	w.deadline = deadline
	w.timer.Reset(order.grace)
}

// kill kills the process group, and with it the first process, and what has left it in the control group; what is left of that follows in sweep.
func (w *watch) kill() {
	w.stopping, w.deadline = true, time.Now()
	_ = unix.Kill(-w.main, unix.SIGKILL)
	w.shim.intent.Group.Kill()
}

// sweep kills all that is left, in the control group and below this process, and returns how many it could not kill in time.
func (w *watch) sweep(signals <-chan os.Signal) int {
	boot := w.shim.record.Shim.Boot
	pause := time.Millisecond
	for end := time.Now().Add(killTimeout); ; {
		w.reap()
		members := len(w.shim.intent.Group.Processes())
		if w.alone && members == 0 {
			return 0
		}
		w.shim.intent.Group.Kill()
		left, err := descendants(os.Getpid(), boot)
		if err == nil {
			for _, id := range left {
				id.signal(boot, unix.SIGKILL)
			}
		}
		if time.Now().After(end) {
			return max(1, len(left), members)
		}
		timer := time.NewTimer(pause)
		select {
		case <-signals:
		case <-w.shim.stops: // the rest is being killed already
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, 100*time.Millisecond)
	}
}
