package jobfile

import (
	"fmt"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Format writes a job as a job file that Parse reads as the same job. What has its default is left out. The error says which settings of a plugin cannot
// stand in HCL: those that are no JSON object, or have keys that are no names.
func Format(s cluster.JobSpec) ([]byte, error) {
	settings, err := readSettings(s.Plugins)
	if err != nil {
		return nil, fmt.Errorf("format job %s: %w", s.Name, err)
	}
	defaults := cluster.JobSpec{Type: s.Type, Restart: cluster.RestartSpec{Delay: s.Restart.Delay}}.WithDefaults()
	job := newSection("job", s.Name)
	job.job(&s, &defaults)
	constraints, settings := splitConstraints(settings)
	if constraints != cty.NilVal {
		job.value("constraints", constraints)
	}
	job.add(taskSection(&s.Task, &defaults.Task), true)
	for _, spread := range s.Spread {
		job.add(spreadSection(spread), true)
	}
	job.add(updateSection(s.Update, defaults.Update), false)
	job.add(restartSection(s.Restart, defaults.Restart), false)
	for _, p := range settings {
		job.add(pluginSection(p), true)
	}
	file := hclwrite.NewEmptyFile()
	file.Body().AppendBlock(job.block)
	return hclwrite.Format(file.Bytes()), nil
}

func (w *section) job(s, d *cluster.JobSpec) {
	text(w, "type", s.Type, "")
	number(w, "count", s.Count, d.Count)
	number(w, "parallelism", s.Parallelism, d.Parallelism)
	number(w, "priority", s.Priority, d.Priority)
	w.texts("labels", s.Labels)
	if s.MaxUnavailable != d.MaxUnavailable {
		w.value("max_unavailable", amountValue(s.MaxUnavailable))
	}
	number(w, "max_per_node", s.MaxPerNode, d.MaxPerNode)
	text(w, "on_drift", s.OnDrift, d.OnDrift)
	text(w, "on_lost", s.OnLost, d.OnLost)
	w.duration("lost_after", s.LostAfter, d.LostAfter)
	text(w, "on_drain", s.OnDrain, d.OnDrain)
	text(w, "strategy", s.Strategy, d.Strategy)
	number(w, "history_limit", s.HistoryLimit, d.HistoryLimit)
}

func amountValue(a cluster.Amount) cty.Value {
	if a.Percent != 0 {
		return cty.StringVal(fmt.Sprintf("%d%%", a.Percent))
	}
	return cty.NumberIntVal(int64(a.Count))
}

func taskSection(t, d *cluster.TaskSpec) *section {
	w := newSection("task")
	text(w, "driver", t.Driver, d.Driver)
	w.list("command", t.Command)
	text(w, "dir", t.Dir, d.Dir)
	text(w, "user", t.User, d.User)
	w.texts("env", t.Env)
	w.settings("config", t.Config)
	w.add(resourcesSection(t.Resources), false)
	for _, p := range t.Ports {
		port := newSection("port", p.Name)
		number(port, "static", p.Static, 0)
		w.add(port, true)
	}
	for _, a := range t.Addresses {
		address := newSection("address", a.Name)
		text(address, "pool", a.Pool, "")
		w.add(address, true)
	}
	for _, s := range t.Secrets {
		w.add(secretSection(s), true)
	}
	stop := newSection("stop")
	text(stop, "signal", t.Stop.Signal, d.Stop.Signal)
	stop.duration("grace", t.Stop.Grace, d.Stop.Grace)
	stop.duration("after_disconnect", t.Stop.AfterDisconnect, d.Stop.AfterDisconnect)
	w.add(stop, false)
	if t.Health != nil {
		w.add(healthSection(t.Health), true)
	}
	return w
}

func resourcesSection(r cluster.Resources) *section {
	w := newSection("resources")
	if r.MilliCPU != 0 {
		w.value("cpu", milliValue(r.MilliCPU))
	}
	if r.Memory != 0 {
		w.value("memory", cty.StringVal(hcltext.FormatBytes(r.Memory)))
	}
	if len(r.Units) > 0 {
		units := make(map[string]cty.Value, len(r.Units))
		for _, name := range r.UnitNames() {
			units[name] = cty.NumberIntVal(r.Units[name])
		}
		w.value("units", cty.ObjectVal(units))
	}
	return w
}

// milliValue writes thousandths as a number with at most three decimals.
func milliValue(n int64) cty.Value {
	return cty.MustParseNumberVal(fmt.Sprintf("%d.%03d", n/1000, n%1000))
}

func healthSection(h *cluster.HealthSpec) *section {
	d := cluster.JobSpec{Task: cluster.TaskSpec{Health: &cluster.HealthSpec{}}}.WithDefaults().Task.Health
	w := newSection("health")
	w.list("exec", h.Exec)
	text(w, "http", h.HTTP, d.HTTP)
	text(w, "tcp", h.TCP, d.TCP)
	w.duration("interval", h.Interval, d.Interval)
	w.duration("timeout", h.Timeout, d.Timeout)
	w.duration("start_period", h.StartPeriod, d.StartPeriod)
	number(w, "retries", h.Retries, d.Retries)
	return w
}

func spreadSection(s cluster.Spread) *section {
	w := newSection("spread")
	text(w, "attribute", s.Attribute, "")
	if len(s.Targets) > 0 {
		shares := make(map[string]cty.Value, len(s.Targets))
		for _, t := range s.Targets {
			shares[t.Value] = cty.NumberIntVal(int64(t.Percent))
		}
		w.value("targets", cty.ObjectVal(shares))
	}
	return w
}

func updateSection(u, d cluster.UpdateSpec) *section {
	w := newSection("update")
	number(w, "parallelism", u.Parallelism, d.Parallelism)
	w.duration("delay", u.Delay, d.Delay)
	text(w, "order", u.Order, d.Order)
	w.duration("monitor", u.Monitor, d.Monitor)
	text(w, "on_failure", u.OnFailure, d.OnFailure)
	if u.MaxFailureRatio != d.MaxFailureRatio {
		w.value("max_failure_ratio", cty.MustParseNumberVal(strconv.FormatFloat(u.MaxFailureRatio, 'f', -1, 64)))
	}
	w.duration("progress_deadline", u.ProgressDeadline, d.ProgressDeadline)
	return w
}

func restartSection(r, d cluster.RestartSpec) *section {
	w := newSection("restart")
	text(w, "condition", r.Condition, d.Condition)
	w.duration("delay", r.Delay, cluster.DefaultRestartDelay)
	w.duration("max_delay", r.MaxDelay, d.MaxDelay)
	number(w, "attempts", r.Attempts, d.Attempts)
	w.duration("window", r.Window, d.Window)
	return w
}
