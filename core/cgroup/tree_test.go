package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const hybridMounts = `25 24 0:22 / /sys rw,nosuid - sysfs sysfs rw
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/mem\040ory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
35 30 0:28 / /elsewhere rw - cgroup cgroup rw,memory
`

func TestFind(t *testing.T) {
	tests := map[string]struct {
		mounts, own, parent string
		version             string
		want                []string // of each hierarchy, the directories with commas between
	}{
		"hybrid": {
			hybridMounts, "12:freezer:/\n4:memory:/jobs/a\n3:cpu,cpuacct:/b\n0::/user\n", "", "hybrid",
			[]string{"/sys/fs/cgroup/unified/user", "/sys/fs/cgroup/cpu,cpuacct/b", "/sys/fs/cgroup/mem ory/jobs/a"},
		},
		"named": {
			hybridMounts, "4:memory:/jobs/a\n", "setpoint", "hybrid",
			[]string{"/sys/fs/cgroup/unified/setpoint", "/sys/fs/cgroup/cpu,cpuacct/setpoint", "/sys/fs/cgroup/mem ory/setpoint"},
		},
		"a service with a group of its own": {
			"34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/system.slice/setpoint.service/agent\n", "", "v2",
			[]string{"/sys/fs/cgroup/system.slice/setpoint.service/agent,/sys/fs/cgroup/system.slice/setpoint.service"},
		},
		"a container that sees its own group as the root": {
			"34 30 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/abc/inner\n", "", "v1",
			[]string{"/sys/fs/cgroup/memory/inner"},
		},
		"outside of what is mounted": {"34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../other\n", "", "none", nil},
		"a parent never leaves it": {
			"34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n", "../../etc", "v2", []string{"/sys/fs/cgroup/etc"},
		},
		"nothing": {"25 24 0:22 / /sys rw,nosuid - sysfs sysfs rw\n", "", "", "none", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tree := find([]byte(test.mounts), []byte(test.own), test.parent)
			var got []string
			for _, h := range tree.hierarchies {
				got = append(got, strings.Join(h.dirs, ","))
			}
			if !slices.Equal(got, test.want) || tree.Version() != test.version {
				t.Errorf("found %s %q, want %s %q", tree.Version(), got, test.version, test.want)
			}
		})
	}
}

func write2(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

// In a directory that looks like version 2, what is written is what the kernel wants.
func TestLimitsOfVersion2(t *testing.T) {
	root := t.TempDir()
	write2(t, filepath.Join(root, "cgroup.controllers"), "cpu memory pids\n")
	write2(t, filepath.Join(root, "cgroup.subtree_control"), "memory pids\n")
	group := filepath.Join(root, "a")
	for _, file := range []string{"memory.max", "memory.swap.max", "pids.max", "cpu.max", "cpu.weight"} {
		write2(t, filepath.Join(group, file), "")
	}
	tree := find([]byte("34 30 0:30 / "+root+" rw - cgroup2 cgroup2 rw\n"), []byte("0::/\n"), "")
	if _, lacks, err := tree.Make("a", Limits{CPUShare: 500, CPUQuota: 1500}); err != nil || len(lacks) > 0 {
		t.Fatalf("lacks %v, %v", lacks, err)
	}
	if got := read(t, filepath.Join(root, "cgroup.subtree_control")); got != "+cpu" {
		t.Errorf("what is passed on is %q", got)
	}
	write2(t, filepath.Join(root, "cgroup.subtree_control"), "cpu memory pids\n")
	g, lacks, err := tree.Make("a", Limits{Memory: 64 << 20, PIDs: 10})
	if err != nil || len(lacks) > 0 || !slices.Equal(g.Dirs, []string{group}) {
		t.Fatalf("made %v, lacks %v, %v", g, lacks, err)
	}
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "10", "cpu.max": "150000 100000", "cpu.weight": "500",
	} {
		if got := read(t, filepath.Join(group, file)); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

// What cannot be had is told by controller, and the rest is in force.
func TestLacks(t *testing.T) {
	root := t.TempDir()
	write2(t, filepath.Join(root, "cgroup.controllers"), "pids\n")
	write2(t, filepath.Join(root, "service/cgroup.controllers"), "pids\n")
	write2(t, filepath.Join(root, "service/cgroup.subtree_control"), "pids\n")
	write2(t, filepath.Join(root, "service/a/pids.max"), "")
	tree := find([]byte("34 30 0:30 / "+root+" rw - cgroup2 cgroup2 rw\n"), []byte("0::/service\n"), "")
	g, lacks, err := tree.Make("a", Limits{Memory: 64 << 20, PIDs: 10})
	if err != nil || len(g.Dirs) != 1 || len(lacks) != 1 || lacks[Memory] == nil {
		t.Errorf("made %v, lacks %v, %v", g, lacks, err)
	}
	if _, _, err := find(nil, nil, "").Make("a", Limits{}); err == nil {
		t.Error("a group was made where there is nothing")
	}
	file := filepath.Join(root, "file")
	write2(t, file, "")
	tree = find([]byte("34 30 0:30 / "+file+" rw - cgroup cgroup rw,memory\n"), []byte("0:memory:/\n"), "")
	if g, lacks, err := tree.Make("a", Limits{Memory: 1}); err == nil || lacks[Memory] == nil || len(g.Dirs) > 0 {
		t.Errorf("made %v, lacks %v, %v", g, lacks, err)
	}
}

func TestNames(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"mine-b", "mine-a", "other"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree := find([]byte("34 30 0:30 / "+root+" rw - cgroup2 cgroup2 rw\n"), []byte("0::/\n"), "")
	if got := tree.Names("mine-"); !slices.Equal(got, []string{"mine-a", "mine-b"}) {
		t.Errorf("names are %q", got)
	}
	if err := tree.Group("mine-a").Remove(); err != nil {
		t.Error(err)
	}
	if err := (Group{Dirs: []string{filepath.Join(root, "never")}}).Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "mine-a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is left: %v", err)
	}
}

