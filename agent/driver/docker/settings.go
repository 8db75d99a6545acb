package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/setpointd/setpoint/agent/driver"
)

// The values of the setting pull.
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

// settings are a task's words for this driver. What is a list or a map in a job file comes as JSON.
type settings struct {
	Image   string // what to run; required
	Pull    string // when the image is pulled: missing, always or never
	Args    []string
	Network string // bridge, host, none, or a network of the engine; "": the engine's default
	Ports   map[string][]containerPort
	Mounts  []mountSetting

	ReadOnly      bool // the root file system cannot be written
	NewPrivileges bool
	CapAdd        []string
	CapDrop       []string
	Init          bool  // a small init is the container's first process: it reaps, and passes signals on
	Memory        int64 // bytes; 0: what is reserved; noLimit
	CPU           int64 // thousandths of a core at most; 0: no limit
	Pids          int64 // processes and threads at a time; 0: no limit
	ShmSize       int64 // bytes of /dev/shm; 0: the engine's default
	Log           LogLimits
	Hostname      string
	Hosts         map[string]addresses // more names that the task can resolve
	Labels        map[string]string    // of the container, beside Setpoint's own
	Ulimits       []*container.Ulimit
}

// readers are the settings by name.
var readers = map[string]func(s *settings, value string) error{
	"image":          func(s *settings, v string) error { return readText(&s.Image, v) },
	"pull":           func(s *settings, v string) error { return readWord(&s.Pull, v, pullMissing, pullAlways, pullNever) },
	"args":           func(s *settings, v string) error { return readList(&s.Args, v) },
	"network":        readNetwork,
	"ports":          readPorts,
	"mounts":         readMounts,
	"read_only":      func(s *settings, v string) error { return readBool(&s.ReadOnly, v) },
	"new_privileges": func(s *settings, v string) error { return readBool(&s.NewPrivileges, v) },
	"cap_add":        func(s *settings, v string) error { return readList(&s.CapAdd, v) },
	"cap_drop":       func(s *settings, v string) error { return readList(&s.CapDrop, v) },
	"init":           func(s *settings, v string) error { return readBool(&s.Init, v) },
	"memory_limit":   readMemory,
	"cpu_limit":      func(s *settings, v string) error { return readCores(&s.CPU, v) },
	"pids":           func(s *settings, v string) error { return readCount(&s.Pids, v) },
	"shm_size":       func(s *settings, v string) error { return readBytes(&s.ShmSize, v, 1) },
	"log_file_size":  func(s *settings, v string) error { return readBytes(&s.Log.MaxBytes, v, leastLog) },
	"log_files":      func(s *settings, v string) error { return readFiles(&s.Log.MaxFiles, v) },
	"hostname":       readHostname,
	"extra_hosts":    readHosts,
	"labels":         readLabels,
	"ulimits":        readUlimits,
}

// parseSettings reads settings. All that is wrong is in the error, in the order of the settings' names.
func parseSettings(words map[string]string) (settings, error) {
	out := settings{Pull: pullMissing}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(words)) {
		read := readers[name]
		if read == nil {
			known := strings.Join(slices.Sorted(maps.Keys(readers)), ", ")
			problems = append(problems, fmt.Errorf("the docker driver has no setting %q; it has %s", name, known))
			continue
		}
		if err := read(&out, words[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if words["image"] == "" {
		problems = append(problems, errors.New(`there is no image; config = { image = "NAME:TAG" } says which`))
	}
	return out, errors.Join(problems...)
}

func readText(to *string, value string) error {
	*to = value
	return nil
}

func readWord(to *string, value string, known ...string) error {
	if !slices.Contains(known, value) {
		return fmt.Errorf("%q is none of %s", value, strings.Join(known, ", "))
	}
	*to = value
	return nil
}

func readBool(to *bool, value string) error {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	*to = b
	return nil
}

func readCount(to *int64, value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number from 1 on", value)
	}
	*to = n
	return nil
}

func readFiles(to *int, value string) error {
	var n int64
	if err := readCount(&n, value); err != nil {
		return err
	}
	*to = int(n)
	return nil
}

// readCores reads a number of cores, such as 0.5, as thousandths.
func readCores(to *int64, value string) error {
	cores, ok := driver.ParseCores(value)
	if !ok || cores < 10 {
		return fmt.Errorf("%q is no number of cores such as 1.5, of a hundredth at least", value)
	}
	*to = cores
	return nil
}

// readBytes reads an amount such as 64MiB.
func readBytes(to *int64, value string, least int64) error {
	n, ok := driver.ParseBytes(value)
	if !ok || n < least {
		return fmt.Errorf("%q is no amount such as 64MiB, of %d bytes at least", value, least)
	}
	*to = n
	return nil
}

// readList reads a list of texts.
func readList(to *[]string, value string) error {
	if err := readJSON(to, value); err != nil {
		return fmt.Errorf(`it is no list of texts, such as ["a", "b"]: %w`, err)
	}
	return nil
}

// readJSON reads exactly one value, of which nothing is unknown.
func readJSON(to any, value string) error {
	dec := json.NewDecoder(bytes.NewReader([]byte(value)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("there is something after it")
	}
	return nil
}
