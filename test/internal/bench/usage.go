package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process uses of its machine.
type Usage struct {
	Files   int
	Threads int
	RSS     int64 // bytes in memory
	CPU     time.Duration
}

// What a process may use more at the end than at the beginning, besides a tenth. The runtime keeps threads and memory that it had once: threads for calls
// that block, memory until the system asks for it.
const (
	moreFiles   = 8
	moreThreads = 8
	moreRSS     = 64 << 20
)

// UsageOf returns what a process uses, or nothing if there is none.
func UsageOf(pid int) Usage {
	u := Usage{Files: Descriptors(pid)}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return Usage{}
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		switch {
		case err != nil:
		case name == "Threads":
			u.Threads = int(n)
		case name == "VmRSS":
			u.RSS = n << 10
		}
	}
	u.CPU = cpuOf(pid)
	return u
}

// ticksPerSecond is in what the kernel counts processor time for those who ask it: the same on all that Linux runs on today.
const ticksPerSecond = 100

// cpuOf returns how much processor time a process has used, in user and kernel mode.
func cpuOf(pid int) time.Duration {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])) // from the third field on
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	kernel, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+kernel) * time.Second / ticksPerSecond
}

// Usage returns what the server uses.
func (c *Cluster) Usage() Usage { return UsageOf(c.ServerPID()) }

// Descriptors returns how many files a process has open.
func Descriptors(pid int) int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// grew holds a half of V7: it says what a process uses that it did not at first, or nothing. Agents more than at first may each have a connection more.
func grew(first, now Usage, agents int) string {
	var what []string
	if most := first.Files + first.Files/10 + moreFiles + max(0, agents); now.Files > most {
		what = append(what, fmt.Sprintf("%d open files, at first %d", now.Files, first.Files))
	}
	if most := first.Threads + first.Threads/10 + moreThreads; now.Threads > most {
		what = append(what, fmt.Sprintf("%d threads, at first %d", now.Threads, first.Threads))
	}
	if most := first.RSS + first.RSS/10 + moreRSS; now.RSS > most {
		what = append(what, fmt.Sprintf("%d MiB in memory, at first %d", now.RSS>>20, first.RSS>>20))
	}
	return strings.Join(what, "; ")
}

// checkUsage holds a half of V7: when the test is over, the server comes down to what it used at first.
func (c *Cluster) checkUsage() {
	if c.t.Failed() || c.serverAway.Load() || slices.Contains(c.opts.Unchecked, "V7") {
		return
	}
	what := ""
	for range int(Soon / lookEvery) {
		now := c.Usage()
		if slices.Contains(c.opts.Unchecked, "V7 memory") { // what very much took is given back over minutes
			now.RSS = c.first.RSS
		}
		if what = grew(c.first, now, len(c.allAgents())-len(c.opts.Nodes)); what == "" {
			return
		}
		c.Pass(lookEvery)
	}
	c.t.Errorf("V7: the server has %s", what)
}

// badWords are those that no log may contain.
var badWords = []string{"panic:", "panicked", "fatal error:", "DATA RACE"}

// panics holds the other half of V7: it says where a log speaks of a panic, or nothing.
func panics(log string) string {
	for _, word := range badWords {
		if i := strings.Index(log, word); i >= 0 {
			return fmt.Sprintf("it says %q:\n%s", word, log[max(0, i-200):min(len(log), i+2000)])
		}
	}
	return ""
}

// checkLogs finds what no log may say (V7).
func (c *Cluster) checkLogs() {
	if slices.Contains(c.opts.Unchecked, "V7") {
		return
	}
	for _, path := range c.logs() {
		data, err := os.ReadFile(path)
		if err != nil {
			c.t.Error(err)
			continue
		}
		if said := panics(string(data)); said != "" {
			c.t.Errorf("V7: %s: %s", path, said)
		}
	}
}
