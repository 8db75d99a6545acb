package docker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

const (
	// leastLog is the smallest size of a file of output, in bytes.
	leastLog = 64 << 10
	// leastMemory is the smallest limit of memory that engines take.
	leastMemory = 6 << 20
	// sharesPerCore is the weight of a task that reserved a whole core.
	sharesPerCore = 1024
	// leastShares is the smallest weight that there is.
	leastShares = 2
)

// plan returns the container that the specification asks for. Its errors are about the specification.
func (d *Driver) plan(spec driver.Spec, s settings, engine *system.Info) (client.ContainerCreateOptions, error) {
	exposed, bindings, err := s.published(spec.Ports)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	grace := int(spec.Grace().Seconds() + 0.999) // counted in seconds, by an engine that goes down with its machine
	config := &container.Config{
		Image: s.Image, User: spec.User, WorkingDir: spec.Dir, Entrypoint: spec.Command, Cmd: s.Args, Env: environ(spec.Env),
		Hostname: s.Hostname, ExposedPorts: exposed, Labels: d.labels(spec, s.Labels), StopSignal: spec.StopSignal, StopTimeout: &grace, Healthcheck: healthcheck(spec.Health),
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(s.Network), PortBindings: bindings, RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapAdd: s.CapAdd, CapDrop: s.CapDrop, ReadonlyRootfs: s.ReadOnly, ShmSize: s.ShmSize, Resources: resources(spec.Resources, s, engine),
		ExtraHosts: s.hosts(),
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{
			"max-size": strconv.FormatInt(cmp.Or(s.Log.MaxBytes, d.opts.Log.MaxBytes), 10), "max-file": strconv.Itoa(cmp.Or(s.Log.MaxFiles, d.opts.Log.MaxFiles)),
		}},
	}
	if !s.NewPrivileges {
		host.SecurityOpt = []string{"no-new-privileges"}
	}
	if s.Init {
		host.Init = &s.Init
	}
	for i := range s.Mounts {
		m, err := s.Mounts[i].mount()
		if err != nil {
			return client.ContainerCreateOptions{}, err
		}
		host.Mounts = append(host.Mounts, m)
	}
	mountSecrets(spec.Secrets, config, host)
	return client.ContainerCreateOptions{Name: d.container(spec.TaskID), Config: config, HostConfig: host}, nil
}

func environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func (d *Driver) labels(spec driver.Spec, more map[string]string) map[string]string {
	out := map[string]string{labelTask: spec.TaskID, labelOwner: d.owner}
	maps.Copy(out, more)
	for name, value := range spec.Labels {
		if name = labelPrefix + name; out[name] == "" {
			out[name] = value
		}
	}
	return out
}

// resources are the container's limits, as far as the engine can hold the task to them.
func resources(r driver.Resources, s settings, engine *system.Info) container.Resources {
	out := container.Resources{Ulimits: s.Ulimits}
	if memory := cmp.Or(s.Memory, r.MemoryBytes); memory > 0 && engine.MemoryLimit {
		out.Memory = max(memory, leastMemory)
		if engine.SwapLimit {
			out.MemorySwap = out.Memory // of both together: it gets no swap
		}
	}
	if r.CPUMilli > 0 && engine.CPUShares {
		out.CPUShares = max(r.CPUMilli*sharesPerCore/1000, leastShares)
	}
	if s.CPU > 0 && engine.CPUCfsQuota {
		out.NanoCPUs = s.CPU * 1_000_000
	}
	if s.Pids > 0 && engine.PidsLimit {
		out.PidsLimit = &s.Pids
	}
	return out
}

// unenforced says what of the specification this engine does not hold the task to.
func unenforced(r driver.Resources, s settings, engine *system.Info) []string {
	var out []string
	for _, limit := range []struct {
		name      string
		asked, is bool
	}{
		{"cpu", r.CPUMilli > 0, engine.CPUShares},
		{"cpu_limit", s.CPU > 0, engine.CPUCfsQuota},
		{"memory", cmp.Or(s.Memory, r.MemoryBytes) > 0, engine.MemoryLimit},
		{"pids", s.Pids > 0, engine.PidsLimit},
	} {
		if limit.asked && !limit.is {
			out = append(out, fmt.Sprintf("%s: the engine has no control group for it", limit.name))
		}
	}
	return out
}

// healthcheck tells the engine what to check. Without a word of the job, the image's own check stands.
func healthcheck(h *driver.HealthCheck) *container.HealthConfig {
	switch {
	case h == nil:
		return nil
	case len(h.Exec) == 0:
		return &container.HealthConfig{Test: []string{"NONE"}}
	}
	return &container.HealthConfig{
		Test: append([]string{"CMD"}, h.Exec...), Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries,
	}
}
