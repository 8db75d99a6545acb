package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// A script is a task's settings, understood.
type script struct {
	startDelay, stopDelay        time.Duration
	runFor                       *time.Duration
	exitCode                     int
	oom                          bool // the kernel's hand is in its end
	reject, failStart            string
	healthyAfter, unhealthyAfter *time.Duration
	stdout, stderr               []string
	logEvery                     time.Duration
	checked                      bool // health is scripted
}

// parseScript reads the settings. All that is wrong is in the error, in the order of the settings' names.
func parseScript(settings map[string]string) (script, error) {
	var s script
	var problems []string
	duration := func(name string) time.Duration {
		d, err := time.ParseDuration(settings[name])
		if err != nil || d < 0 {
			problems = append(problems, fmt.Sprintf("%s = %q is not a duration such as 1.5s", name, settings[name]))
		}
		return d
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		switch name {
		case "start_delay":
			s.startDelay = duration(name)
		case "stop_delay":
			s.stopDelay = duration(name)
		case "run_for":
			s.runFor = new(duration(name))
		case "exit_code":
			n, err := strconv.ParseUint(value, 10, 8)
			if err != nil {
				problems = append(problems, fmt.Sprintf("exit_code = %q is not a number from 0 to 255", value))
			}
			if _, ends := settings["run_for"]; !ends {
				problems = append(problems, "exit_code needs run_for")
			}
			s.exitCode = int(n)
		case "oom":
			oom, err := strconv.ParseBool(value)
			if err != nil {
				problems = append(problems, fmt.Sprintf("oom = %q is neither true nor false", value))
			}
			if _, ends := settings["run_for"]; !ends {
				problems = append(problems, "oom needs run_for")
			}
			s.oom = oom
		case "reject":
			s.reject = value
		case "fail_start":
			s.failStart = value
		case "healthy_after":
			s.healthyAfter, s.checked = new(duration(name)), true
		case "unhealthy_after":
			s.unhealthyAfter, s.checked = new(duration(name)), true
		case "stdout":
			s.stdout = lines(value)
		case "stderr":
			s.stderr = lines(value)
		case "log_every":
			s.logEvery = duration(name)
		default:
			problems = append(problems, fmt.Sprintf("the sim driver has no setting %q", name))
		}
	}
	if len(problems) > 0 {
		return script{}, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return s, nil
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// health is the scripted health at a time after the start.
func (s script) health(age time.Duration) driver.Health {
	switch {
	case !s.checked:
		return driver.Health{}
	case s.healthyAfter != nil && age < *s.healthyAfter:
		return driver.Health{Checked: true, Message: "not healthy yet"}
	case s.unhealthyAfter != nil && age >= *s.unhealthyAfter:
		return driver.Health{Checked: true, Message: "no longer healthy"}
	}
	return driver.Health{Checked: true, Healthy: true, Message: "healthy"}
}
