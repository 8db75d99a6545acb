// Command mutants shows that the simulator finds faults: it makes one in a copy of the core, plays games, those that once failed among them, and stories, and
// wants one of them to fail; and so for each of its mutations. The tree itself is not touched: the go command overlays the changed file.
//
// It may import the standard library only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	root := flag.String("root", ".", "the module's root")
	seeds := flag.Int("seeds", 600, "how many games may be played until a mutation is caught")
	only := flag.String("only", "", "a regular expression: only mutations whose name matches")
	limit := flag.Duration("limit", 0, "how long the games of one mutation may take; 0: three times as long as all games without one, and a minute")
	flag.Parse()
	ok, err := run(context.Background(), options{root: *root, seeds: *seeds, only: *only, limit: *limit})
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

type options struct {
	root, only string
	seeds      int
	limit      time.Duration
}

// outcome is what became of a mutation, or of the code as it is.
type outcome struct {
	caught bool
	seed   string // the first game that failed
	by     string // what did not hold
	took   time.Duration
}

// run plays against each mutation and prints a table. It reports whether all were caught.
func run(ctx context.Context, o options) (bool, error) {
	names, err := regexp.Compile(o.only)
	if err != nil {
		return false, fmt.Errorf("read -only: %w", err)
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return false, fmt.Errorf("find the root: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := fit(o.root); err != nil {
		return false, err
	}
	plain, err := play(ctx, o, dir, nil)
	switch {
	case err != nil:
		return false, fmt.Errorf("play without a mutation: %w", err)
	case plain.caught:
		return false, fmt.Errorf("game %s fails without any mutation: %s", plain.seed, plain.by)
	}
	if o.limit == 0 {
		o.limit = 3*plain.took + time.Minute
	}
	fmt.Printf("%d games hold without a mutation (%s)\n\n", o.seeds, plain.took.Round(time.Second))
	const line = "%-68s %-7s %5s  %s\n"
	fmt.Printf(line, "MUTATION", "GAME", "TIME", "WHAT DID NOT HOLD")
	all, escaped := 0, 0
	for i := range mutations {
		m := &mutations[i]
		if !names.MatchString(m.name) {
			continue
		}
		all++
		got, err := play(ctx, o, dir, m)
		if err != nil {
			return false, fmt.Errorf("play %q: %w", m.name, err)
		}
		if !got.caught {
			escaped++
			got.seed, got.by = "-", "NOT CAUGHT"
		}
		fmt.Printf(line, m.name, got.seed, got.took.Round(time.Second), got.by)
	}
	fmt.Printf("\n%d of %d mutations were caught\n", all-escaped, all)
	return escaped == 0, nil
}

// fit checks that each mutation still fits the code: what it replaces has to be there exactly once.
func fit(root string) error {
	var problems []error
	for i := range mutations {
		if _, err := mutations[i].apply(root); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// apply returns the mutated file.
func (m *mutation) apply(root string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("mutation %q: %w", m.name, err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		return nil, fmt.Errorf("mutation %q: %s has %d times %q, want once: the code changed, so the mutation has to", m.name, m.file, n, m.old)
	}
	return []byte(strings.Replace(string(b), m.old, m.with, 1)), nil
}

// play builds the simulator with a mutation (nil: with none) and plays until a game fails.
func play(ctx context.Context, o options, dir string, m *mutation) (outcome, error) {
	args := []string{"test", "-c", "-vet=off", "-o", filepath.Join(dir, "sim.test")}
	if m != nil {
		overlay, err := m.overlay(o.root, dir)
		if err != nil {
			return outcome{}, err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./core/sim")...)
	build.Dir = o.root
	if b, err := build.CombinedOutput(); err != nil {
		return outcome{}, fmt.Errorf("build: %w\n%s", err, b)
	}
	start := time.Now()
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	games := exec.CommandContext(ctx, filepath.Join(dir, "sim.test"), "-test.run", "^Test", "-test.failfast", "-until-failure", "-seeds", strconv.Itoa(o.seeds))
	games.Dir = filepath.Join(o.root, "core", "sim")
	b, err := games.CombinedOutput()
	out := outcome{took: time.Since(start)}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		out.caught, out.seed, out.by = m != nil, "?", fmt.Sprintf("a game never ends (%s)", o.limit)
		if m == nil {
			return out, fmt.Errorf("the games took longer than %s", o.limit)
		}
		return out, nil
	case !errors.As(err, &exit):
		return out, fmt.Errorf("run the games: %w", err)
	}
	out.caught = true
	out.seed, out.by = first(string(b))
	return out, nil
}

// overlay writes the mutated file and the go command's instruction to use it.
func (m *mutation) overlay(root, dir string) (string, error) {
	b, err := m.apply(root)
	if err != nil {
		return "", err
	}
	mutated, name := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): mutated}})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	if err := errors.Join(os.WriteFile(mutated, b, 0o600), os.WriteFile(name, replace, 0o600)); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return name, nil
}

var (
	game   = regexp.MustCompile(`--- FAIL: Test(?:Chaos/seed|SeedsThatFailedOnce/)(\S+)`)
	story  = regexp.MustCompile(`--- FAIL: Test(\S+)`)
	reason = regexp.MustCompile(`_test\.go:\d+: (?:[0-9.hms]+: )?(.*)`)
)

// first returns the first game or story that failed, and what did not hold in it.
func first(output string) (seed, by string) {
	seed, by = "?", "the program ended"
	for _, failed := range []*regexp.Regexp{game, story} {
		if m := failed.FindStringSubmatch(output); m != nil {
			seed = m[1]
			break
		}
	}
	if m := reason.FindStringSubmatch(output); m != nil {
		by = m[1]
	}
	if len(by) > 150 {
		by = by[:150] + "…"
	}
	return seed, by
}
