package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkDev measures a cluster of one node as somebody sees it who tries Setpoint: from the command to the line that says it is ready, what the server and a
// plugin hold in memory then, and from the start of `setpoint job run` to the report that the last of 1,000 simulated tasks runs. The command waits for a
// second more, to see that they go on; that is not counted. Each run has an empty data directory.
//
// rss is what is resident; pss shares out what several processes have in common, above all the one executable that all of them are.
func BenchmarkDev(b *testing.B) {
	took := map[string][]time.Duration{}
	memory := map[string]float64{}
	for b.Loop() {
		w := &world{dir: filepath.Join(b.TempDir(), "d")}
		began := time.Now()
		c, err := w.launch("dev", os.Environ(), "dev", "--nodes", "1", "--data-dir", w.dir, "--listen", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := w.end(ctx); err != nil {
				b.Error(err)
			}
		})
		says(b, c, "ready: ")
		took["ready"] = append(took["ready"], time.Since(began))
		for kind, name := range map[string]string{"server": "", "plugin": "constraint"} {
			pid, err := w.pid(kind, name)
			if err != nil {
				b.Fatal(err)
			}
			of := resident(b, pid)
			for _, unit := range []string{"rss", "pss"} {
				memory[kind+"-"+unit] = max(memory[kind+"-"+unit], of[unit]/1024)
			}
		}
		spec := filepath.Join(b.TempDir(), "many.hcl")
		if err := os.WriteFile(spec, []byte(manySims), 0o600); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		up, err := w.launch("run", os.Environ(), "job", "run", spec, "--wait", "1m", "--data-dir", w.dir)
		if err != nil {
			b.Fatal(err)
		}
		<-up.done
		if out, _ := os.ReadFile(up.out); up.cmd.ProcessState.ExitCode() != 0 || !bytes.Contains(out, []byte("1000/1000 up")) {
			b.Fatalf("the job does not run: %v\n%s", up.cmd.ProcessState, out)
		}
		took["thousand-up"] = append(took["thousand-up"], lastSeen(b, w, "sims").Sub(began))
		_ = w.end(b.Context())
	}
	for name, of := range took {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Milliseconds()), name+"-p50-ms")
	}
	for name, mib := range memory {
		b.ReportMetric(mib, name+"-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// lastSeen returns when an agent was last heard about a task of a job.
func lastSeen(b *testing.B, w *world, job string) time.Time {
	b.Helper()
	c, err := w.launch("events", os.Environ(), "events", "--job", job, "-o", "json", "--data-dir", w.dir)
	if err != nil {
		b.Fatal(err)
	}
	<-c.done
	out, err := os.ReadFile(c.out)
	if err != nil {
		b.Fatal(err)
	}
	var events []struct {
		Kind string
		Time time.Time
	}
	if err := json.Unmarshal(out, &events); err != nil {
		b.Fatalf("%v: %.200s", err, out)
	}
	var last time.Time
	for _, e := range events {
		if e.Kind == "task_observed" && e.Time.After(last) {
			last = e.Time
		}
	}
	return last
}

const manySims = `job "sims" {
  count = 1000
  task {
    driver = "sim"
    resources {
      cpu    = 0.001
      memory = "1MiB"
    }
  }
}
`

// says waits until a process prints some text.
func says(b testing.TB, c *child, text string) {
	b.Helper()
	for range 3000 {
		out, err := os.ReadFile(c.out)
		if err != nil {
			b.Fatal(err)
		}
		if bytes.Contains(out, []byte(text)) {
			return
		}
		select {
		case <-c.done:
			if out, _ := os.ReadFile(c.out); bytes.Contains(out, []byte(text)) {
				return
			}
			b.Fatalf("it ended: %s", out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.Fatalf("it does not say %q within half a minute", text)
}

// resident returns how many KiB of a process are in memory: rss all of them, pss its share of what several have, anonymous what is in no file.
func resident(b testing.TB, pid int) map[string]float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "Rss:" && f[0] != "Pss:" && f[0] != "Anonymous:" {
			continue
		}
		kib, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		out[strings.ToLower(strings.TrimSuffix(f[0], ":"))] = kib
	}
	return out
}
