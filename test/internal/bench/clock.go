package bench

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// shiftSource is added to package time: by how many seconds the wall clock is shifted is a number in a file beside the program, PROGRAM.clock, which is mapped
// once and may change at any time. Without the file, or where it cannot be opened, nothing is shifted.
const shiftSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var shifted = openShift()

func openShift() *atomic.Int64 {
	path := make([]byte, 4096)
	n, err := syscall.Readlink("/proc/self/exe", path)
	if err != nil {
		return nil
	}
	fd, err := syscall.Open(string(path[:n])+".clock", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return (*atomic.Int64)(unsafe.Pointer(&page[0]))
}

func shift() int64 {
	if shifted == nil {
		return 0
	}
	return shifted.Load()
}
`

// What package time asks the system with, and what is put behind it.
const (
	readsClock  = "\tsec, nsec, mono := runtimeNow()\n"
	shiftsClock = "\tsec += shift()\n"
)

// BuildClocked builds setpoint into a directory from the same source as Build, with a standard library whose wall clock can be shifted while the program runs.
// Nothing of the program itself is another: what it asks for the time it asks like any program. The monotonic clock is the machine's.
func BuildClocked(dir string) (string, error) {
	program := filepath.Join(dir, "clocked")
	source, err := run("", "go", "env", "GOROOT")
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	source = filepath.Join(strings.TrimSpace(source), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", fmt.Errorf("read the standard library: %w", err)
	}
	if strings.Count(string(text), readsClock) != 1 {
		return "", errors.New("this standard library does not read the wall clock in the one place that is known here")
	}
	into, err := overlayDir()
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(text), readsClock, readsClock+shiftsClock, 1)
	replace := make(map[string]string)
	for name, text := range map[string]string{"time.go": changed, "shift.go": shiftSource} {
		replace[filepath.Join(source, name)] = filepath.Join(into, name)
		if err := writeWhole(filepath.Join(into, name), []byte(text)); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", err
	}
	return program, buildInto(program, "./cmd/setpoint", "-overlay", filepath.Join(dir, "overlay.json"))
}

// overlayDir is where the changed files of the standard library lie: always at one place, since the builder's cache goes by it, and all is built anew otherwise.
func overlayDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the changed standard library: %w", err)
	}
	dir := filepath.Join(cache, "setpoint-clocked")
	return dir, os.MkdirAll(dir, 0o700)
}

// writeWhole writes a file that others may be reading or writing as well, with the same content.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close(), os.Rename(f.Name(), path))
}

// clocked puts the program and a clock of its own into a directory.
func (c *Cluster) clocked(dir string) {
	c.t.Helper()
	program := filepath.Join(dir, "setpoint")
	err := errors.Join(os.Mkdir(dir, 0o700), os.Link(c.opts.Clocked, program))
	if err != nil {
		c.t.Fatal(err)
	}
	c.shift(dir, 0)
}

// ShiftClock has the server's wall clock, and that of the plugins that it starts, be wrong by so much from now on.
func (c *Cluster) ShiftClock(by time.Duration) {
	c.t.Helper()
	c.shift(c.path("clocked"), by)
}

// ShiftClock has the wall clock of an agent that was started with JoinLate be wrong by so much from now on.
func (a *Agent) ShiftClock(by time.Duration) {
	a.c.t.Helper()
	a.c.shift(a.clock, by)
}

// shift writes by how much the clock of a directory is wrong. The file stays the one that is mapped.
func (c *Cluster) shift(dir string, by time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "setpoint.clock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(int64(by/time.Second)))
	_, err = f.WriteAt(seconds[:], 0)
	if err := errors.Join(err, f.Close()); err != nil {
		c.t.Fatal(err)
	}
}
