package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/agent/driver"
)

// defaultUmask is the mask of tasks that say nothing.
const defaultUmask = 0o022

// settings are a task's words for this driver.
type settings struct {
	// Umask is the mask of its new files' modes.
	Umask int `json:"umask"`
	// NewPrivileges lets it gain privileges by what it executes: set-user-id programs and file capabilities have their effect.
	NewPrivileges bool `json:"new_privileges,omitempty"`
	// Limits are those of its processes, one by one.
	Limits []rlimit `json:"limits,omitempty"`

	// The rest is used before the start and not by the shim.

	memory int64 // bytes; 0: what is reserved
	cpu    int64 // thousandths of a core at most; 0: no limit
	pids   int64 // processes and threads at a time; 0: no limit
	log    LogLimits
}

// settingNames are all that there are besides the names of limits.
var settingNames = []string{"cpu_limit", "log_file_size", "log_files", "memory_limit", "new_privileges", "pids", "umask"}

// parseSettings reads settings. All that is wrong is in the error, in the order of the settings' names.
func parseSettings(words map[string]string) (settings, error) {
	out := settings{Umask: defaultUmask}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(words)) {
		if err := out.read(name, words[name]); err != nil {
			problems = append(problems, err)
		}
	}
	return out, errors.Join(problems...)
}

func (s *settings) read(name, value string) (err error) {
	switch name {
	case "umask":
		mask, err := strconv.ParseUint(value, 8, 32)
		if err != nil || mask > 0o777 {
			return fmt.Errorf("umask is %q, not an octal number up to 777", value)
		}
		s.Umask = int(mask)
	case "new_privileges":
		allowed, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("new_privileges is %q, neither true nor false", value)
		}
		s.NewPrivileges = allowed
	case "memory_limit":
		s.memory, err = atLeast(name, value, driver.ParseBytes, 1<<20, "an amount such as 512MiB, of a mebibyte at least")
	case "cpu_limit":
		s.cpu, err = atLeast(name, value, driver.ParseCores, 10, "a number of cores such as 1.5, of a hundredth at least")
	case "pids":
		s.pids, err = atLeast(name, value, parseCount, 1, "a number of processes and threads, of one at least")
	case "log_file_size":
		s.log.MaxBytes, err = atLeast(name, value, driver.ParseBytes, minLogBytes, "an amount such as 10MiB, of 64KiB at least")
	case "log_files":
		files, problem := atLeast(name, value, parseCount, minLogFiles, "a number of files, of two at least")
		s.log.MaxFiles, err = int(files), problem
	default:
		resource, known := rlimits[name]
		if !known {
			names := slices.Concat(settingNames, slices.Collect(maps.Keys(rlimits)))
			slices.Sort(names)
			return fmt.Errorf("the process driver has no setting %q; it has %s", name, strings.Join(names, ", "))
		}
		limit, err := parseRlimit(resource, name, value)
		if err != nil {
			return err
		}
		s.Limits = append(s.Limits, limit)
	}
	return err
}

// atLeast reads a number and holds it to a minimum; what says what it should be.
func atLeast(name, value string, parse func(string) (int64, bool), least int64, what string) (int64, error) {
	n, ok := parse(value)
	if !ok || n < least {
		return 0, fmt.Errorf("%s is %q, not %s", name, value, what)
	}
	return n, nil
}

// parseCount reads a number that an int holds on every machine.
func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return n, err == nil
}
