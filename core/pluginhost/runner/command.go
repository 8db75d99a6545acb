package runner

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
)

// LifelineEnv names the variable that tells a plugin which descriptor is its lifeline: the read end of a pipe whose other end
// only the host holds. End of file there means that the host is gone and the plugin must end too.
const LifelineEnv = "SETPOINT_PLUGIN_LIFELINE_FD"

const (
	lifelineFD       = 3 // first descriptor after the standard three
	executableFD     = 4
	defaultHandshake = 5 * time.Second
	selfExecutable   = "/proc/self/exe"
	reservedPrefix   = "PLUGIN_" // go-plugin's own variables
)

// Command says which program to run as a plugin.
type Command struct {
	// Name is the plugin's name in the configuration. It appears in logs and errors.
	Name string
	// Path is the absolute path of the executable.
	Path string
	// Args follow the path on the command line.
	Args []string
	// Env is the whole environment, "KEY=value"; nothing is inherited. AllowedEnv makes the usual start of it.
	Env []string
	// Dir is the working directory; "/" if empty.
	Dir string
	// Builtin says that the plugin comes along: Path is not an operator's choice.
	Builtin bool
	// SHA256 is what the executable must hash to. If set, a sealed copy of the file is hashed and run, so that not even a write
	// into the file in between can change what runs. Nil: whatever is there is run, and its hash is only reported.
	SHA256 []byte
	// Confine says what the process may do; Launcher.UseConfiner makes it possible.
	Confine Confinement
	// Refused is why the command cannot be run at all, found out by whoever made it. Nil: nothing is known to be wrong.
	Refused error
	// Lines is called with each line that the process writes, from several goroutines; it must not block. Nil: nobody wants them.
	Lines func(Line)
	// HandshakeTimeout limits the time from the start of the process to its first answer over gRPC; 5 s if zero.
	HandshakeTimeout time.Duration
}

// Line is one line that a plugin process wrote.
type Line struct {
	At     time.Time
	PID    int    // 0 if it is not known yet
	Stream string // stdout or stderr
	Text   string // escaped for display; what is hclog's JSON is made readable
}

// Builtin returns the command that serves a plugin that comes along: the program that holds these, or this executable if program is "". The latter runs the file
// that the host itself was started from, even if an upgrade has replaced it on disk meanwhile.
func Builtin(name, program string) Command {
	if program == "" {
		return Command{Name: name, Path: selfExecutable, Args: []string{"plugin", "serve", name}, Builtin: true}
	}
	return Command{Name: name, Path: program, Args: []string{name}, Builtin: true}
}

// Protocol is what host and plugin must agree on.
type Protocol struct {
	// Handshake carries the magic cookie. Its ProtocolVersion is not used.
	Handshake plugin.HandshakeConfig
	// Versions maps each protocol version that the host speaks to its plugin set, for Process.Dispense.
	Versions map[int]plugin.PluginSet
}

func (p Protocol) supported() []int { return slices.Sorted(maps.Keys(p.Versions)) }

// allowed are the variables that a plugin may need to find its way on the machine and that carry no secret.
var allowed = []string{"LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ"}

// AllowedEnv returns those variables of environ that plugins are given: locale, time zone, PATH, TMPDIR and the places of root
// certificates. All others, among them whatever holds a credential, stay with the host.
func AllowedEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		if slices.Contains(allowed, key) {
			env = append(env, kv)
		}
	}
	return env
}

func (c Command) argv() []string { return append([]string{c.Path}, c.Args...) }

func (c Command) withDefaults() Command {
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = defaultHandshake
	}
	if c.Dir == "" {
		c.Dir = "/"
	}
	return c
}

func (c Command) check(p Protocol) error {
	switch {
	case c.Refused != nil:
		return refuse(StepConfine, c.Refused.Error(), "correct the plugin's block in the configuration", c.Refused)
	case !filepath.IsAbs(c.Path):
		return refuse(StepOpen, "the path is not absolute", "give the whole path of the executable, starting with /", nil)
	case c.SHA256 != nil && len(c.SHA256) != digestSize:
		return refuse(StepVerify, fmt.Sprintf("the pinned sha256 has %d bytes, want %d", len(c.SHA256), digestSize),
			"write the 64 hexadecimal digits that `sha256sum` prints", nil)
	case p.Handshake.MagicCookieKey == "" || p.Handshake.MagicCookieValue == "" || len(p.Versions) == 0:
		return refuse(StepHandshake, "the host names no magic cookie or no protocol version", "", nil)
	}
	for _, kv := range append(slices.Clone(c.Env), c.argv()...) {
		if strings.ContainsRune(kv, 0) {
			return refuse(StepSpawn, "an argument or variable contains a NUL byte", "remove it", nil)
		}
	}
	for _, kv := range c.Env {
		key, _, found := strings.Cut(kv, "=")
		switch {
		case !found || key == "":
			return refuse(StepSpawn, fmt.Sprintf("the variable %q is not of the form KEY=value", kv), "", nil)
		case strings.HasPrefix(key, reservedPrefix), key == LifelineEnv, key == p.Handshake.MagicCookieKey:
			return refuse(StepSpawn, fmt.Sprintf("the variable %s is the host's to set", key), "choose another name", nil)
		}
	}
	return nil
}
