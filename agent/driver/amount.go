package driver

import (
	"strconv"
	"strings"
)

// byteUnits are the endings of amounts of bytes, as in job files, the longer ones first.
var byteUnits = []struct {
	ending string
	bytes  float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// ParseBytes reads an amount in a driver's settings, such as 512MiB, or a plain number of bytes. It reports false for what is none.
func ParseBytes(text string) (int64, bool) {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(text, unit.ending)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		n *= unit.bytes
		if err != nil || !(n >= 0 && n < 1<<62) {
			return 0, false
		}
		return int64(n), true
	}
	return 0, false
}

// ParseCores reads a number of cores in a driver's settings, such as 0.5, as thousandths of them. It reports false for what is none.
func ParseCores(text string) (int64, bool) {
	cores, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cores >= 0 && cores <= 1e6) {
		return 0, false
	}
	return int64(cores*1000 + 0.5), true
}
