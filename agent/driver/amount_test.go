package driver

import "testing"

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "1.5 KB": 1500, "7": 7, "2TiB": 2 << 40, "-1": -1, "1PiB": -1, "": -1, "NaN": -1, "4611686018427387904": -1} {
		if got, ok := ParseBytes(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d bytes, %t", text, got, ok)
		}
	}
	for text, want := range map[string]int64{"1.5": 1500, "0": 0, "0.001": 1, "-1": -1, "two": -1, "1e7": -1, "NaN": -1} {
		if got, ok := ParseCores(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d thousandths of a core, %t", text, got, ok)
		}
	}
}
