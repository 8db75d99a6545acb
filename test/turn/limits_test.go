package turn

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limits is what a row takes of the machine while it is measured: how busy it keeps the processors, and, if BENCH_PROFILES names a directory, what they are busy
// with. Where they are not busy, the row waits: for the disk, for a plugin's answer, or for one thing to be done before the next.
type limits struct {
	b       *testing.B
	x       *bench
	wall    time.Duration
	own     time.Duration // processor time of this process
	plugins time.Duration // and of the plugins
	since   sample
	profile *os.File
	parts   int // of the profile
	begun   bool
}

type sample struct {
	at           time.Time
	own, plugins time.Duration
}

// watch begins to watch the machine.
func watch(b *testing.B, x *bench) *limits {
	b.Helper()
	l := &limits{b: b, x: x}
	l.begin()
	return l
}

func (l *limits) now() sample {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		l.b.Fatal(err)
	}
	s := sample{at: time.Now(), own: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	if l.x != nil {
		for _, p := range l.x.host.Status() {
			s.plugins += used(l.b, p.PID)
		}
	}
	return s
}

func (l *limits) begin() {
	if dir := os.Getenv("BENCH_PROFILES"); dir != "" {
		l.parts++
		name := strings.NewReplacer("/", "~", "=", "").Replace(l.b.Name())
		var err error
		if l.profile, err = os.Create(filepath.Join(dir, fmt.Sprintf("%s@%d.pprof", name, l.parts))); err == nil {
			err = pprof.StartCPUProfile(l.profile)
		}
		if err != nil {
			l.b.Fatal(err)
		}
	}
	l.begun, l.since = true, l.now()
}

func (l *limits) end() {
	l.begun = false
	s := l.now()
	l.wall, l.own, l.plugins = l.wall+s.at.Sub(l.since.at), l.own+s.own-l.since.own, l.plugins+s.plugins-l.since.plugins
	if l.profile != nil {
		pprof.StopCPUProfile()
		if err := l.profile.Close(); err != nil {
			l.b.Fatal(err)
		}
		l.profile = nil
	}
}

// aside leaves something out of what is measured.
func (l *limits) aside(f func()) {
	l.b.StopTimer()
	l.end()
	f()
	l.begin()
	l.b.StartTimer()
}

// report ends watching and tells what share of all processors' time was used, and what share of that by plugins.
func (l *limits) report() {
	if l.begun {
		l.end()
	}
	all := l.own + l.plugins
	l.b.ReportMetric(100*all.Seconds()/(l.wall.Seconds()*float64(runtime.GOMAXPROCS(0))), "busy-%")
	if l.x != nil && all > 0 {
		l.b.ReportMetric(100*l.plugins.Seconds()/all.Seconds(), "plugins-%")
	}
}
