package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// The limits of a confined process.
const (
	maxOpenFiles = 4096
	maxFileBytes = 256 << 20
	maxProcesses = 1024 // and threads, of its own user
)

// refusedStatus is with which the helper ends that does not become the plugin.
const refusedStatus = 126

// ConfineMain is the program that gives up what a plugin is not to have and then becomes the plugin: its arguments are what the host says, and the plugin's
// own. It returns only if it cannot, with the exit code.
func ConfineMain(args []string) int {
	runtime.LockOSThread() // what is set of one thread is kept by the thread that executes
	report := os.NewFile(reportFD, "report")
	if report == nil || len(args) < 2 {
		return refusedStatus
	}
	unix.CloseOnExec(reportFD)
	say := json.NewEncoder(report)
	var spec confineSpec
	if err := json.Unmarshal([]byte(args[0]), &spec); err != nil {
		_ = say.Encode(confineReport{Refused: "its confinement cannot be read: " + err.Error()})
		return refusedStatus
	}
	c := &confiner{spec: &spec}
	if err := c.apply(); err != nil {
		_ = say.Encode(confineReport{Refused: err.Error()})
		return refusedStatus
	}
	if spec.Require && len(c.report.Missing) > 0 {
		_ = say.Encode(confineReport{Refused: fmt.Sprintf("it must be confined fully, and this machine cannot do all: %q", c.report.Missing)})
		return refusedStatus
	}
	_ = say.Encode(c.report)
	err := syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", executableFD), args[1:], os.Environ())
	r := confineReport{Refused: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(errno)
	}
	_ = say.Encode(r)
	return refusedStatus
}

// confiner applies a confinement to its own process.
type confiner struct {
	spec   *confineSpec
	report confineReport
}

func (c *confiner) applied(format string, args ...any) {
	c.report.Applied = append(c.report.Applied, fmt.Sprintf(format, args...))
}

func (c *confiner) missing(format string, args ...any) {
	c.report.Missing = append(c.report.Missing, fmt.Sprintf(format, args...))
}

// apply does what can be done, in the order in which it is possible. An error means that the process must not go on.
func (c *confiner) apply() error {
	if err := closeFrom(reportFD + 1); err != nil {
		c.missing("descriptors: %v", err)
	} else {
		c.applied("descriptors")
	}
	if err := c.join(); err != nil {
		return err
	}
	if err := c.user(); err != nil {
		return err
	}
	// A change of user takes back that the process is killed when the host dies.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot be bound to its host: %w", err)
	}
	if os.Getppid() != c.spec.Host {
		return errors.New("its host is gone")
	}
	if !c.spec.Sandbox {
		return c.limits()
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		c.missing("no new privileges: %v", err)
	} else {
		c.applied("no new privileges")
	}
	c.landlock()
	return c.limits()
}

// join joins the control group. One that limits memory must be joined.
func (c *confiner) join() error {
	if len(c.spec.Group.Dirs) == 0 {
		return nil
	}
	err := c.spec.Group.Join()
	switch {
	case err == nil:
		c.applied("end of all that it starts (%s)", c.spec.GroupKind)
	case c.spec.GroupLimits:
		return fmt.Errorf("cannot join its control group: %w", err)
	default:
		c.report.Weak = append(c.report.Weak, strayText(err))
	}
	return nil
}

// strayText says why what a plugin starts in a session of its own would outlive it.
func strayText(err error) string {
	return fmt.Sprintf("end of what it starts in a session of its own: %v", err)
}

// closeFrom has descriptors from a number on closed when the process becomes the plugin; until then they are needed.
func closeFrom(first int) error {
	const last = 1<<31 - 1
	if err := unix.CloseRange(uint(first), last, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return err
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// limits lowers what the process may use of the machine. A limit that is lower already stays.
func (c *confiner) limits() error {
	lower := func(resource int, to uint64) error {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(resource, &now); err != nil {
			return err
		}
		to = min(to, now.Max)
		return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: to, Max: to})
	}
	if c.spec.Data > 0 {
		if err := lower(unix.RLIMIT_DATA, uint64(c.spec.Data)); err != nil {
			return fmt.Errorf("cannot limit its memory: %w", err)
		}
		c.applied("data %s", byteText(c.spec.Data))
	}
	if !c.spec.Sandbox {
		return nil
	}
	err := errors.Join(lower(unix.RLIMIT_CORE, 0), lower(unix.RLIMIT_NOFILE, maxOpenFiles), lower(unix.RLIMIT_FSIZE, maxFileBytes))
	if c.spec.UID > 0 {
		err = errors.Join(err, lower(unix.RLIMIT_NPROC, maxProcesses))
	}
	if err != nil {
		c.missing("limits: %v", err)
	} else {
		c.applied("limits of files and core dumps")
	}
	return nil
}

