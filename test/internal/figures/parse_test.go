package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `
BenchmarkReference-2   10  100 ns/op  50.0 cpu-µs/op
BenchmarkReference-2   10  100 ns/op  40.0 cpu-µs/op
BenchmarkRolling/nodes=100-2   1  10 ns/op  80.0 cpu-µs/step  1000 allocs/op
BenchmarkRolling/nodes=1000-2  1  10 ns/op  8000 cpu-µs/step  10000 allocs/op
`

func TestGrowth(t *testing.T) {
	var out strings.Builder
	printGrowth(&out, parse(sample))
	if got := out.String(); !strings.Contains(got, "BenchmarkRolling/nodes  cpu-µs/step  2.00                  steep") || !strings.Contains(got, "allocs/op    1.00") {
		t.Errorf("prints\n%s", got)
	}
	if e, ok := exponent([]point{{1, 1}, {10, 10}, {100, 100}}); !ok || math.Abs(e-1) > 1e-9 {
		t.Errorf("a line grows as %v %v", e, ok)
	}
	if _, ok := exponent([]point{{10, 1}}); ok {
		t.Error("one point has an exponent")
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file, baseline := filepath.Join(dir, "now"), filepath.Join(dir, "baseline.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(sample)
	if err := run(&strings.Builder{}, []string{"save", file, baseline}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	// Another machine is twice as fast, which makes no difference; 10 % more is no loss.
	write(strings.NewReplacer("50.0", "20.0", "40.0", "20.0", "80.0", "44.0", "8000", "4000").Replace(sample))
	if err := run(&out, []string{"check", file, baseline}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	write(strings.Replace(sample, "8000", "9900", 1))
	out.Reset()
	if err := run(&out, []string{"check", file, baseline}); err == nil || !strings.Contains(out.String(), "worse: BenchmarkRolling/nodes=1000 cpu-µs/step by reference was 200, is 248") {
		t.Errorf("%v\n%s", err, &out)
	}
}
