package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fakeDriver can tell what it can do, or not; everything else of a driver is not asked.
type fakeDriver struct {
	driver.Driver
	name string
	err  error
}

func (f fakeDriver) Name() string { return f.name }

func (f fakeDriver) Fingerprint(context.Context) (driver.Fingerprint, error) {
	return driver.Fingerprint{Attributes: map[string]string{"driver." + f.name: "true"}}, f.err
}

func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDescribe(t *testing.T) {
	dir := root(t, map[string]string{
		"proc/meminfo":              "MemTotal:       16384 kB\nMemFree:         1 kB\n",
		"proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
		"etc/os-release":            "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
	})
	d, err := Describe(t.Context(), Options{
		Drivers: []driver.Driver{fakeDriver{name: "sim"}, fakeDriver{name: "process"}, fakeDriver{name: "docker", err: errors.New("no engine")}},
		Version: "1.0", Root: dir, Capacity: cluster.Resources{MilliCPU: 2500, Units: map[string]int64{"gpu": 2}},
	})
	if err == nil || err.Error() != "driver docker: no engine" {
		t.Errorf("error %v", err)
	}
	if d.Capacity.MilliCPU != 2500 || d.Capacity.Memory != 16<<20 || d.Capacity.Units["gpu"] != 2 {
		t.Errorf("capacity %+v", d.Capacity)
	}
	if !slices.Equal(d.Drivers, []string{"process", "sim"}) || d.OS != "linux" || d.Version != "1.0" || d.Hostname == "" || len(d.Addresses) == 0 {
		t.Errorf("described as %+v", d)
	}
	for name, want := range map[string]string{
		"kernel": "6.1.0", "kernel.release": "6.1.0-13-amd64", "os.name": "debian", "os.version": "12", "driver.process": "true", "driver.docker": "unavailable",
	} {
		if got := d.Attributes[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	again, _ := Describe(t.Context(), Options{Drivers: []driver.Driver{fakeDriver{name: "sim"}}, Root: dir})
	if !Equal(d, d) || Equal(d, again) {
		t.Error("descriptions are not compared")
	}
}

func TestDescribeThisMachine(t *testing.T) {
	d, err := Describe(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Capacity.MilliCPU < 1000 || d.Capacity.Memory < 1<<20 || d.Attributes["kernel"] == "" || BootID() == "" {
		t.Errorf("described as %+v", d)
	}
}

func TestNoProc(t *testing.T) {
	d, err := Describe(t.Context(), Options{Root: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "memory: ") || !strings.Contains(err.Error(), "kernel: ") {
		t.Errorf("error %v", err)
	}
	if d.OS == "" || d.Capacity.MilliCPU == 0 {
		t.Errorf("described as %+v", d)
	}
}
