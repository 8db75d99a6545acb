package docker

import (
	"context"
	"os"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/setpointd/setpoint/agent/driver"
)

// secretsDir is where a container finds its secrets.
const secretsDir = "/run/secrets"

// mountSecrets has the engine mount the files where containers look for them, and says so to the task. They stay where they are, in memory.
func mountSecrets(s driver.Secrets, config *container.Config, host *container.HostConfig) {
	if s.Dir == "" {
		return
	}
	config.Env = append(config.Env, driver.SecretsDirEnv+"="+secretsDir)
	host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: s.Dir, Target: secretsDir, ReadOnly: true})
}

// giveSecrets makes the files those of the user as whom the container runs, as far as that has a number: names mean what the image says, and stand for root here. An agent that is
// not root keeps what is root's for itself: root in the container reads it all the same.
func (d *Driver) giveSecrets(ctx context.Context, spec driver.Spec, image string) error {
	if spec.Secrets.Dir == "" {
		return nil
	}
	who := spec.User
	if who == "" {
		found, err := d.engine.ImageInspect(ctx, image)
		if err != nil {
			return plain(err)
		}
		if found.Config != nil {
			who = found.Config.User
		}
	}
	uid, gid, err := driver.ParseOwner(who, 0)
	if err != nil || uid == 0 {
		uid, gid = os.Geteuid(), os.Getegid()
	}
	if err := spec.Secrets.Give(uid, gid); err != nil {
		return &refusal{driver.RejectRefusedBySystem, err.Error()}
	}
	return nil
}
