package compose

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (c *conversion) image() {
	s := &c.service
	if s.Provider != nil {
		return // the walk has told of it; there is nothing to run
	}
	if s.Image == "" {
		c.wrong("task.config", keys("build"), "No image", "Setpoint runs images and builds none: give the service an image that the nodes can pull.")
		return
	}
	c.set("image", s.Image, "image")
	if s.PullPolicy == "" {
		return
	}
	switch policy := s.PullPolicy; policy {
	case "always", "missing", "never":
		c.set("pull", policy, "pull_policy")
	case "if_not_present":
		c.set("pull", "missing", "pull_policy")
	case "build":
		c.lose(keys("pull_policy"), "Setpoint builds nothing")
	default:
		c.lose(keys("pull_policy"), "images are pulled always, if missing or never")
	}
}

// run reads what the container runs. Setpoint's command stands for both of the image's words; Compose gives each of them a key.
func (c *conversion) run() {
	s := &c.service
	_, cleared := c.value("entrypoint")
	switch {
	case len(s.Entrypoint) > 0:
		command := slices.Concat(s.Entrypoint, s.Command)
		c.from("task.command", "entrypoint")
		c.say(func(s *cluster.JobSpec) { s.Task.Command = command })
	case cleared && len(s.Command) > 0:
		command := slices.Clone([]string(s.Command))
		c.from("task.command", "command")
		c.say(func(s *cluster.JobSpec) { s.Task.Command = command })
	case cleared:
		c.lose(keys("entrypoint"), "the image's entrypoint runs where no command is given")
	case len(s.Command) > 0:
		c.setList("args", []string(s.Command), "command")
	default:
		if _, said := c.value("command"); said {
			c.lose(keys("command"), "the image's command cannot be emptied")
		}
	}
	if s.User != "" {
		c.from("task.user", "user")
		c.say(func(j *cluster.JobSpec) { j.Task.User = s.User })
	}
	if s.WorkingDir != "" {
		c.from("task.dir", "working_dir")
		c.say(func(j *cluster.JobSpec) { j.Task.Dir = s.WorkingDir })
	}
}

// swarmTemplate is what Swarm would put something in for, in the environment, the host's name and the sources of mounts.
var swarmTemplate = regexp.MustCompile(`\{\{[^}]*\.(Service|Task|Node)\b`)

// short is a text as it can stand in a message.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return strconv.Quote(text)
}

func (c *conversion) env() {
	c.from("task.env", "environment")
	env := make(map[string]string, len(c.service.Environment))
	for _, name := range sortedKeys(c.service.Environment) {
		value := c.service.Environment[name]
		steps := []string{"environment", name}
		if value == nil {
			c.tell(c.at(steps...), keys("environment"), true, "%s has no value where this is read, and is left out", name)
			continue
		}
		c.from(hcltext.Keyed("task.env", name), steps...)
		env[name] = *value
		if swarmTemplate.MatchString(*value) {
			c.tell(c.at(steps...), keys("environment"), false, "the template %s stays as it is written; tasks are told about themselves in variables SETPOINT_*", short(*value))
		}
	}
	if len(env) > 0 {
		c.say(func(s *cluster.JobSpec) { s.Task.Env = env })
	}
}

func (c *conversion) labels() {
	if labels := c.service.Labels; len(labels) > 0 {
		c.setList("labels", map[string]string(labels), "labels")
	}
	c.from("labels", "deploy", "labels")
	labels := make(map[string]string)
	for _, name := range sortedKeys(c.deploy().Labels) {
		value := c.deploy().Labels[name]
		steps := []string{"deploy", "labels", name}
		if err := cluster.ValidateLabelKey(name); err != nil {
			c.tell(c.at(steps...), keys("deploy.labels"), true, "a job has no such label: %v", err)
			continue
		}
		if err := cluster.ValidateLabelValue(value); err != nil {
			c.tell(c.at(steps...), keys("deploy.labels"), true, "a job has no label %s with such a value: %v", name, err)
			continue
		}
		if len(labels) == cluster.MaxLabels {
			c.tell(c.at(steps...), keys("deploy.labels"), true, "a job has %d labels at most", cluster.MaxLabels)
			break
		}
		c.from(hcltext.Keyed("labels", name), steps...)
		labels[name] = value
	}
	if len(labels) > 0 {
		c.say(func(s *cluster.JobSpec) { s.Labels = labels })
	}
}

// Docker's defaults of health checks.
const (
	healthInterval = 30 * time.Second
	healthTimeout  = 30 * time.Second
)