// user gives up the host's user.
func (c *confiner) user() error {
	if c.spec.UID < 0 {
		return nil
	}
	err := syscall.Setgroups([]int{})
	if err == nil {
		err = syscall.Setresgid(c.spec.GID, c.spec.GID, c.spec.GID)
	}
	if err == nil {
		err = syscall.Setresuid(c.spec.UID, c.spec.UID, c.spec.UID)
	}
	if err != nil {
		return fmt.Errorf("cannot run as user %d: %w", c.spec.UID, err)
	}
	c.applied("user %d", c.spec.UID)
	return nil
}

// What every program may read: libraries, interpreters, what describes the machine and the names on it.
var (
	readDirs = []string{
		"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/proc", "/sys", "/etc/alternatives", "/etc/ssl", "/etc/pki", "/etc/ca-certificates",
		"/etc/ld.so.conf.d", "/etc/python3", "/etc/crypto-policies", "/run/systemd/resolve",
	}
	readFiles = []string{
		"/etc/group", "/etc/gai.conf", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.preload",
		"/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/protocols", "/etc/resolv.conf", "/etc/services",
		"/etc/timezone", "/dev/random", "/dev/urandom",
	}
	writeFiles = []string{"/dev/null", "/dev/zero", "/dev/full"}
)

// The versions of Landlock that bring what is said to be in force.
const (
	landlockFiles   = 1
	landlockNetwork = 4
	landlockScopes  = 6
)

// landlock restricts what the process may reach: files, the network, and processes outside.
func (c *confiner) landlock() {
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil || abi < landlockFiles {
		c.missing("files, network and signals: the kernel has no Landlock")
		return
	}
	config := landlock.V10
	if c.spec.Network {
		config.HandledAccessNet = 0
	}
	if err := config.BestEffort().Restrict(c.rules()...); err != nil {
		c.missing("files, network and signals: %v", err)
		return
	}
	c.applied("files (Landlock %d)", abi)
	switch {
	case c.spec.Network:
	case abi < landlockNetwork:
		c.missing("network: the kernel's Landlock is version %d, and %d can do that", abi, landlockNetwork)
	default:
		c.applied("no TCP")
	}
	if abi < landlockScopes {
		c.missing("signals: the kernel's Landlock is version %d, and %d can do that", abi, landlockScopes)
	} else {
		c.applied("signals")
	}
}

func (c *confiner) rules() []landlock.Rule {
	rules := []landlock.Rule{
		landlock.RODirs(readDirs...).IgnoreIfMissing(), landlock.ROFiles(readFiles...).IgnoreIfMissing(),
		landlock.RWFiles(writeFiles...).IgnoreIfMissing(), landlock.RWDirs(c.spec.SocketDir).WithRefer(),
	}
	// The program itself, and what lies beside it; nothing more of what is the system's or other people's.
	if dir := filepath.Dir(c.spec.Program); dir != "/" && dir != "/tmp" && dir != "/proc/self" {
		rules = append(rules, landlock.RODirs(dir).IgnoreIfMissing())
	}
	rules = append(rules, landlock.ROFiles(fmt.Sprintf("/proc/self/fd/%d", executableFD)))
	for _, path := range c.spec.Read {
		rules = append(rules, pathRule(path, landlock.RODirs, landlock.ROFiles))
	}
	for _, path := range c.spec.Write {
		rules = append(rules, pathRule(path, landlock.RWDirs, landlock.RWFiles))
	}
	return rules
}

// pathRule allows a directory with what is in it, or a file. What is not there cannot be allowed.
func pathRule(path string, dirs, files func(...string) landlock.FSRule) landlock.Rule {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return files(path).IgnoreIfMissing()
	}
	return dirs(path).IgnoreIfMissing()
}
