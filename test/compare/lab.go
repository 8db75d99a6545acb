package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lab is three Docker engines, each in a network namespace with an address of its own, joined by a switch in another one. Nothing of the machine's own network is
// touched.
type lab struct {
	ctx     context.Context
	dir     string
	bin     string
	version string // of the engines
	engines []*engine
}

// engine is one of them.
type engine struct {
	name, space, address, dir string
	process                   *exec.Cmd
}

const images = "task:1 task:2"

// hosts is how many engines there are.
const hosts = 3

func (l *lab) space(k int) string { return fmt.Sprintf("spcmp%d-%d", os.Getpid(), k) }

// build makes the namespaces, starts the engines and gives them the images.
func (l *lab) build() error {
	if os.Geteuid() != 0 {
		return errors.New("engines and namespaces are made by root")
	}
	for _, tool := range []string{"ip", "nsenter", "unshare", "dockerd", "docker"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed: Debian's docker.io and iproute2 have all that is needed", tool)
		}
	}
	if err := l.wire(); err != nil {
		return err
	}
	for _, e := range l.engines {
		if err := e.start(); err != nil {
			return err
		}
	}
	program := filepath.Join(l.dir, "task")
	build := exec.CommandContext(l.ctx, "go", "build", "-o", program, "./agent/driver/docker/testdata/task")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of the image: %w\n%s", err, out)
	}
	layer, err := layerOf(program)
	if err != nil {
		return err
	}
	for _, e := range l.engines {
		if !until(time.Minute, func() bool { return e.docker("version").ok() }) {
			return fmt.Errorf("the engine of %s does not answer; its log is %s", e.name, filepath.Join(e.dir, "log"))
		}
		for image := range strings.FieldsSeq(images) {
			load := exec.CommandContext(l.ctx, "docker", "--host", e.host(), "import", "--change", `CMD ["/task","sleep","1000h"]`, "-", image)
			load.Stdin = bytes.NewReader(layer)
			if out, err := load.CombinedOutput(); err != nil {
				return fmt.Errorf("import the image: %w\n%s", err, out)
			}
		}
	}
	l.version = strings.TrimSpace(l.engines[0].docker("version", "--format", "{{.Server.Version}}").out)
	return nil
}

// wire makes the switch and the namespaces.
func (l *lab) wire() error {
	hub := l.space(0)
	commands := [][]string{{"ip", "netns", "add", hub}, {"ip", "-n", hub, "link", "add", "switch", "type", "bridge"}, {"ip", "-n", hub, "link", "set", "switch", "up"}}
	for k := 1; k <= hosts; k++ {
		e := &engine{name: fmt.Sprintf("n%d", k), space: l.space(k), address: fmt.Sprintf("10.77.0.%d", k), dir: filepath.Join(l.dir, fmt.Sprintf("n%d", k))}
		l.engines = append(l.engines, e)
		if err := os.MkdirAll(e.dir, 0o700); err != nil {
			return err
		}
		port := fmt.Sprintf("port%d", k)
		commands = append(commands,
			[]string{"ip", "netns", "add", e.space}, []string{"ip", "-n", e.space, "link", "set", "lo", "up"},
			[]string{"ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", e.space},
			[]string{"ip", "-n", hub, "link", "set", port, "master", "switch", "up"},
			[]string{"ip", "-n", e.space, "addr", "add", e.address + "/24", "dev", "eth0"}, []string{"ip", "-n", e.space, "link", "set", "eth0", "up"}) // and no way out: a Swarm asks the registry for each image, and is to hear at once that it is not reached
	}
	for _, c := range commands {
		if r := run(c...); !r.ok() {
			return fmt.Errorf("%s: %s", strings.Join(c, " "), r.out)
		}
	}
	return nil
}

// layerOf returns a tar file with the program as /task.
func layerOf(program string) ([]byte, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: "task", Mode: 0o755, Size: int64(len(data))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	return files.Bytes(), w.Close()
}

// cut cuts the cable of a host, and mend mends it.
func (l *lab) cut(k int) {
	run("ip", "-n", l.space(0), "link", "set", fmt.Sprintf("port%d", k), "down")
}

func (l *lab) mend(k int) { run("ip", "-n", l.space(0), "link", "set", fmt.Sprintf("port%d", k), "up") }

// remove takes everything away again.
func (l *lab) remove() {
	for _, e := range l.engines {
		for id := range strings.FieldsSeq(e.docker("ps", "-aq").out) {
			e.docker("rm", "-f", id)
		}
	}
	for _, e := range l.engines {
		if e.process == nil {
			continue
		}
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
		if pid := e.pid(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			until(20*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
		}
	}
	l.sweep()
	for k := range hosts + 1 {
		run("ip", "netns", "del", l.space(k))
	}
}

// sweep ends what an engine that was killed has left, and takes away its mounts and control groups.
func (l *lab) sweep() {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		data, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() && strings.Contains(string(data), l.dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	mounts, _ := os.ReadFile("/proc/mounts")
	var at []string
	for line := range strings.SplitSeq(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], l.dir+"/") {
			at = append(at, f[1])
		}
	}
	slices.Sort(at)
	slices.Reverse(at)
	for _, path := range at {
		_ = syscall.Unmount(path, syscall.MNT_DETACH)
	}
	for _, e := range l.engines {
		run("find", "/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*/"+e.space+"*", "-exec", "rmdir", "{}", "+")
	}
}

func (e *engine) host() string { return "unix://" + filepath.Join(e.dir, "docker.sock") }

// start starts the engine, in its namespace and with a host name of its own, and again a second after it has ended, as a service manager does.
func (e *engine) start() error {
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	script := fmt.Sprintf("hostname %s; while :; do dockerd --data-root %[2]s/data --exec-root %[2]s/exec --pidfile %[2]s/pid -H %[3]s --cgroup-parent /%[4]s; sleep 1; done",
		e.name, e.dir, e.host(), e.space)
	e.process = exec.Command("nsenter", "--net=/run/netns/"+e.space, "unshare", "--uts", "sh", "-c", script)
	e.process.Stdout, e.process.Stderr = log, log
	e.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return e.process.Start()
}

// pid returns the engine's process, or 0 if there is none.
func (e *engine) pid() int {
	text, err := os.ReadFile(filepath.Join(e.dir, "pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// kill ends the engine as kill -9 does. Its containers run on.
func (e *engine) kill() {
	if pid := e.pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (e *engine) docker(args ...string) result {
	return run(append([]string{"docker", "--host", e.host()}, args...)...)
}

// within runs a command in the engine's namespace.
func (e *engine) within(args ...string) result {
	return run(append([]string{"nsenter", "--net=/run/netns/" + e.space}, args...)...)
}

// result is what came of a command.
type result struct {
	out string // both streams
	err error
}

func (r result) ok() bool { return r.err == nil }

// commandLimit is how long a command may take. Most of what is asked here is answered at once.
const commandLimit = 90 * time.Second

func run(args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	return result{string(out), err}
}

// until looks until it is so, and reports false if it is not within the limit.
func until(limit time.Duration, so func() bool) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		if so() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
