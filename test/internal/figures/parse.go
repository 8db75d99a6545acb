package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figures are one value of each unit, by benchmark.
type figures map[string]map[string]float64

// parse reads lines such as "BenchmarkX/nodes=100-2  3  12 ns/op  4.5 cpu-µs/op", and keeps the best of several runs.
func parse(text string) figures {
	return summed(text, func(unit string, all []float64) float64 {
		if strings.HasSuffix(unit, "/s") { // more of what is done in a second is better, less of all else
			return slices.Max(all)
		}
		return slices.Min(all)
	})
}

// typical is as parse, but keeps the median.
func typical(text string) figures {
	return summed(text, func(_ string, all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	})
}

// summed reads figures and keeps what sum makes of those of one benchmark and unit.
func summed(text string, sum func(unit string, all []float64) float64) figures {
	all := map[string]map[string][]float64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := f[0]
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at]
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				break
			}
			if all[name] == nil {
				all[name] = map[string][]float64{}
			}
			all[name][f[i+1]] = append(all[name][f[i+1]], v)
		}
	}
	out := figures{}
	for name, units := range all {
		out[name] = map[string]float64{}
		for unit, values := range units {
			out[name][unit] = sum(unit, values)
		}
	}
	return out
}

var size = regexp.MustCompile(`\b(nodes|tasks|groups)=(\d+)`)

// point is a figure at one size.
type point struct{ size, value float64 }

// growth are the figures of a benchmark at several sizes, by benchmark without sizes and by unit. The size is the last that the name tells of what is worked on.
func (f figures) growth() map[string][]point {
	out := map[string][]point{}
	for name, units := range f {
		sizes := size.FindAllStringSubmatch(name, -1)
		if len(sizes) == 0 {
			continue
		}
		n, err := strconv.ParseFloat(sizes[len(sizes)-1][2], 64)
		if err != nil || n <= 0 {
			continue
		}
		family := regexp.MustCompile(`=\d+`).ReplaceAllString(name, "")
		for unit, v := range units {
			if costs(unit) && v > 0 {
				out[family+" "+unit] = append(out[family+" "+unit], point{n, v})
			}
		}
	}
	return out
}

// costs reports whether a unit is a cost that may grow with size.
func costs(unit string) bool {
	return strings.Contains(unit, "cpu-") || strings.Contains(unit, "heap") || strings.HasPrefix(unit, "start-p50") || unit == "allocs/op" || unit == "ns/op"
}

// exponent is the slope of the line through the points where both axes are logarithmic.
func exponent(of []point) (float64, bool) {
	var n, sx, sy, sxx, sxy float64
	for _, p := range of {
		x, y := math.Log(p.size), math.Log(p.value)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; n >= 2 && d > 1e-9 {
		return (n*sxy - sx*sy) / d, true
	}
	return 0, false
}

func printGrowth(out io.Writer, all figures) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "benchmark\tfigure\tgrows as size to the\t")
	growth := all.growth()
	for _, name := range names(growth) {
		e, ok := exponent(growth[name])
		if !ok {
			continue
		}
		mark := ""
		if e > steep {
			mark = "steep"
		}
		family, unit, _ := strings.Cut(name, " ")
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%s\n", family, unit, e, mark)
	}
	_ = w.Flush()
}

const reference = "BenchmarkReference"

// lasting returns what can be compared between machines, by benchmark and unit.
func lasting(all figures) map[string]float64 {
	out := map[string]float64{}
	base := all[reference]["cpu-µs/op"]
	for name, units := range all {
		for unit, v := range units {
			switch {
			case name == reference:
			case strings.HasPrefix(unit, "cpu-µs") && base > 0:
				out[name+" "+unit+" by reference"] = v / base
			case unit == "allocs/op", unit == "commits/op", unit == "told/op", unit == "heard/op", unit == "stalls-written/change", unit == "process/direct":
				out[name+" "+unit] = v
			}
		}
	}
	for name, points := range all.growth() {
		if e, ok := exponent(points); ok && !strings.HasSuffix(name, "ns/op") {
			out["growth of "+name] = e
		}
	}
	return out
}

func isWorse(name string, was, is float64) bool {
	if strings.HasPrefix(name, "growth of ") {
		return is > was+growthWorse
	}
	return is > was*(1+worse)
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
