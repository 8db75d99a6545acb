package docker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// maxHealthMessage is how much of a check's output stands in a message, in bytes.
const maxHealthMessage = 256

// Fingerprint asks the engine who it is and what it can hold tasks to. It agrees anew on the version of the API, since another engine may be there by now.
func (d *Driver) Fingerprint(ctx context.Context) (driver.Fingerprint, error) {
	if _, err := d.engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true, ForceNegotiate: true}); err != nil {
		return driver.Fingerprint{}, fmt.Errorf("ask the engine at %s: %w", d.opts.Host, plain(err))
	}
	found, err := d.ask(ctx)
	if err != nil {
		return driver.Fingerprint{}, fmt.Errorf("ask the engine at %s: %w", d.opts.Host, err)
	}
	if found.OSType != "linux" {
		return driver.Fingerprint{}, fmt.Errorf("the engine at %s runs containers of %s; this driver runs those of linux", d.opts.Host, found.OSType)
	}
	enforced := func(is bool) string {
		if is {
			return driver.Enforced
		}
		return driver.Unenforced
	}
	return driver.Fingerprint{Attributes: map[string]string{
		"driver.docker":                "true",
		"driver.docker.version":        found.ServerVersion,
		"driver.docker.api":            d.engine.ClientVersion(),
		"driver.docker.storage":        found.Driver,
		"driver.docker.cgroup_version": cmp.Or(found.CgroupVersion, "1"),
		"driver.docker.live_restore":   strconv.FormatBool(found.LiveRestoreEnabled),
		"driver.docker.memory":         enforced(found.MemoryLimit),
		"driver.docker.cpu":            enforced(found.CPUShares),
		"driver.docker.pids":           enforced(found.PidsLimit),
	}}, nil
}

// Health is what the engine's own check found: that of the job, or of the image if the job has none.
func (d *Driver) Health(ctx context.Context, h driver.Handle) (driver.Health, error) {
	c, err := d.look(ctx, h.TaskID)
	if err != nil {
		return driver.Health{}, fmt.Errorf("check task %s: %w", h.TaskID, err)
	}
	return healthOf(c.State.Health), nil
}

func healthOf(h *container.Health) driver.Health {
	if h == nil || h.Status == container.NoHealthcheck || h.Status == "" {
		return driver.Health{}
	}
	out := driver.Health{Checked: true, Healthy: h.Status == container.Healthy, Failed: h.Status == container.Unhealthy, Message: "no check has ended yet"}
	if len(h.Log) > 0 {
		last := h.Log[len(h.Log)-1]
		out.Message = "healthy"
		if last.ExitCode != 0 {
			text := strings.Join(strings.Fields(strings.ToValidUTF8(last.Output, "")), " ")
			out.Message = fmt.Sprintf("check ended with %d: %s", last.ExitCode, text[max(0, len(text)-maxHealthMessage):])
		}
	}
	return out
}
