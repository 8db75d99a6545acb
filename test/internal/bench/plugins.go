package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PluginProcess is a process of a plugin, or one that a plugin started.
type PluginProcess struct {
	PID    int
	Plugin bool // a plugin itself
	Name   string
}

// PluginProcesses returns the living processes of plugins and of what they started, wherever these are now: all have been told of the server's directory of
// sockets.
func (c *Cluster) PluginProcesses() []PluginProcess {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	sockets, err := filepath.EvalSymlinks(c.path("server/plugins")) // a server that is root has a link there
	if err != nil {
		return nil
	}
	var out []PluginProcess
	for _, path := range entries {
		environ, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(environ), "="+sockets) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if _, alive := ReadStat(pid); err != nil || !alive {
			continue
		}
		name := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
		plugin := slices.Contains([]string{filepath.Base(c.bin.Plugin), filepath.Base(c.bin.Setpoint), "setpoint-plugin"}, name)
		out = append(out, PluginProcess{PID: pid, Plugin: plugin, Name: name})
	}
	return out
}
