package selector

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	labels := map[string]string{"zone": "a", "disk": "ssd", "empty": "", "topology.io/rack": "r1"}
	for text, want := range map[string]bool{
		"": true, " ": true,
		"zone=a": true, "zone==a": true, "zone=b": false, "zone = a": true, "nope=a": false, "nope=": false, "empty=": true,
		"zone!=a": false, "zone!=b": true, "nope!=a": true,
		"zone": true, "nope": false, "empty": true, "!zone": false, "!nope": true, "! nope": true,
		"zone in (a, b)": true, "zone in (b,c)": false, "zone in(a)": true, "nope in (a)": false,
		"zone notin (b, c)": true, "zone notin (a)": false, "nope notin (a)": true,
		"zone=a,disk=ssd": true, "zone=a,disk=hdd": false, "zone in (a,b),disk!=hdd,!gpu": true,
		"topology.io/rack=r1": true,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Matches(labels); got != want {
			t.Errorf("%q matches: %t, want %t", text, got, want)
		}
	}
}

// All mistakes are said at once.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"=a": `"=a" names no label`, "zone=a,": `"" names no label`, "zone is a": `"zone is a" is no condition`, "zone in a": `"zone in a" is no condition`,
		"zone in (a": `"zone in (a" is no condition`, "!": `"!" names no label`, "=a,zone=b,x y": "\"=a\" names no label\n\"x y\" is no condition",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
