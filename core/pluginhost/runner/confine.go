package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/core/cgroup"
)

// SandboxLevel says how strictly a process is confined.
type SandboxLevel string

// The levels of confinement.
const (
	SandboxOff     SandboxLevel = "off"     // as the host itself, but for its own user and memory if these are set
	SandboxAuto    SandboxLevel = "auto"    // as far as the machine can
	SandboxRequire SandboxLevel = "require" // fully, or the process is not started
)

// Confinement says what a plugin's process may do. The zero value confines nothing.
type Confinement struct {
	Level SandboxLevel // "": off
	// User is the id of the user and group as which the process runs; nil: as the host.
	User *User
	// UserIfPossible lets the process run as the host where its user could not get at its executable or its socket; that is then said to be missing.
	UserIfPossible bool
	// Memory is how many bytes the process and its children may use together, or each of them where control groups cannot be used; 0: no limit.
	Memory int64
	// Read and Write are further paths of files and directories that may be read, and read and written. What every program needs may be read in any case,
	// and the directory of its socket may be written.
	Read, Write []string
	// Network allows connections over TCP and UDP.
	Network bool
}

// User is whom a process runs as.
type User struct {
	Name     string // for people
	UID, GID int
}

// Same reports whether both say the same of what a process may do, leaving aside its user and memory.
func (c *Confinement) Same(d *Confinement) bool {
	return c.sandboxed() == d.sandboxed() && (c.Level == SandboxRequire) == (d.Level == SandboxRequire) && c.Network == d.Network &&
		slices.Equal(c.Read, d.Read) && slices.Equal(c.Write, d.Write)
}

func (c *Confinement) sandboxed() bool { return c.Level == SandboxAuto || c.Level == SandboxRequire }

// needed reports whether anything is to be done.
func (c *Confinement) needed() bool { return c.sandboxed() || c.User != nil || c.Memory > 0 }

// Confined is what is in force of a process, and what is not.
type Confined struct {
	Applied []string
	Missing []string // each with its reason
	Weak    []string // what cannot be done on this machine and was not asked for, each with its reason
}

// confineSpec is what the helper process is told.
type confineSpec struct {
	Host      int      // process id of the host
	Program   string   // path of the executable, for people and for what may be read
	SocketDir string   // absolute
	Sandbox   bool     // no new privileges, limits and Landlock
	Require   bool     // refuse to go on if something is missing
	Read      []string `json:",omitempty"`
	Write     []string `json:",omitempty"`
	Network   bool
	UID, GID  int // -1: as the host

	Group       cgroup.Group
	GroupKind   string `json:",omitempty"`
	GroupLimits bool   `json:",omitempty"` // it limits memory
	Data        int64  // limit of data in bytes, where no control group limits memory; 0: none
}

// confineReport is what the helper process says before it becomes the plugin.
type confineReport struct {
	Applied []string
	Missing []string
	Weak    []string
	Refused string // why it does not become the plugin
	Errno   int    // of what failed at last
}

const reportFD = 5

// UseConfiner has plugins started through a further program, which gives up what the plugin is not to have, and then becomes the plugin. It is this executable
// with the given arguments, which must lead to ConfineMain. Without one nothing that a command says of its confinement can be applied, and what requires it is
// refused. UseConfiner is called before anything is started.
func (l *Launcher) UseConfiner(args ...string) {
	l.confiner = append([]string{selfExecutable}, args...)
}

// confine prepares the confinement of a process: its control group and its directory. It returns what the helper is told, or nil if no helper is needed.
func (c *child) confine() (*confineSpec, error) {
	want := &c.command.Confine
	if !want.needed() {
		return nil, nil
	}
	if len(c.confiner) == 0 {
		if want.Level == SandboxRequire {
			return nil, refuse(StepConfine, "it must be confined, and this program cannot do that", "", ErrNotConfined)
		}
		c.confined.Missing = []string{"sandbox: this program cannot confine"}
		return nil, nil
	}
	spec := &confineSpec{
		Host: os.Getpid(), Program: c.command.Path, SocketDir: c.greeting.dir, Sandbox: want.sandboxed(), Require: want.Level == SandboxRequire,
		Read: want.Read, Write: want.Write, Network: want.Network, UID: -1, GID: -1,
	}
	if real, err := filepath.EvalSymlinks(c.command.Path); err == nil {
		spec.Program = real
	}
	if u := want.User; u != nil && want.UserIfPossible {
		if err := c.within(u); err != nil {
			c.confined.Missing = append(c.confined.Missing, fmt.Sprintf("own user: %v", err))
			if spec.Require {
				return nil, refuse(StepConfine, "it must have a user of its own: "+err.Error(), "install it where everybody may read it, or name its user", ErrNotConfined)
			}
			want.User = nil
		}
	}
	if u := want.User; u != nil {
		if os.Geteuid() != 0 {
			return nil, refuse(StepConfine, "it is to run as "+u.Name+", and the host is not root", "run the host as root, or leave the user out", unix.EPERM)
		}
		// It finds its own directory among the others, which it can neither list nor enter.
		err := os.Chmod(filepath.Dir(c.greeting.dir), 0o711)
		if err == nil {
			err = os.Chown(c.greeting.dir, u.UID, u.GID)
		}
		if err != nil {
			return nil, refuse(StepConfine, "cannot give its directory of sockets to "+u.Name+": "+err.Error(), "", err)
		}
		spec.UID, spec.GID = u.UID, u.GID
	}
	c.join(spec)
	return spec, nil
}