// Where a group of version 2 has processes of its own, nothing is passed on: the kernel would take some of it and make the groups below unusable.
func TestGroupsWithProcessesPassNothingOn(t *testing.T) {
	root := t.TempDir()
	service := filepath.Join(root, "a.service")
	write2(t, filepath.Join(root, "cgroup.controllers"), "cpu pids\n")
	for _, dir := range []string{service, filepath.Join(service, "agent")} {
		write2(t, filepath.Join(dir, "cgroup.type"), "domain\n")
		write2(t, filepath.Join(dir, "cgroup.controllers"), "cpu pids\n")
		write2(t, filepath.Join(dir, "cgroup.subtree_control"), "")
		write2(t, filepath.Join(dir, "cgroup.procs"), "")
		write2(t, filepath.Join(dir, "task/pids.max"), "")
	}
	mounts := []byte("34 30 0:30 / " + root + " rw - cgroup2 cgroup2 rw\n")
	write2(t, filepath.Join(service, "agent/cgroup.procs"), "17\n")
	g, lacks, err := find(mounts, []byte("0::/a.service/agent\n"), "").Make("task", Limits{PIDs: 4})
	if err != nil || len(lacks) > 0 || !slices.Equal(g.Dirs, []string{filepath.Join(service, "task")}) {
		t.Errorf("made %v, lacks %v, %v", g, lacks, err)
	}
	write2(t, filepath.Join(service, "cgroup.subtree_control"), "")
	write2(t, filepath.Join(service, "cgroup.procs"), "17\n")
	g, lacks, err = find(mounts, []byte("0::/a.service\n"), "").Make("task", Limits{PIDs: 4})
	if err != nil || lacks[PIDs] == nil || !strings.Contains(lacks[PIDs].Error(), "has processes of its own") || len(g.Dirs) != 1 {
		t.Errorf("made %v, lacks %v, %v", g, lacks, err)
	}
	if got := read(t, filepath.Join(service, "cgroup.subtree_control")); got != "" {
		t.Errorf("%q was passed on", got)
	}
	write2(t, filepath.Join(service, "task/cgroup.type"), "domain invalid\n")
	if g, _, err := find(mounts, []byte("0::/a.service\n"), "").Make("task", Limits{}); err == nil || len(g.Dirs) > 0 {
		t.Errorf("made %v, which takes no processes, %v", g, err)
	}
}
