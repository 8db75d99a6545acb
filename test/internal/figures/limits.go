package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// printLimits prints for each benchmark with profiles in a directory how busy it keeps the processors, and what this process is busy with.
func printLimits(out io.Writer, all figures, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil {
		return fmt.Errorf("look for profiles: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no profiles in %s; run the benchmarks with BENCH_PROFILES=%s", dir, dir)
	}
	parts := map[string][]string{}
	for _, f := range files {
		name, _, _ := strings.Cut(filepath.Base(f), "@")
		parts[name] = append(parts[name], f)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "benchmark\tbusy\tof it plugins\tthe rest goes to")
	for _, name := range names(largest(parts)) {
		spent, err := spentIn(parts[name])
		if err != nil {
			return err
		}
		benchmark := benchmarkOf(all, name)
		if benchmark == "" {
			return fmt.Errorf("%s is a profile of a benchmark without figures; empty the directory before running them", parts[name][0])
		}
		at := all[benchmark]
		fmt.Fprintf(w, "%s\t%.0f %%\t%.0f %%\t%s\n", benchmark, at["busy-%"], at["plugins-%"], shares(spent))
	}
	return w.Flush()
}

// fileName is how a benchmark's name stands in the name of its profiles.
var fileName = strings.NewReplacer("/", "~", "=", "")

func benchmarkOf(all figures, file string) string {
	for name := range all {
		if fileName.Replace(name) == file {
			return name
		}
	}
	return ""
}

var number = regexp.MustCompile(`\d+`)

// largest leaves each benchmark's largest size.
func largest(parts map[string][]string) map[string][]string {
	at := map[string]string{}
	for name := range parts {
		family := number.ReplaceAllString(name, "")
		if old, ok := at[family]; !ok || slices.Compare(sizesIn(name), sizesIn(old)) > 0 {
			at[family] = name
		}
	}
	out := map[string][]string{}
	for _, name := range at {
		out[name] = parts[name]
	}
	return out
}

func sizesIn(name string) []int {
	var out []int
	for _, n := range number.FindAllString(name, -1) {
		v, _ := strconv.Atoi(n) // as long as no size has twenty digits
		out = append(out, v)
	}
	return out
}

// spentIn returns how much processor time went where, by the innermost function whose home says something.
func spentIn(files []string) (map[string]float64, error) {
	text, err := exec.Command("go", append([]string{"tool", "pprof", "-traces", "-unit=ms"}, files...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	return byHome(string(text)), nil
}

// byHome sums up milliseconds in what go tool pprof -traces prints: stacks, the innermost function first, that lines part from one another.
func byHome(traces string) map[string]float64 {
	out := map[string]float64{}
	var ms float64
	var stack []string
	for line := range strings.Lines(traces) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case strings.HasPrefix(f[0], "---"):
			if ms > 0 {
				out[home(stack)] += ms
			}
			ms, stack = 0, nil
		case ms == 0 && len(f) > 1 && strings.HasSuffix(f[0], "ms"):
			if v, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "ms"), 64); err == nil {
				ms, stack = v, append(stack, f[1])
			}
		case ms > 0:
			stack = append(stack, f[0])
		}
	}
	if ms > 0 {
		out[home(stack)] += ms
	}
	return out
}

const module = "github.com/setpointd/setpoint/"

// homes are what a function's name begins with, and what its time is called. The project's own packages go by their path.
var homes = []struct{ prefix, name string }{
	{"go.etcd.io/bbolt", "bbolt"},
	{"google.golang.org/grpc", "RPC"},
	{"golang.org/x/net", "RPC"},
	{"google.golang.org/protobuf", "protobuf"},
}

var collecting = []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.GC"}

// home says where a sample's time went. Its stack begins with the innermost function.
func home(stack []string) string {
	for _, f := range stack {
		if slices.ContainsFunc(collecting, func(c string) bool { return strings.HasPrefix(f, c) }) {
			return "garbage collection"
		}
	}
	for _, f := range stack {
		if rest, ok := strings.CutPrefix(f, module); ok {
			rest, _, _ = strings.Cut(rest, "[") // what it is instantiated with has paths of its own
			at := strings.LastIndexByte(rest, '/') + 1
			pkg, _, _ := strings.Cut(rest[at:], ".")
			if name := rest[:at] + pkg; !strings.HasPrefix(name, "test/") {
				return name
			}
			return "the benchmark itself"
		}
		for _, h := range homes {
			if strings.HasPrefix(f, h.prefix) {
				return h.name
			}
		}
	}
	return "the runtime"
}

// shares tells of what takes more than a twentieth, the most first.
func shares(spent map[string]float64) string {
	total := 0.0
	for _, ms := range spent {
		total += ms
	}
	order := slices.SortedFunc(maps.Keys(spent), func(a, b string) int { return cmp.Or(cmp.Compare(spent[b], spent[a]), cmp.Compare(a, b)) })
	var out []string
	for _, name := range order {
		if share := 100 * spent[name] / total; share >= 5 {
			out = append(out, fmt.Sprintf("%s %.0f %%", name, share))
		}
	}
	return strings.Join(out, ", ")
}
