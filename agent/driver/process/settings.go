package process

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// defaultUmask is the mask of tasks that say nothing.
const defaultUmask = 0o022

// settings are a task's words for this driver.
type settings struct {
	// Umask is the mask of its new files' modes.
	Umask int `json:"umask"`
	// NewPrivileges lets it gain privileges by what it executes: set-user-id programs and file capabilities have their effect.
	NewPrivileges bool `json:"new_privileges,omitempty"`
}

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

func (s *settings) read(name, value string) error {
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
	default:
		return fmt.Errorf("the process driver has no setting %q; it has new_privileges and umask", name)
	}
	return nil
}

// born calls start, which makes a process that inherits the settings from the calling thread and, for the umask, from this whole process, which starts one
// task in its life and makes no file beside it.
func (s settings) born(start func() (int, error)) (pid int, err error) {
	if !s.NewPrivileges {
		// What a thread has renounced it cannot take again. It starts nothing else, so it may go back to the others.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("renounce new privileges: %w", err)
		}
	}
	mine := unix.Umask(s.Umask)
	defer unix.Umask(mine)
	return start()
}
