package runner

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
)

const maxSocketPath = 107 // sun_path of unix(7), less its final NUL

// greetingLine is what a line must look like to be taken for a handshake. Other lines before it are noise, and tolerated.
var greetingLine = regexp.MustCompile(`^\d+\|\d+\|[a-z]+\|`)

// greeting reads a plugin's stdout: it passes exactly one handshake line on to go-plugin, and drains all else for ever, so that
// a plugin that writes there is never blocked.
type greeting struct {
	out      *output
	dir      string // where the plugin's socket must be
	versions []int
	reader   *io.PipeReader // go-plugin's end
	writer   *io.PipeWriter

	mu       sync.Mutex // guards what follows
	first    []byte
	accepted bool
	ended    bool
	err      error
}

func newGreeting(out *output, versions []int) *greeting {
	g := &greeting{out: out, versions: versions}
	g.reader, g.writer = io.Pipe()
	return g
}

// drain reads src to its end.
func (g *greeting) drain(src io.Reader) {
	lines := splitter{limit: maxLine, each: g.line}
	buf := make([]byte, 16<<10)
	for {
		n, err := src.Read(buf)
		g.remember(buf[:n])
		_, _ = lines.Write(buf[:n])
		if err != nil {
			break
		}
	}
	lines.finish()
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	_ = g.writer.Close()
}

func (g *greeting) remember(p []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first = append(g.first, p[:min(len(p), maxFirstBytes-len(g.first))]...)
}

func (g *greeting) line(line []byte, whole bool) {
	g.mu.Lock()
	over := g.accepted || g.err != nil
	g.mu.Unlock()
	switch {
	case over:
		g.out.stdoutLine("plugin stdout", hclog.Debug, line)
	case !greetingLine.Match(line):
		g.out.stdoutLine("plugin wrote to stdout before its handshake", hclog.Warn, line)
	default:
		err := g.check(string(line), whole)
		g.mu.Lock()
		g.accepted, g.err = err == nil, err
		g.mu.Unlock()
		if err != nil {
			_ = g.writer.Close()
			return
		}
		_, _ = fmt.Fprintf(g.writer, "%s\n", line)
	}
}

// check refuses a handshake that go-plugin would refuse with a worse message, or accept though it should not: another protocol,
// a socket elsewhere, or no TLS.
func (g *greeting) check(line string, whole bool) error {
	const example = "a handshake is 1|VERSION|unix|SOCKET|grpc|CERTIFICATE and a newline, on stdout"
	bad := func(reason, hint string) error { return refuse(StepHandshake, reason, hint, ErrHandshake) }
	if !whole {
		return bad("its handshake does not end with a newline", example)
	}
	fields := strings.Split(line, "|")
	if len(fields) < 5 {
		return bad(fmt.Sprintf("its handshake has %d fields, want 6", len(fields)), example)
	}
	core, network, socket, rpc := fields[0], fields[2], fields[3], fields[4]
	version, err := strconv.Atoi(fields[1])
	switch {
	case core != strconv.Itoa(plugin.CoreProtocolVersion):
		return bad("it speaks version "+core+" of go-plugin's handshake, the host 1", "rebuild it with a current go-plugin")
	case err != nil:
		return bad("its protocol version is no number: "+printable(fields[1], maxTailLine), example)
	case !slices.Contains(g.versions, version):
		err := &VersionError{Plugin: version, Host: g.versions}
		return refuse(StepHandshake, err.Error(), err.hint(), err)
	case network != "unix":
		return bad("it listens on "+network+", not on a unix socket", "create the socket in $PLUGIN_UNIX_SOCKET_DIR")
	case rpc != string(plugin.ProtocolGRPC):
		return bad("it speaks "+printable(rpc, maxTailLine)+", not grpc", "serve it with a gRPC server")
	}
	if err := g.checkSocket(socket); err != nil {
		return bad(err.Error(), "create the socket in $PLUGIN_UNIX_SOCKET_DIR before writing the handshake")
	}
	if len(fields) < 6 || !isCertificate(fields[5]) {
		return bad("it offers no TLS certificate", "it must serve TLS as $PLUGIN_CLIENT_CERT asks, and give its certificate "+
			"as the sixth field (DER in base64 without padding)")
	}
	return nil
}

func (g *greeting) checkSocket(path string) error {
	shown := printable(path, maxTailLine)
	if len(path) > maxSocketPath {
		return fmt.Errorf("its socket's path %s has %d bytes, the limit is %d", shown, len(path), maxSocketPath)
	}
	if filepath.Clean(path) != path || !strings.HasPrefix(path, g.dir+"/") {
		return fmt.Errorf("its socket %s is not in the directory that it was given", shown)
	}
	if err := makePrivate(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its socket cannot be found: %w", err)
	} else if err != nil {
		return fmt.Errorf("its socket %s cannot be used: %w", shown, err)
	}
	return nil
}

// makePrivate makes a socket its owner's alone, whatever the plugin has put at the path meanwhile: nothing but a socket is touched.
func makePrivate(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("it is not a socket")
	}
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o600)
}

func isCertificate(field string) bool {
	_, err := base64.RawStdEncoding.DecodeString(field)
	return err == nil && len(field) > 50 // shorter ones go-plugin takes for a remnant of an old format, and ignores
}

// state returns what was seen so far.
func (g *greeting) state() (accepted, ended bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.accepted, g.ended, g.err
}

// firstBytes are the first 200 at most, quoted; "" if there were none.
func (g *greeting) firstBytes() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.first) == 0 {
		return ""
	}
	return strconv.Quote(string(g.first))
}

// unanswered says how a plugin has kept the host waiting, for the error of a time limit.
func (g *greeting) unanswered() (reason, hint string) {
	accepted, _, _ := g.state()
	switch {
	case accepted:
		return "it wrote its handshake but does not answer on its socket", "is it stopped, or busy before it serves?"
	case g.firstBytes() == "":
		return "it wrote nothing on stdout", "is it a plugin, and does it start to serve before its slow work?"
	}
	return "it wrote no whole handshake line on stdout", "only the handshake belongs on stdout, and a newline ends it; log to stderr"
}

var errNoAnswer = errors.New("no error, but no connection either")
