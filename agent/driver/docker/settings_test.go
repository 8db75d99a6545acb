package docker

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"

	"github.com/setpointd/setpoint/agent/driver"
)

func TestSettings(t *testing.T) {
	got, err := parseSettings(map[string]string{
		"image": "web:1", "pull": "always", "args": `["-v", "1"]`, "network": "back", "read_only": "true", "new_privileges": "true", "cap_add": `["NET_ADMIN"]`,
		"cap_drop": `["ALL"]`, "init": "true", "pids": "100", "cpu_limit": "1.5", "shm_size": "64MiB", "memory_limit": "1GiB", "log_file_size": "1MB", "log_files": "2",
		"ports":  `{"http": 80, "dns": ["53/udp", 53]}`,
		"mounts": `[{"source": "/srv", "target": "/data", "read_only": true}]`, "hostname": "web-1",
		"extra_hosts": `{"db": "10.0.0.7", "node": ["host-gateway", "::1"]}`, "labels": `{"team": "shop"}`, "ulimits": `{"nofile": "1024:4096", "core": 0, "memlock": "unlimited"}`,
	})
	want := settings{
		Image: "web:1", Pull: pullAlways, Args: []string{"-v", "1"}, Network: "back", ReadOnly: true, NewPrivileges: true, CapAdd: []string{"NET_ADMIN"},
		CapDrop: []string{"ALL"}, Init: true, Pids: 100, CPU: 1500, ShmSize: 64 << 20, Memory: 1 << 30, Log: LogLimits{1_000_000, 2},
		Ports:  map[string][]containerPort{"http": {{80, network.TCP}}, "dns": {{53, network.UDP}, {53, network.TCP}}},
		Mounts: []mountSetting{{Source: "/srv", Target: "/data", ReadOnly: true}}, Hostname: "web-1", Labels: map[string]string{"team": "shop"},
		Hosts:   map[string]addresses{"db": {"10.0.0.7"}, "node": {"host-gateway", "::1"}},
		Ulimits: []*container.Ulimit{{Name: "core"}, {Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 1024, Hard: 4096}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := parseSettings(map[string]string{"image": "a"}); err != nil || !reflect.DeepEqual(got, settings{Image: "a", Pull: pullMissing}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadSettings(t *testing.T) {
	for setting, want := range map[string]string{
		"pull=sometimes":                       `"sometimes" is none of missing, always, never`,
		"args=-v":                              "it is no list of texts",
		`args=["a"] ["b"]`:                     "there is something after it",
		"network=container:web":                "neither bridge, host, none nor the name of a network",
		"ports=80":                             "it is no map of ports",
		`ports={"http": 0}`:                    `"0" is no port`,
		`ports={"http": 70000}`:                `"70000" is no port`,
		`ports={"http": "80/http"}`:            `"80/http" is no port`,
		"init=maybe":                           "neither true nor false",
		"pids=0":                               "no number from 1 on",
		"log_files=0":                          "no number from 1 on",
		"memory_limit=1MiB":                    "of 6291456 bytes at least",
		"cpu_limit=lots":                       "no number of cores",
		"cpu_limit=NaN":                        "no number of cores",
		"shm_size=1 parsec":                    "no amount",
		"shm_size=-1MiB":                       "no amount",
		`mounts=[{"target": "x"}]`:             "begins with a slash",
		`mounts=[{"target": "/"}]`:             "not all of it",
		`mounts=[{"target": "/x", "to": "y"}]`: "unknown field",
		`mounts=[{"type": "bind", "source": "here", "target": "/x"}]`: "begins with a slash",
		`mounts=[{"type": "volume", "source": "/x", "target": "/x"}]`: "is its name",
		`mounts=[{"type": "tmpfs", "source": "x", "target": "/x"}]`:   "has no source",
		`mounts=[{"type": "tmpfs", "size": "x", "target": "/x"}]`:     "no amount",
		`mounts=[{"type": "volume", "size": "1MiB", "target": "/x"}]`: "only a tmpfs has a size",
		`mounts=[{"type": "npipe", "source": "x", "target": "/x"}]`:   `type "npipe" is none of`,
		"hostname=a b":                        "no name of a host",
		"hostname=" + strings.Repeat("a", 64): "no name of a host",
		`extra_hosts=["db=10.0.0.7"]`:         "no map of addresses",
		`extra_hosts={"db": "here"}`:          `"here" is neither an address nor host-gateway`,
		`extra_hosts={"d b": "::1"}`:          "no name of a host",
		"labels=a":                            "no map of texts",
		`labels={"setpoint.task": "x"}`:       "are Setpoint's own",
		"ulimits=1024":                        "no map of limits",
		`ulimits={"files": 1}`:                `no limit "files"; there are as, core`,
		`ulimits={"nofile": "2:1"}`:           "2 is above 1",
		`ulimits={"nofile": "unlimited:1"}`:   "unlimited is above 1",
		`ulimits={"nofile": "many"}`:          "neither a number nor unlimited",
		`ulimits={"nofile": -1}`:              "neither a number nor unlimited",
		"privileged=true":                     `no setting "privileged"; it has args, cap_add,`,
	} {
		name, value, _ := strings.Cut(setting, "=")
		if _, err := parseSettings(map[string]string{"image": "a", name: value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}

func TestMountKinds(t *testing.T) {
	for source, want := range map[string]string{"/srv": "bind", "cache": "volume", "": "volume"} {
		m := mountSetting{Source: source, Target: "/x"}
		if got, err := m.mount(); err != nil || string(got.Type) != want {
			t.Errorf("%q becomes %+v, %v", source, got, err)
		}
	}
}

func TestPlan(t *testing.T) {
	d, err := New(Options{Dir: t.TempDir(), Host: "unix:///nowhere.sock", Log: LogLimits{MaxBytes: 1000, MaxFiles: 2}})
	if err != nil {
		t.Fatal(err)
	}
	all := &system.Info{MemoryLimit: true, SwapLimit: true, CPUShares: true, CPUCfsQuota: true, PidsLimit: true}
	spec := driver.Spec{
		TaskID: "web/1/2", Env: map[string]string{"B": "2", "A": "1"}, StopGrace: 1500 * time.Millisecond, StopSignal: "INT",
		Resources: driver.Resources{CPUMilli: 250, MemoryBytes: 1 << 20}, Labels: map[string]string{"job": "web", "task": "another", "owner": "somebody"},
	}
	got, err := d.plan(spec, settings{Image: "a", Pids: 9, CPU: 500}, all)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != d.container("web/1/2") || !slices.Equal(got.Config.Env, []string{"A=1", "B=2"}) || *got.Config.StopTimeout != 2 || got.Config.StopSignal != "INT" {
		t.Errorf("config is %+v", got.Config)
	}
	if l := got.Config.Labels; l["setpoint.job"] != "web" || l[labelTask] != "web/1/2" || l[labelOwner] != d.owner || len(l) != 3 {
		t.Errorf("labels are %v", l)
	}
	h := got.HostConfig
	if h.Memory != leastMemory || h.MemorySwap != leastMemory || h.CPUShares != 256 || *h.PidsLimit != 9 || h.NanoCPUs != 500_000_000 {
		t.Errorf("resources are %+v", h.Resources)
	}
	if h.AutoRemove || h.Privileged || h.RestartPolicy.Name != container.RestartPolicyDisabled || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) {
		t.Errorf("host configuration is %+v", h)
	}
	if h.LogConfig.Config["max-size"] != "1000" || h.LogConfig.Config["max-file"] != "2" {
		t.Errorf("log configuration is %+v", h.LogConfig)
	}
	spec.Secrets = driver.Secrets{Dir: "/dev/shm/x"}
	got, err = d.plan(spec, settings{Image: "a"}, all)
	if m := got.HostConfig.Mounts; err != nil || len(m) != 1 || m[0].Source != "/dev/shm/x" || m[0].Target != "/run/secrets" || !m[0].ReadOnly || got.Config.Env[2] != "SETPOINT_SECRETS_DIR=/run/secrets" {
		t.Errorf("secrets are mounted as %+v, with %q, %v", m, got.Config.Env, err)
	}
	spec.Secrets = driver.Secrets{}
	more := settings{Image: "a", Memory: 1 << 30, CPU: 500, Pids: 9, Log: LogLimits{5000, 3}}
	got, err = d.plan(spec, more, all)
	if h := got.HostConfig; err != nil || h.Memory != 1<<30 || h.LogConfig.Config["max-size"] != "5000" || h.LogConfig.Config["max-file"] != "3" {
		t.Errorf("host configuration is %+v, %v", h, err)
	}
	got, err = d.plan(spec, settings{
		Image: "a", Memory: noLimit, Hostname: "h", Hosts: map[string]addresses{"b": {"::1"}, "a": {"10.0.0.1", "10.0.0.2"}}, Labels: map[string]string{"team": "shop"},
		Ulimits: []*container.Ulimit{{Name: "core"}},
	}, all)
	if h := got.HostConfig; err != nil || h.Memory != 0 || h.MemorySwap != 0 || !slices.Equal(h.ExtraHosts, []string{"a:10.0.0.1", "a:10.0.0.2", "b:::1"}) || len(h.Ulimits) != 1 {
		t.Errorf("host configuration is %+v, %v", h, err)
	}
	if c := got.Config; c.Hostname != "h" || c.Labels["team"] != "shop" || c.Labels[labelTask] != "web/1/2" {
		t.Errorf("config is %+v", c)
	}
	got, err = d.plan(spec, more, &system.Info{})
	if r := got.HostConfig.Resources; err != nil || r.Memory != 0 || r.CPUShares != 0 || r.NanoCPUs != 0 || r.PidsLimit != nil {
		t.Errorf("an engine without control groups is asked for %+v, %v", r, err)
	}
	if got := unenforced(spec.Resources, more, &system.Info{MemoryLimit: true, CPUCfsQuota: true}); len(got) != 2 || !strings.HasPrefix(got[0], "cpu: ") ||
		!strings.HasPrefix(got[1], "pids: ") {
		t.Errorf("unenforced is %q", got)
	}
	if got := unenforced(driver.Resources{}, settings{}, &system.Info{}); got != nil {
		t.Errorf("unenforced is %q", got)
	}
}

func TestNames(t *testing.T) {
	d := &Driver{owner: "me"}
	seen := make(map[string]string)
	for _, id := range []string{"a/1/1", "a-1-1", "A/1/1", "ü", strings.Repeat("x", 300) + "1", strings.Repeat("x", 300) + "2", ".", "-"} {
		name := d.container(id)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %s", id, other, name)
		}
		seen[name] = id
		bad := strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
		})
		if bad || len(name) > 100 {
			t.Errorf("%q becomes %q", id, name)
		}
	}
	if name := (&Driver{owner: "you"}).container("a/1/1"); seen[name] != "" {
		t.Errorf("two agents have the name %s", name)
	}
}

func TestStatusOf(t *testing.T) {
	const began, ended = "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:06Z"
	for name, c := range map[string]struct {
		state container.State
		want  string
	}{
		"created":        {container.State{Status: "created", StartedAt: "0001-01-01T00:00:00Z"}, "not_started"},
		"running":        {container.State{Status: "running", Running: true, StartedAt: began}, "running"},
		"paused":         {container.State{Status: "paused", Running: true, Paused: true, StartedAt: began}, "running"},
		"exited":         {container.State{Status: "exited", StartedAt: began, FinishedAt: ended, ExitCode: 3}, "exited 3  500ms "},
		"being removed":  {container.State{Status: "removing", StartedAt: began, FinishedAt: ended, ExitCode: 3}, "exited 3  500ms "},
		"killed":         {container.State{Status: "exited", StartedAt: began, FinishedAt: ended, ExitCode: 137}, "exited 137 KILL 500ms "},
		"out of range":   {container.State{Status: "exited", StartedAt: began, FinishedAt: ended, ExitCode: 255}, "exited 255  500ms "},
		"ended at once":  {container.State{Status: "exited", StartedAt: ended, FinishedAt: began}, "exited 0  0s "},
		"never finished": {container.State{Status: "exited", StartedAt: began, FinishedAt: "0001-01-01T00:00:00Z"}, "exited -1  0s the engine does not tell how it ended"},
	} {
		got := statusOf(&container.InspectResponse{State: &c.state})
		said := string(got.State)
		if e := got.Exit; e != nil {
			said = fmt.Sprintf("%s %d %s %s %s", said, e.Code, e.Signal, e.Finished.Sub(e.Started), e.Err)
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}

func TestHealthOf(t *testing.T) {
	last := func(code int, text string) []*container.HealthcheckResult {
		return []*container.HealthcheckResult{{ExitCode: 0}, {ExitCode: code, Output: text}}
	}
	for name, c := range map[string]struct {
		health *container.Health
		want   driver.Health
	}{
		"none":      {nil, driver.Health{}},
		"off":       {&container.Health{Status: container.NoHealthcheck}, driver.Health{}},
		"begins":    {&container.Health{Status: container.Starting}, driver.Health{Checked: true, Message: "no check has ended yet"}},
		"healthy":   {&container.Health{Status: container.Healthy, Log: last(0, "ok")}, driver.Health{Checked: true, Healthy: true, Message: "healthy"}},
		"fails":     {&container.Health{Status: container.Healthy, Log: last(1, "no\n answer")}, driver.Health{Checked: true, Healthy: true, Message: "check ended with 1: no answer"}},
		"unhealthy": {&container.Health{Status: container.Unhealthy, Log: last(2, "")}, driver.Health{Checked: true, Failed: true, Message: "check ended with 2: "}},
	} {
		if got := healthOf(c.health); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestNoEngine(t *testing.T) {
	d, err := New(Options{Dir: t.TempDir(), Host: "unix://" + t.TempDir() + "/none.sock"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Fingerprint(t.Context()); err == nil || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("fingerprint returned %v", err)
	}
	h := driver.Handle{Driver: Name, TaskID: "job/1/1"}
	if _, err := d.Recover(t.Context(), h); err == nil {
		t.Error("recover knows what became of the task")
	}
	if _, err := d.List(t.Context()); err == nil {
		t.Error("list knows what there is")
	}
	if _, err := New(Options{Dir: t.TempDir(), Host: "nonsense"}); err == nil {
		t.Error("an address that is none is taken")
	}
}
