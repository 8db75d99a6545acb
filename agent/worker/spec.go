package worker

import (
	"maps"
	"strconv"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// environment is what a task is told besides what its job says: who it is, where it runs, its ports and its addresses.
func environment(a *state.Assignment, node string) map[string]string {
	env := make(map[string]string, len(a.Spec.Env)+len(a.Ports)+len(a.Addresses)+4)
	maps.Copy(env, a.Spec.Env)
	env[cluster.EnvPrefix+"TASK_ID"] = string(a.Task)
	env[cluster.EnvPrefix+"JOB"] = a.Job
	env[cluster.EnvPrefix+"SLOT"] = string(a.Slot)
	env[cluster.EnvPrefix+"NODE"] = node
	for _, p := range a.Ports {
		env[cluster.EnvPrefix+"PORT_"+p.Name] = strconv.Itoa(int(p.Number))
	}
	for _, g := range a.Addresses {
		env[cluster.EnvPrefix+"ADDRESS_"+g.Name] = g.Address
	}
	return env
}

// driverSpec returns what a driver needs to run the task. The assignment has a specification.
func driverSpec(a *state.Assignment, node, cluster string) driver.Spec {
	s := a.Spec
	out := driver.Spec{
		TaskID: string(a.Task), Command: s.Command, Env: environment(a, node), Dir: s.Dir, User: s.User,
		StopSignal: s.Stop.Signal, StopGrace: s.Stop.Grace,
		Resources: driver.Resources{CPUMilli: s.Resources.MilliCPU, MemoryBytes: s.Resources.Memory},
		Settings:  s.Config,
		Labels:    map[string]string{"cluster": cluster, "node": node, "job": a.Job, "slot": string(a.Slot)},
	}
	for _, p := range a.Ports {
		out.Ports = append(out.Ports, driver.Port{Name: p.Name, Number: p.Number})
	}
	if h := s.Health; h != nil {
		out.Health = &driver.HealthCheck{Exec: h.Exec, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	}
	return out
}

// grace returns how long a task may take to stop: what the order to stop says, or else its specification.
func grace(a *state.Assignment) time.Duration {
	switch {
	case !a.Desired.Wanted() && a.Grace >= 0:
		return a.Grace
	case a.Spec != nil:
		return a.Spec.Stop.Grace
	}
	return driver.DefaultStopGrace
}
