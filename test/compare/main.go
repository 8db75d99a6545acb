// Command compare plays the same events on a Docker Swarm and on Setpoint, with the same containers on the same three engines, each in a network namespace of its
// own, and writes what came of it side by side. `make compare` runs it, as root, where docker.io is installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	out := flag.String("out", "docs/COMPARISON.md", "the `file` to write")
	bin := flag.String("bin", "bin", "the `directory` with setpoint")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, *bin, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, bin, out string) (err error) {
	dir, err := os.MkdirTemp("/tmp", "setpoint-compare")
	if err != nil {
		return err
	}
	l := &lab{ctx: ctx, dir: dir, bin: bin}
	defer func() {
		l.remove()
		_ = os.RemoveAll(dir)
	}()
	if err := l.build(); err != nil {
		return err
	}
	var reports []report
	for _, s := range []system{&swarm{lab: l}, &setpoint{lab: l}} {
		r, err := play(l, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
		reports = append(reports, r)
	}
	return write(out, reports[0], reports[1], l.version)
}
