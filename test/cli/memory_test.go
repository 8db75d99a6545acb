package cli

import (
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a server without work may have, in MiB; docs/decisions/small-server.md says what it has. How much of its code is resident depends on how the machine caches files,
// so the test looks at what does not: the size of it, and the memory of its own. BenchmarkDev measures all that is resident.
const (
	maxServerOwn  = 14
	maxServerCode = 44
	maxPlugin     = 25e6 / (1 << 20)
)

func TestServerIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("it plays a cluster")
	}
	w := &world{dir: filepath.Join(t.TempDir(), "d")}
	c, err := w.launch("dev", os.Environ(), "dev", "--nodes", "1", "--data-dir", w.dir, "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := w.end(ctx); err != nil {
			t.Error(err)
		}
	})
	says(t, c, "ready: ")
	server, err := w.pid("server", "")
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := w.pid("plugin", "constraint")
	if err != nil {
		t.Fatal(err)
	}
	own, plugins, code := resident(t, server)["anonymous"]/1024, resident(t, plugin)["rss"]/1024, loaded(t, filepath.Join(binary, "setpoint"))
	t.Logf("the server has %.1f MiB of its own and %.1f MiB of code and constants, a plugin %.1f MiB", own, code, plugins)
	if own == 0 || own > maxServerOwn {
		t.Errorf("a server without work has %.1f MiB of its own, at most %d", own, maxServerOwn)
	}
	if code == 0 || code > maxServerCode {
		t.Errorf("the program has %.1f MiB of code and constants, at most %d: of what is new some is perhaps not needed", code, maxServerCode)
	}
	if plugins == 0 || plugins > maxPlugin {
		t.Errorf("a plugin has %.1f MiB, at most %.1f", plugins, maxPlugin)
	}
}

// loaded returns how many MiB of a program's file the system maps to run it.
func loaded(t *testing.T, path string) float64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bytes uint64
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			bytes += p.Filesz
		}
	}
	return float64(bytes) / (1 << 20)
}