func (c *conversion) health() {
	h := c.service.HealthCheck
	if h == nil {
		return
	}
	steps := keys("healthcheck")
	c.from("task.health", steps...)
	off := h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE"
	var exec []string
	switch {
	case off:
		c.lose(steps, "the image's own check, if it has one, cannot be switched off")
		return
	case len(h.Test) == 0:
		c.lose(steps, "the image's own check cannot be changed in part: without a test the image's check stands as it is")
		return
	case h.Test[0] == "CMD":
		exec = slices.Clone(h.Test[1:])
	case h.Test[0] == "CMD-SHELL":
		exec = append([]string{"/bin/sh", "-c"}, h.Test[1:]...)
	default:
		c.wrong("task.health", append(steps, "test"), "Not a health check", "A list must begin with \"CMD\", \"CMD-SHELL\" or \"NONE\"; this one begins with %q.", h.Test[0])
		return
	}
	out := cluster.HealthSpec{Exec: exec, Interval: healthInterval, Timeout: healthTimeout, Retries: cluster.DefaultHealthRetries, StartPeriod: durationOf(h.StartPeriod)}
	if d := durationOf(h.Interval); d != 0 {
		out.Interval = d
	}
	if d := durationOf(h.Timeout); d != 0 {
		out.Timeout = d
	}
	if h.Retries != nil && *h.Retries != 0 {
		out.Retries = whole(*h.Retries)
	}
	for path, key := range map[string]string{"exec": "test", "interval": "interval", "timeout": "timeout", "retries": "retries", "start_period": "start_period"} {
		c.from("task.health."+path, append(steps, key)...)
	}
	c.say(func(s *cluster.JobSpec) { s.Task.Health = &out })
}

func (c *conversion) stop() {
	if signal := c.service.StopSignal; signal != "" {
		c.from("task.stop.signal", "stop_signal")
		name := strings.TrimPrefix(strings.ToUpper(signal), "SIG")
		if known, ok := signals[name]; ok {
			name = known
		}
		c.say(func(s *cluster.JobSpec) { s.Task.Stop.Signal = name })
	}
	if c.service.StopGracePeriod != nil {
		grace := durationOf(c.service.StopGracePeriod)
		c.from("task.stop.grace", "stop_grace_period")
		c.say(func(s *cluster.JobSpec) { s.Task.Stop.Grace = grace })
	}
}

// signals are those that are given as numbers now and then.
var signals = map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "15": "TERM", "28": "WINCH"}

func (c *conversion) resources() {
	d := c.deploy().Resources
	var r cluster.Resources
	reserved := keys("deploy.resources.reservations")
	c.from("task.resources", "deploy", "resources")
	if cores, ok := c.number(append(reserved, "cpus")...); ok {
		c.from("task.resources.cpu", append(reserved, "cpus")...)
		r.MilliCPU = int64(math.Round(min(max(cores, -1e9), 1e9) * 1000))
	}
	memoryAt := append(reserved, "memory")
	switch {
	case d.Reservations != nil && d.Reservations.MemoryBytes != 0:
		r.Memory = int64(d.Reservations.MemoryBytes)
	case c.service.MemReservation != 0:
		r.Memory, memoryAt = int64(c.service.MemReservation), keys("mem_reservation")
	}
	c.from("task.resources.memory", memoryAt...)
	limited := c.limits()
	if r.Memory > 0 && !limited {
		c.set("memory_limit", "none", memoryAt...)
	}
	if d.Reservations != nil {
		for i, each := range d.Reservations.GenericResources {
			at := append(reserved, "generic_resources", strconv.Itoa(i))
			if each.DiscreteResourceSpec == nil {
				c.lose(at, "units are counted; this one has no number")
				continue
			}
			name := strings.ToLower(each.DiscreteResourceSpec.Kind)
			if r.Units == nil {
				r.Units = make(map[string]int64)
			}
			c.from(hcltext.Keyed("task.resources.units", name), at...)
			r.Units[name] += each.DiscreteResourceSpec.Value
		}
	}
	c.say(func(s *cluster.JobSpec) { s.Task.Resources = r })
}