// join makes the process's control group.
func (c *child) join(spec *confineSpec) {
	want := &c.command.Confine
	var err error
	if want.Memory > 0 {
		if c.group, err = newGroup(c.groupName(), want.Memory); err == nil {
			spec.GroupLimits = true
			c.confined.Applied = append(c.confined.Applied, "memory "+byteText(want.Memory)+" ("+c.group.kind+")")
		} else {
			spec.Data = want.Memory
			c.confined.Missing = append(c.confined.Missing, fmt.Sprintf("memory of all its processes together: %v; each may have %s of data instead", err, byteText(want.Memory)))
		}
	}
	if c.group == nil {
		c.group, err = newGroup(c.groupName(), 0)
	}
	if c.group == nil {
		c.confined.Weak = append(c.confined.Weak, strayText(err))
		return
	}
	spec.Group, spec.GroupKind = c.group.Group, c.group.kind
}

// within returns why a user could not get at what the process needs: its executable, and the directory of its socket.
func (c *child) within(u *User) error {
	info, err := c.exe.file.Stat()
	if err != nil {
		return err
	}
	script := !c.exe.isELF()
	if info.Mode().Perm()&0o005 != 0o005 && (script || info.Mode().Perm()&0o001 == 0) {
		return fmt.Errorf("%s cannot be run by user %s (mode %04o)", c.command.Path, u.Name, info.Mode().Perm())
	}
	needed := []string{filepath.Dir(filepath.Dir(c.greeting.dir))}
	if real, err := filepath.EvalSymlinks(c.command.Path); script && err == nil {
		needed = append(needed, filepath.Dir(real)) // what lies beside a script is often part of it
	}
	for _, dir := range needed {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
				return fmt.Errorf("user %s cannot enter %s", u.Name, dir)
			}
		}
	}
	return nil
}

// groupName is that of its control group: names of plugins are unique, and processes of one plugin differ by their directory.
func (c *child) groupName() string {
	return groupPrefix + strings.TrimPrefix(filepath.Base(c.greeting.dir), socketDirPrefix)
}

// program is what is executed, with which arguments and further descriptors.
func (c *child) program(spec *confineSpec, report *os.File) (path string, argv []string, files []*os.File, err error) {
	exe := "/proc/self/fd/" + strconv.Itoa(executableFD)
	if spec == nil {
		return exe, c.command.argv(), []*os.File{c.exe.file}, nil
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", nil, nil, err
	}
	argv = append(append([]string{}, c.confiner...), string(text))
	return selfExecutable, append(argv, c.command.argv()...), []*os.File{c.exe.file, report}, nil
}

// awaitReport reads what the helper says until it has become the plugin or has ended.
func (c *child) awaitReport(report *os.File) error {
	var last confineReport
	dec := json.NewDecoder(report)
	heard := false
	for {
		var r confineReport
		if err := dec.Decode(&r); err != nil {
			break
		}
		last, heard = r, true
		if r.Refused == "" {
			c.mu.Lock()
			c.confined.Applied = append(c.confined.Applied, r.Applied...)
			c.confined.Missing = append(c.confined.Missing, r.Missing...)
			c.confined.Weak = append(c.confined.Weak, r.Weak...)
			c.mu.Unlock()
		}
	}
	switch {
	case !heard:
		return nil // it ended, or was ended; how says more
	case last.Refused == "":
		return nil
	case last.Errno == int(unix.EACCES) && c.command.Confine.User != nil:
		return refuse(StepSpawn, "cannot run it as user "+c.command.Confine.User.Name+": permission denied", "let everybody read and run it (chmod a+rx), or name another user", unix.EACCES)
	case last.Errno != 0:
		return c.exe.explainSpawn(unix.Errno(last.Errno))
	}
	return refuse(StepConfine, last.Refused, "use sandbox = \"auto\" to have it confined as far as this machine can", ErrNotConfined)
}

// ErrNotConfined: a process that must be confined cannot be.
var ErrNotConfined = errors.New("cannot be confined")

// byteText writes an amount of memory.
func byteText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}
