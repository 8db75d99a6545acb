package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/cgroup"
)

// groupPrefix begins the names of control groups, so that what a killed host has left can be told.
const groupPrefix = "setpoint-plugin-"

// controlGroup is a control group of one plugin process and all that it starts: these end together, and their memory may be limited together.
type controlGroup struct {
	cgroup.Group
	kind string // of what holds the limit, or else ends it: cgroup v2 or cgroup v1
}

// newGroup makes a group below the one of this process, of either version, with a limit of memory unless that is 0.
func newGroup(name string, limit int64) (*controlGroup, error) {
	tree, err := cgroup.Find("")
	if err != nil {
		return nil, err
	}
	g, lacks, err := tree.Make(name, cgroup.Limits{Memory: limit})
	if err != nil {
		return nil, err
	}
	if err := lacks[cgroup.Memory]; err != nil {
		return nil, errors.Join(fmt.Errorf("limit memory: %w", err), g.Remove())
	}
	deciding := g.Dirs[0] // by which it is ended
	if limit > 0 {
		deciding = g.Dirs[len(g.Dirs)-1]
	}
	return &controlGroup{Group: g, kind: "cgroup " + cgroup.At(deciding).Version()}, nil
}

// pathSeparator stands between the directories of a group in a guard's note.
const pathSeparator = "\t"

// path names the group for the guard; "" without a group.
func (g *controlGroup) path() string {
	if g == nil {
		return ""
	}
	return strings.Join(g.Dirs, pathSeparator)
}

// killed reports whether the kernel killed a process of the group because of the limit.
func (g *controlGroup) killed() bool { return g.OOMKills() > 0 }

// endLimit is for how long a group's processes are killed that do not end together.
const endLimit = 200 * time.Millisecond

// sweepGroups removes what a killed host has left. Groups in use cannot be removed.
func sweepGroups() {
	tree, err := cgroup.Find("")
	if err != nil {
		return
	}
	for _, name := range tree.Names(groupPrefix) {
		for _, dir := range tree.Group(name).Dirs {
			_ = os.Remove(dir)
		}
	}
}
