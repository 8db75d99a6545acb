package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/process"
)

// maxResidentKiB is what a shim may have of the machine's memory, code that it shares with other shims included.
const maxResidentKiB = 8 << 10

func TestShimIsSmall(t *testing.T) {
	shim := filepath.Join(t.TempDir(), "setpoint-shim")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", shim, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d, err := process.New(process.Options{Dir: t.TempDir(), Shim: []string{shim}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Start(t.Context(), driver.Spec{TaskID: "a/1/1", Command: []string{"sh", "-c", `i=0
		while [ $i -lt 20000 ]; do echo "line $i of what a task may print"; i=$((i+1)); done; echo $PPID; exec sleep 1000`}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := d.Stop(ctx, h, driver.StopRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := d.Wait(ctx, h); err != nil {
			t.Error(err)
		}
		if err := d.Remove(ctx, h); err != nil {
			t.Error(err)
		}
	})
	pid := ""
	for line, err := range d.Logs(t.Context(), h, driver.LogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if text := string(line.Text); !strings.HasPrefix(text, "line ") {
			pid = text
			break
		}
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		t.Fatal(err)
	}
	var resident, anonymous int
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &resident)
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &anonymous)
	}
	t.Logf("%d KiB resident, %d of them its own", resident, anonymous)
	if resident == 0 || resident > maxResidentKiB {
		t.Errorf("a shim has %d KiB resident, of which %d are its own; it may have %d", resident, anonymous, maxResidentKiB)
	}
}
