package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// A server that may open few files starts the plugins that it can, and says of the others what it lacks, not that they are invalid.
func Test17HFewFiles(t *testing.T) {
	var config strings.Builder
	for i := range 6 {
		config.WriteString(pluginBlock(fmt.Sprintf("f%d", i), faultPlugin(t), nil, ""))
	}
	c := start(t, bench.Options{Config: config.String(), Limits: []string{"-n 64"}})
	lacking(t, c, "too many open files", "raise the host's limit of open files (ulimit -n")
}

// A server that may start no more processes says so of a plugin that has ended, and has it back once it may. It may start no more threads either, which Go's
// runtime does not survive; so it is left alone as long as that lasts, and has the threads that it needs before.
func Test17HFewProcesses(t *testing.T) {
	for _, tool := range []string{"prlimit", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	opts := bench.Options{SampleEvery: time.Hour}
	if os.Geteuid() == 0 {
		opts.User = 64999 // the limit is not for root
	}
	c := start(t, opts)
	back(c, 10*time.Second)
	var busy sync.WaitGroup
	for range 16 {
		busy.Go(func() { c.CLI("plugin", "inspect", "constraint") })
	}
	busy.Wait()
	pid := pids(c, "constraint")["constraint"]
	const what = "resource temporarily unavailable"
	c.LimitServer("nproc", 1)
	kill(t, pid)
	logged(t, c, "plugin does not serve", what)
	c.LimitServer("nproc", 4096)
	c.Must("plugin", "reload", "constraint") // it may be in a crash loop by now
	back(c, 10*time.Second)
	d := inspectPlugin(t, c, "constraint")
	t.Logf("it said: %s", d.LastError)
	if !strings.Contains(d.LastError, what) || !strings.Contains(d.LastError, "raise the host's limit of processes (ulimit -u") {
		t.Errorf("it said %q", d.LastError)
	}
}

// lacking waits for a stall of a plugin that says what the server lacks, and what to do.
func lacking(t *testing.T, c *bench.Cluster, what, advice string) {
	t.Helper()
	c.Until(20*time.Second, "a plugin's stall says "+what, func() (bool, any) {
		stalls := pluginStalls(c)
		for name, all := range stalls {
			for _, s := range all {
				if strings.Contains(s.Message, what) && strings.Contains(s.Message, advice) && s.Code == "plugin_unavailable" {
					t.Logf("%s: %s", name, s.Message)
					return true, nil
				}
			}
		}
		return false, stalls
	})
}
