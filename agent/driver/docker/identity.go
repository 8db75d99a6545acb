package docker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
)

// noLimit is the limit of memory that is none, also where memory is reserved.
const noLimit = -1

func readMemory(s *settings, value string) error {
	if value == "none" {
		s.Memory = noLimit
		return nil
	}
	if err := readBytes(&s.Memory, value, leastMemory); err != nil {
		return fmt.Errorf("%w, or \"none\"", err)
	}
	return nil
}

var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.\-]*[a-zA-Z0-9])?$`)

func validHostname(name string) bool { return len(name) <= 63 && hostname.MatchString(name) }

func readHostname(s *settings, value string) error {
	if !validHostname(value) {
		return fmt.Errorf("%q is no name of a host", value)
	}
	s.Hostname = value
	return nil
}

// addresses are one address, or a list of them.
type addresses []string

func (a *addresses) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*a = addresses{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// hostGateway stands for the node's address, as the engine knows it.
const hostGateway = "host-gateway"

func readHosts(s *settings, value string) error {
	if err := readJSON(&s.Hosts, value); err != nil {
		return fmt.Errorf(`it is no map of addresses, such as { db = "10.0.0.7" }: %w`, err)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		if !validHostname(name) {
			problems = append(problems, fmt.Errorf("%q is no name of a host", name))
		}
		for _, address := range s.Hosts[name] {
			if _, err := netip.ParseAddr(address); err != nil && address != hostGateway {
				problems = append(problems, fmt.Errorf("%q is neither an address nor %s", address, hostGateway))
			}
		}
	}
	return errors.Join(problems...)
}

// hosts are the names as the engine takes them.
func (s *settings) hosts() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		for _, address := range s.Hosts[name] {
			out = append(out, name+":"+address)
		}
	}
	return out
}

func readLabels(s *settings, value string) error {
	if err := readJSON(&s.Labels, value); err != nil {
		return fmt.Errorf(`it is no map of texts, such as { team = "shop" }: %w`, err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name == "" || strings.HasPrefix(name, labelPrefix) {
			return fmt.Errorf("%q cannot be given: labels that begin with %s are Setpoint's own", name, labelPrefix)
		}
	}
	return nil
}

// ulimits are the limits of each process that an engine knows.
var ulimits = []string{
	"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
}

func readUlimits(s *settings, value string) error {
	var limits map[string]limitWords
	if err := readJSON(&limits, value); err != nil {
		return fmt.Errorf(`it is no map of limits, such as { nofile = "1024:4096", core = 0 }: %w`, err)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		u, err := limits[name].ulimit(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		s.Ulimits = append(s.Ulimits, u)
	}
	return errors.Join(problems...)
}

// limitWords are a limit as it is written: a number, "unlimited" or "SOFT:HARD".
type limitWords string

func (l *limitWords) UnmarshalJSON(text []byte) error {
	var number json.Number
	if err := json.Unmarshal(text, &number); err == nil {
		*l = limitWords(number)
		return nil
	}
	return json.Unmarshal(text, (*string)(l))
}

func (l limitWords) ulimit(name string) (*container.Ulimit, error) {
	if !slices.Contains(ulimits, name) {
		return nil, fmt.Errorf("there is no limit %q; there are %s", name, strings.Join(ulimits, ", "))
	}
	softText, hardText, _ := strings.Cut(string(l), ":")
	hardText = cmp.Or(hardText, softText)
	soft, err := limitNumber(softText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	hard, err := limitNumber(hardText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if hard >= 0 && (soft < 0 || soft > hard) {
		return nil, fmt.Errorf("%s: %s is above %s, which it cannot exceed", name, softText, hardText)
	}
	return &container.Ulimit{Name: name, Soft: soft, Hard: hard}, nil
}

func limitNumber(text string) (int64, error) {
	if text == "unlimited" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is neither a number nor unlimited", text)
	}
	return n, nil
}
