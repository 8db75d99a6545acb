package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Options say what to describe.
type Options struct {
	Drivers  []driver.Driver
	Capacity cluster.Resources // what is not zero goes before what is found
	Version  string            // of the agent
	Root     string            // where /proc and /etc are; empty: /

	Attributes map[string]string // go before what is found
	Scripts    *Scripts          // find further attributes; nil: there are none
}

// Describe looks at the machine. A driver that cannot run anything now is left out, and is in the error, beside a description that is whole
// otherwise.
func Describe(ctx context.Context, opts Options) (cluster.NodeDescription, error) {
	d := cluster.NodeDescription{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Attributes: make(map[string]string), Version: opts.Version,
		Capacity: cluster.Resources{MilliCPU: int64(runtime.NumCPU()) * 1000, Units: opts.Capacity.Units},
	}
	var problems []error
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	var err error
	d.Hostname, err = os.Hostname()
	note("host name", err)
	d.Addresses, err = addresses()
	note("addresses", err)
	d.Capacity.Memory, err = memory(opts.Root)
	note("memory", err)
	note("kernel", kernel(opts.Root, d.Attributes))
	distribution(opts.Root, d.Attributes)
	if opts.Capacity.MilliCPU != 0 {
		d.Capacity.MilliCPU = opts.Capacity.MilliCPU
	}
	if opts.Capacity.Memory != 0 {
		d.Capacity.Memory = opts.Capacity.Memory
	}
	for _, r := range opts.Drivers {
		found, err := r.Fingerprint(ctx)
		if err != nil {
			note("driver "+r.Name(), err)
			d.Attributes[cluster.DriverAttribute(r.Name())] = cluster.Unavailable
			continue
		}
		d.Drivers = append(d.Drivers, r.Name())
		maps.Copy(d.Attributes, found.Attributes)
	}
	said, err := opts.Scripts.Run(ctx)
	note("attributes", err)
	maps.Copy(d.Attributes, said)
	maps.Copy(d.Attributes, opts.Attributes)
	slices.Sort(d.Drivers)
	return d, errors.Join(problems...)
}

// Equal reports whether two descriptions say the same.
func Equal(a, b cluster.NodeDescription) bool {
	return a.Hostname == b.Hostname && a.OS == b.OS && a.Arch == b.Arch && a.Version == b.Version && a.Capacity.Equal(b.Capacity) &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Drivers, b.Drivers) && maps.Equal(a.Attributes, b.Attributes)
}

// addresses returns those by which others may reach the machine, sorted. If there are none, its loopback addresses have to do.
func addresses() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var outside, loopback []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast():
		case n.IP.IsLoopback():
			loopback = append(loopback, n.IP.String())
		default:
			outside = append(outside, n.IP.String())
		}
	}
	if len(outside) == 0 {
		outside = loopback
	}
	slices.Sort(outside)
	return slices.Compact(outside), nil
}

// memory returns the machine's memory in bytes.
func memory(root string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/", root, "proc/meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}

// kernel adds the kernel's version: all of it, and the part that can be compared.
func kernel(root string, attributes map[string]string) error {
	text, err := os.ReadFile(filepath.Join("/", root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return err
	}
	release := strings.TrimSpace(string(text))
	attributes["kernel.release"] = release
	end := strings.IndexFunc(release, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(release)
	}
	if version := strings.Trim(release[:end], "."); version != "" {
		attributes["kernel"] = version
	}
	return nil
}

// distribution adds what the system calls itself, if it says so.
func distribution(root string, attributes map[string]string) {
	text, err := os.ReadFile(filepath.Join("/", root, "etc/os-release"))
	if err != nil {
		return // not every system has it
	}
	names := map[string]string{"ID": "os.name", "VERSION_ID": "os.version"}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if attribute := names[name]; found && attribute != "" {
			attributes[attribute] = strings.Trim(value, `"'`)
		}
	}
}

// BootID names the machine's present run; it differs after each start of the machine. It is empty if the system does not tell.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// SinceBoot returns the time since the machine's start, that in which it slept included.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("read the clock of the machine's start: %v", err)) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
