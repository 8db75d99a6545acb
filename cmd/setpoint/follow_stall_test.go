package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// TestStallNotice holds that somebody who waits at a terminal is told why, once, and not of what passes by itself.
func TestStallNotice(t *testing.T) {
	f := newFake(t)
	f.wait(ssdStall())
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		a := &app{out: &out, env: func(string) string { return "" }, dataDir: string(f.dir), isTerminal: func(any) bool { return terminal }}
		s, err := a.connect()
		if err != nil {
			t.Fatal(err)
		}
		n := stallNotice{app: a, server: s}
		progress, begin := console.NewProgress(&out), time.Now()
		for _, at := range []struct {
			after time.Duration
			state string
			told  bool
		}{
			{0, "stalled", false},
			{time.Second, "starting", false},
			{2 * time.Second, "stalled", false},
			{3 * time.Second, "stalled", false},
			{4 * time.Second, "stalled", terminal},
			{9 * time.Second, "stalled", terminal},
		} {
			n.look(t.Context(), progress, webJob(at.state, 1, 2), begin.Add(at.after))
			if n := strings.Count(out.String(), "node.labels.disk == ssd"); (n > 0) != at.told {
				t.Errorf("terminal %v, after %s it is said %d times:\n%s", terminal, at.after, n, out.String())
			}
		}
		if n := strings.Count(out.String(), "Ctrl-C ends the waiting"); terminal && n != 1 {
			t.Errorf("it is told %d times", n)
		}
	}
}
