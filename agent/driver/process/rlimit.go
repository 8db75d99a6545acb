package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// An rlimit is one limit of a process, which its children inherit.
type rlimit struct {
	Name     string `json:"name"`
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"` // unlimited: all bits set
	Hard     uint64 `json:"hard"`
}

const unlimited = ^uint64(0)

// rlimits are the limits that a task may say, by the names that limits.conf has. Those in bytes may be written as amounts.
var rlimits = map[string]int{
	"core":       unix.RLIMIT_CORE,
	"fsize":      unix.RLIMIT_FSIZE,
	"memlock":    unix.RLIMIT_MEMLOCK,
	"msgqueue":   unix.RLIMIT_MSGQUEUE,
	"nofile":     unix.RLIMIT_NOFILE,
	"nproc":      unix.RLIMIT_NPROC,
	"rtprio":     unix.RLIMIT_RTPRIO,
	"sigpending": unix.RLIMIT_SIGPENDING,
	"stack":      unix.RLIMIT_STACK,
}

// inBytes reports whether the limit is an amount of memory or disk.
func (l rlimit) inBytes() bool {
	switch l.Resource {
	case unix.RLIMIT_CORE, unix.RLIMIT_FSIZE, unix.RLIMIT_MEMLOCK, unix.RLIMIT_MSGQUEUE, unix.RLIMIT_STACK:
		return true
	}
	return false
}

// parseRlimit reads "VALUE" or "SOFT:HARD", each a number or unlimited.
func parseRlimit(resource int, name, text string) (rlimit, error) {
	l := rlimit{Name: name, Resource: resource}
	soft, hard, both := strings.Cut(text, ":")
	if !both {
		hard = soft
	}
	var ok, okHard bool
	l.Soft, ok = l.parse(soft)
	l.Hard, okHard = l.parse(hard)
	if !ok || !okHard {
		what := "a number"
		if l.inBytes() {
			what = "an amount such as 8MiB"
		}
		return rlimit{}, fmt.Errorf("%s is %q, not %s, unlimited, or two of them as SOFT:HARD", name, text, what)
	}
	if l.Soft > l.Hard {
		return rlimit{}, fmt.Errorf("%s is %q: its soft limit is above its hard one", name, text)
	}
	return l, nil
}

func (l rlimit) parse(text string) (uint64, bool) {
	if text == "unlimited" {
		return unlimited, true
	}
	if l.inBytes() {
		n, ok := driver.ParseBytes(text)
		return uint64(n), ok
	}
	n, err := strconv.ParseUint(text, 10, 62)
	return n, err == nil
}

// text is a limit as people write it.
func text(limit uint64) string {
	if limit == unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(limit, 10)
}

// settable returns why this process could not give the limit to a child of it, or "".
func (l rlimit) settable() (string, error) {
	var own unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &own); err != nil {
		return "", fmt.Errorf("read the agent's limit %s: %w", l.Name, err)
	}
	if l.Hard > own.Max {
		capable, err := hasCapability(unix.CAP_SYS_RESOURCE)
		if err != nil {
			return "", err
		}
		if !capable {
			return fmt.Sprintf("%s = %s is more than this agent may give: its own hard limit is %s; raise that (systemd: Limit%s=), or ask for less",
				l.Name, text(l.Hard), text(own.Max), strings.ToUpper(l.Name)), nil
		}
	}
	if l.Resource == unix.RLIMIT_NOFILE {
		most, err := os.ReadFile("/proc/sys/fs/nr_open")
		if err != nil {
			return "", err
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(most)), 10, 64); err == nil && l.Hard > n {
			return fmt.Sprintf("%s = %s is more than this machine gives to any process: raise fs.nr_open, which is %d, or ask for less", l.Name, text(l.Hard), n), nil
		}
	}
	return "", nil
}

// hasCapability tells whether this process has a capability in force.
func hasCapability(capability int) (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(status) {
		if hex, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
			return set&(1<<capability) != 0, err
		}
	}
	return false, errors.New("read capabilities: /proc/self/status does not tell them")
}

// set gives the limit to this process.
func (l rlimit) set() error {
	return syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard})
}
