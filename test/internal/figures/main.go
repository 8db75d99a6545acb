// Command figures reads what go test -bench prints and says how figures grow with size, or whether they are worse than they were.
//
//	figures growth FILE             the exponent with which each figure grows, by benchmark
//	figures save FILE BASELINE      writes what does not depend on the machine
//	figures targets FILE            what figures are to reach, and whether they do
//	figures limits FILE DIRECTORY   what each benchmark keeps the processors busy with, from the profiles in a directory
//	figures check FILE BASELINE     compares with that; fails if something is worse by more than 15 %
//
// What does not depend on the machine are counts, allocations, exponents, and processor time as a multiple of what BenchmarkReference takes in the same run. Of
// several runs the best counts; for targets the median. It imports the standard library only, and runs go tool pprof to
// read profiles.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// worse is by how much a figure may be worse than the baseline's; growthWorse by how much an exponent may be.
const (
	worse       = 0.15
	growthWorse = 0.15
	steep       = 1.1 // what an exponent is to be at most
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("want growth FILE, targets FILE, limits FILE DIRECTORY, save FILE BASELINE or check FILE BASELINE")
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return fmt.Errorf("read the figures: %w", err)
	}
	all := parse(string(text))
	switch {
	case args[0] == "growth":
		printGrowth(out, all)
		return nil
	case args[0] == "targets":
		printTargets(out, typical(string(text)))
		return nil
	case args[0] == "limits" && len(args) == 3:
		return printLimits(out, all, args[2])
	case args[0] == "save" && len(args) == 3:
		return save(args[2], lasting(all))
	case args[0] == "check" && len(args) == 3:
		return check(out, args[2], lasting(all))
	}
	return fmt.Errorf("%q with %d files is nothing that it does", args[0], len(args)-1)
}

func save(path string, now map[string]float64) error {
	text, err := json.MarshalIndent(now, "", "\t")
	if err != nil {
		return fmt.Errorf("encode the baseline: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	return nil
}

// check prints what is worse than in the baseline. What only one of them has is told and is no loss.
func check(out io.Writer, path string, now map[string]float64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the baseline: %w", err)
	}
	var before map[string]float64
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	lost := 0
	for _, name := range names(before) {
		was, is := before[name], now[name]
		_, known := now[name]
		switch {
		case !known:
			fmt.Fprintf(out, "not measured: %s\n", name)
		case isWorse(name, was, is):
			lost++
			fmt.Fprintf(out, "worse: %s was %.3g, is %.3g\n", name, was, is)
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d of %d figures are worse by more than %.0f %%", lost, len(before), worse*100)
	}
	fmt.Fprintf(out, "none of %d figures is worse by more than %.0f %%\n", len(before), worse*100)
	return nil
}