// limits reads what the tasks may have at most, and reports whether memory is limited.
func (c *conversion) limits() bool {
	d := c.deploy().Resources
	limits := keys("deploy.resources.limits")
	for _, steps := range [][]string{append(limits, "cpus"), keys("cpus")} {
		if cores, ok := c.number(steps...); ok && cores > 0 {
			c.set("cpu_limit", strconv.FormatFloat(max(math.Round(cores*1000)/1000, 0.01), 'f', -1, 64), steps...)
			break
		}
	}
	memory := false
	switch {
	case d.Limits != nil && d.Limits.MemoryBytes > 0:
		c.set("memory_limit", hcltext.FormatBytes(int64(d.Limits.MemoryBytes)), append(limits, "memory")...)
		memory = true
	case c.service.MemLimit > 0:
		c.set("memory_limit", hcltext.FormatBytes(int64(c.service.MemLimit)), "mem_limit")
		memory = true
	}
	switch {
	case d.Limits != nil && d.Limits.Pids > 0:
		c.set("pids", strconv.FormatInt(d.Limits.Pids, 10), append(limits, "pids")...)
	case c.service.PidsLimit > 0:
		c.set("pids", strconv.FormatInt(c.service.PidsLimit, 10), "pids_limit")
	}
	return memory
}

func (c *conversion) network() {
	s := &c.service
	switch mode := s.NetworkMode; mode {
	case "":
	case "host", "none", "bridge":
		c.set("network", mode, "network_mode")
	default:
		c.lose(keys("network_mode"), "a task has a network of its own, or that of its node")
	}
	if s.Hostname != "" {
		if swarmTemplate.MatchString(s.Hostname) {
			c.lose(keys("hostname"), "the template %s cannot be kept", short(s.Hostname))
		} else {
			c.set("hostname", s.Hostname, "hostname")
		}
	}
	if hosts := s.ExtraHosts.AsList("="); len(hosts) > 0 {
		all := make(map[string][]string)
		for _, each := range hosts {
			name, address, _ := strings.Cut(each, "=")
			all[name] = append(all[name], address)
		}
		c.setList("extra_hosts", all, "extra_hosts")
	}
}

func (c *conversion) logging() {
	l := c.service.Logging
	if l == nil {
		return
	}
	switch l.Driver {
	case "", "json-file":
	case "local":
		c.hint(keys("logging.driver"), "output is kept by json-file")
	default:
		c.lose(keys("logging.driver"), "output is kept on the node, by json-file; `setpoint task logs` reads it")
		return
	}
	for _, name := range sortedKeys(l.Options) {
		steps := []string{"logging", "options", name}
		switch name {
		case "max-size":
			n, ok := dockerBytes(l.Options[name])
			if !ok {
				c.wrong("task.config", steps, "Not a size", "%q is no size such as 10m.", l.Options[name])
				continue
			}
			c.set("log_file_size", hcltext.FormatBytes(max(n, 64<<10)), steps...)
		case "max-file":
			c.set("log_files", l.Options[name], steps...)
		default:
			c.tell(c.at(steps...), keys("logging.options"), true, "%s is nothing that can be said here", name)
		}
	}
}

func (c *conversion) privileges() {
	s := &c.service
	// Containers of Compose can gain privileges by set-user-id programs, those of Setpoint's only if it is said.
	more := true
	for i, each := range s.SecurityOpt {
		switch strings.ReplaceAll(each, "=", ":") {
		case "no-new-privileges", "no-new-privileges:true":
			more = false
		case "no-new-privileges:false":
		default:
			c.lose([]string{"security_opt", strconv.Itoa(i)}, "%s is nothing that can be said here", each)
		}
	}
	if more {
		c.set("new_privileges", "true", "security_opt")
	}
	if len(s.CapAdd) > 0 {
		c.setList("cap_add", sortedCopy(s.CapAdd), "cap_add")
	}
	if len(s.CapDrop) > 0 {
		c.setList("cap_drop", sortedCopy(s.CapDrop), "cap_drop")
	}
	if s.Init != nil && *s.Init {
		c.set("init", "true", "init")
	}
	if s.ReadOnly {
		c.set("read_only", "true", "read_only")
	}
	if s.ShmSize > 0 {
		c.set("shm_size", hcltext.FormatBytes(int64(s.ShmSize)), "shm_size")
	}
	limits := make(map[string]string)
	for _, name := range sortedKeys(s.Ulimits) {
		u := s.Ulimits[name]
		if u.Single != 0 || u.Soft == 0 && u.Hard == 0 {
			limits[name] = ulimit(u.Single)
			continue
		}
		limits[name] = fmt.Sprintf("%s:%s", ulimit(u.Soft), ulimit(u.Hard))
	}
	if len(limits) > 0 {
		c.setList("ulimits", limits, "ulimits")
	}
}

func ulimit(n int) string {
	if n < 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}
