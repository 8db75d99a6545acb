package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Programs are what the tests of a package run, built when the first of them asks.
type Programs struct {
	name string

	mu      sync.Mutex // guards what follows; held while something is built
	dir     string     // "": nothing is built yet
	built   Binaries
	clocked string
	others  map[string]string // by name
	err     error             // why they cannot be built, which is not tried again
}

// NewPrograms returns programs that are not built yet. The name is of the directory that they are built into.
func NewPrograms(name string) *Programs { return &Programs{name: name, others: map[string]string{}} }

// Run runs a package's tests, removes what they had built, and returns the exit code.
func (p *Programs) Run(m *testing.M) int {
	code := m.Run()
	if p.dir != "" {
		if err := os.RemoveAll(p.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// Binaries returns the programs of a cluster. Short tests skip, since whoever plays with clusters takes a while.
func (p *Programs) Binaries(t testing.TB) Binaries {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.build()
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.built
}

// Clocked returns the program whose clock can be shifted.
func (p *Programs) Clocked(t testing.TB) string {
	t.Helper()
	p.Binaries(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clocked == "" {
		p.clocked, p.err = BuildClocked(p.dir)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.clocked
}

// Version returns the program of another version.
func (p *Programs) Version(t testing.TB, version string) string {
	t.Helper()
	p.Binaries(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	program, err := BuildVersion(p.dir, version)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Other returns another program of this module, by the name and the directory of its package.
func (p *Programs) Other(t testing.TB, name, pkg string) string {
	t.Helper()
	p.Binaries(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.others[name]; path != "" {
		return path
	}
	path := filepath.Join(p.dir, name)
	if err := buildInto(path, pkg); err != nil {
		t.Fatal(err)
	}
	p.others[name] = path
	return path
}

func (p *Programs) build() {
	if p.dir != "" || p.err != nil {
		return
	}
	if p.dir, p.err = os.MkdirTemp("", p.name); p.err == nil {
		p.built, p.err = Build(p.dir)
	}
}
