package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fenced is a task that is to stop when no server was heard for a minute.
func fenced(task cluster.TaskID) state.Assignment {
	a := wanted(task, map[string]string{"stop_delay": "2s"})
	a.Spec.Stop.AfterDisconnect = time.Minute
	return a
}

const plain = cluster.TaskID("api/1/5")

func TestStopsWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer func() { b.close() }()
		if b.set.Fenced() {
			t.Error("no task asks to be stopped, and the set says that one does")
		}
		b.set.Reached()
		b.apply(full(5, fenced(web), wanted(plain, nil)))
		b.want(web, cluster.Running)
		if !b.set.Fenced() {
			t.Error("a task asks to be stopped, and the set does not say so")
		}

		// A server that comes back in time has the task run on.
		b.set.Cut(bootClock())
		time.Sleep(59 * time.Second)
		b.set.Reached()
		time.Sleep(time.Hour)
		b.want(web, cluster.Running)

		b.set.Cut(bootClock())
		time.Sleep(59 * time.Second)
		b.want(web, cluster.Running)
		time.Sleep(4 * time.Second) // it looks once a second, and the task takes two to stop
		if got := b.want(web, cluster.Stopped); got.Message != "stopped: no server was heard for too long" || got.Err != "" {
			t.Errorf("it is %q, %q", got.Message, got.Err)
		}
		b.want(plain, cluster.Running)
		if b.set.Fenced() {
			t.Error("the one task that asked for it has stopped")
		}

		// The server's return starts nothing again: that is for the server to decide.
		b.set.Reached()
		time.Sleep(time.Minute)
		b.want(web, cluster.Stopped)
		if n := b.count(web, sim.Started); n != 1 {
			t.Errorf("it was started %d times", n)
		}
	})
}

// What was cut before the agent's restart is counted on, and a stop that went on then is no failure.
func TestStopsWithoutAServerAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open()
		defer func() { b.close() }()
		b.apply(full(5, fenced(web)))
		b.want(web, cluster.Running)
		b.cut = bootClock()
		b.set.Cut(b.cut)
		time.Sleep(50 * time.Second)
		b.close()
		b.open()
		b.want(web, cluster.Running)
		time.Sleep(11*time.Second + 500*time.Millisecond) // the stop goes on
		b.close()
		time.Sleep(10 * time.Second)
		b.open()
		if got := b.want(web, cluster.Stopped); got.Message != "stopped: no server was heard for too long" {
			t.Errorf("it is %q, %q", got.Message, got.Err)
		}
	})
}
