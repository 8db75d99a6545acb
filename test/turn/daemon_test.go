package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	programs "github.com/setpointd/setpoint/test/internal/bench"
)

// BenchmarkServer measures the program itself on the store of a cluster that has run for a while, whose agents are away: from the command to the moment at which it is
// ready, and what it holds in memory from then on for a while. own is what is its alone; resident counts its share of executable and of the store's file as well.
// Warm, the file is in the machine's memory; cold, it has to be read.
func BenchmarkServer(b *testing.B) {
	for _, cold := range []bool{false, true} {
		name := "warm"
		if cold {
			name = "cold"
		}
		b.Run(name, func(b *testing.B) {
			worlds(b, nil, func(b *testing.B, w world) {
				dir := serverDir(b, w)
				bin, err := programs.Build(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				var took figures
				most := map[string]float64{}
				for b.Loop() {
					b.StopTimer()
					if cold {
						forget(b, filepath.Join(dir, "state.db"))
					}
					b.StartTimer()
					began := time.Now()
					s := startServer(b, bin.Setpoint, dir)
					s.command(b, "status", "--wait", "2m")
					took = append(took, time.Since(began))
					b.StopTimer()
					s.watchMemory(b, 3*time.Second, most)
					s.end(b)
					b.StartTimer()
				}
				took.report(b, "ready")
				for name, kib := range most {
					b.ReportMetric(kib/1024, name+"-MiB")
				}
			})
		})
	}
}

// serverDir returns a server's data directory with the store of a world, and an authority of its own.
func serverDir(b *testing.B, w world) string {
	b.Helper()
	dir := b.TempDir()
	if err := os.Rename(storedWorld(b, w), filepath.Join(dir, "state.db")); err != nil {
		b.Fatal(err)
	}
	// An empty one says that a new authority is wanted.
	if err := os.Mkdir(filepath.Join(dir, "ca"), 0o700); err != nil {
		b.Fatal(err)
	}
	return dir
}

// forget has the machine drop what it has of a file in memory.
func forget(b *testing.B, path string) {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
}

// served is a server's process.
type served struct {
	program, dir string
	cmd          *exec.Cmd
	out          bytes.Buffer
}

func startServer(b *testing.B, program, dir string) *served {
	b.Helper()
	s := &served{program: program, dir: dir}
	s.cmd = exec.Command(program, "server", "--data-dir", dir, "--listen", "127.0.0.1:0")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := os.Remove(filepath.Join(dir, "address")); err != nil && !os.IsNotExist(err) {
		b.Fatal(err) // the last server's
	}
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s *served) command(b *testing.B, args ...string) []byte {
	b.Helper()
	out, err := exec.Command(s.program, append(args, "--data-dir", s.dir)...).Output()
	if err != nil {
		b.Fatalf("setpoint %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// watchMemory keeps the most that the server, and one of its plugins, has in memory during a time, in KiB.
func (s *served) watchMemory(b *testing.B, long time.Duration, most map[string]float64) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); <-tick.C {
		for unit, field := range map[string]string{"resident": "VmRSS:", "own": "RssAnon:"} {
			most[unit] = max(most[unit], statusOf(b, s.cmd.Process.Pid, field))
		}
	}
	var plugins []struct{ PID int }
	if err := json.Unmarshal(s.command(b, "plugin", "ls", "-o", "json"), &plugins); err != nil || len(plugins) == 0 {
		b.Fatalf("plugins %v: %v", plugins, err)
	}
	for _, p := range plugins {
		most["plugin"] = max(most["plugin"], statusOf(b, p.PID, "VmRSS:"))
	}
}

// statusOf returns a number that the kernel tells of a process.
func statusOf(b *testing.B, pid int, field string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			var n float64
			if _, err := fmt.Sscan(rest, &n); err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("process %d has no %s", pid, field)
	return 0
}

func (s *served) end(b *testing.B) {
	b.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		b.Errorf("the server ends with %v\n%s", err, s.out.String())
	}
}
