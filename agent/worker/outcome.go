package worker

import (
	"fmt"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// outcome says how the task ended, by what is known of it.
func (t *task) outcome(v view) state.Status {
	if v.runtime == absent {
		switch {
		case !v.wanted && v.observed == cluster.Running:
			return state.Status{State: cluster.Stopped, Message: "stopped; its end was not seen", ExitCode: driver.ExitUnknown}
		case !v.wanted:
			return state.Status{State: cluster.Stopped, Message: "told to stop before it was started"}
		case v.refused:
			return state.Status{State: cluster.Rejected, Err: t.refusal}
		case v.startErr:
			return state.Status{State: cluster.Failed, Err: "it could not be started: " + t.startErr.Error()}
		}
		return state.Status{State: cluster.Failed, Err: "its driver does not know it any more", ExitCode: driver.ExitUnknown}
	}
	out := state.Status{ExitCode: t.exit.Code}
	switch {
	case v.sick:
		out.State, out.Err = cluster.Failed, "health check failed: "+t.sick
	case t.order.given || t.revived && !v.wanted:
		out.State, out.Message, out.Err = cluster.Stopped, "stopped", t.exit.Err
		if t.fenced || v.fenced {
			out.Message = "stopped: no server was heard for too long"
		}
		switch {
		case t.exit.Signal != "KILL":
		case t.order.given && t.order.shortest <= 0:
			out.Message = "killed"
		default:
			out.Message = "killed: it did not end within its grace"
		}
	case t.exit.Code == 0:
		out.State, out.Message, out.Err = cluster.Complete, "ended by itself", t.exit.Err
	default:
		out.State, out.Err = cluster.Failed, failure(t.exit)
	}
	return out
}

// failure says why a task ended that nobody stopped.
func failure(e driver.Exit) string {
	var out string
	switch {
	case e.OOM && (e.Signal == "KILL" || e.Code == driver.ExitUnknown):
		out = "killed by the kernel: out of memory"
	case e.Code == driver.ExitUnknown:
		out = "its end was not seen"
	case e.Signal != "":
		out = "ended by signal " + e.Signal
	default:
		out = fmt.Sprintf("exit code %d", e.Code)
	}
	if e.OOM && e.Signal != "KILL" && e.Code != driver.ExitUnknown {
		out += "; the kernel had killed a process of it: out of memory"
	}
	if e.Err != "" {
		out += ": " + e.Err
	}
	return out
}
