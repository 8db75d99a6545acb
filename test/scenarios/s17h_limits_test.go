package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
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
	lacking(t, c, "too many open files", "raise the host's limit of open files (ulimit -n", func(string) bool { return true })
}

// A server that may start no more processes says so of a plugin that has ended, and has it back once it may.
func Test17HFewProcesses(t *testing.T) {
	for _, tool := range []string{"prlimit", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	opts := bench.Options{}
	if os.Geteuid() == 0 {
		opts.User = 64999 // the limit is not for root
	}
	c := start(t, opts)
	back(c, 10*time.Second)
	c.LimitServer("nproc", 1)
	kill(t, pids(c, "constraint")["constraint"])
	lacking(t, c, "resource temporarily unavailable", "raise the host's limit of processes (ulimit -u", func(name string) bool { return name == "constraint" })
	c.LimitServer("nproc", 4096)
	back(c, 60*time.Second)
}

// lacking waits for a stall of a plugin that says what the server lacks, and what to do.
func lacking(t *testing.T, c *bench.Cluster, what, advice string, which func(plugin string) bool) {
	t.Helper()
	c.Until(20*time.Second, "a plugin's stall says "+what, func() (bool, any) {
		stalls := pluginStalls(c)
		for name, all := range stalls {
			for _, s := range all {
				if which(name) && strings.Contains(s.Message, what) && strings.Contains(s.Message, advice) && s.Code == "plugin_unavailable" {
					t.Logf("%s: %s", name, s.Message)
					return true, nil
				}
			}
		}
		return false, stalls
	})
}
