package daemon

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/user"
	"strconv"

	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
)

// ConfineCommand is the first argument with which a server executes its own binary to start a plugin confined.
const ConfineCommand = "plugin-exec"

// Users of plugins' own are taken from those that systemd gives to services which have none, and which belong to nobody.
const (
	firstOwnUser = 61184
	ownUsers     = 65519 - firstOwnUser + 1
)

// confinement returns what a plugin may do.
func confinement(p *config.Plugin) (runner.Confinement, error) {
	out := runner.Confinement{
		Level: runner.SandboxLevel(p.Sandbox.Level), Memory: p.MaxMemory, Read: p.Sandbox.Read, Write: p.Sandbox.Write, Network: p.Sandbox.Network,
	}
	switch {
	case p.User != "":
		u, err := lookUp(p.User)
		if err != nil {
			return out, fmt.Errorf("plugin %s: user %q: %w", p.Name, p.User, err)
		}
		out.User = u
	case os.Geteuid() == 0 && out.Level != runner.SandboxOff:
		out.User, out.UserIfPossible = ownUser(p.Name), true
	}
	return out, nil
}

// lookUp finds a user of this machine by name or number. The number of one that it does not know is taken as it is.
func lookUp(name string) (*runner.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		id, notNumber := strconv.Atoi(name)
		if notNumber != nil || id < 0 {
			return nil, err
		}
		if u, err = user.LookupId(name); err != nil {
			return &runner.User{Name: name, UID: id, GID: id}, nil //nolint:nilerr // a number needs no name
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &runner.User{Name: u.Username, UID: uid, GID: gid}, nil
}

// ownUser returns the user of a plugin's own, which is always the same for a name.
func ownUser(plugin string) *runner.User {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(plugin))
	id := firstOwnUser + int(sum.Sum32()%ownUsers)
	return &runner.User{Name: strconv.Itoa(id), UID: id, GID: id}
}
