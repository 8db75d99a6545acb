package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/devcluster"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestAgentFlags(t *testing.T) {
	dir := t.TempDir()
	a := &app{errOut: new(strings.Builder), env: func(string) string { return "" }, dataDir: dir}
	cfg, err := a.agentConfig(&agentFlags{
		join: "SPJT-1-a-b@server:7480", name: "n4", labels: []string{"disk=ssd", "note=a=b"}, attribute: []string{"rack=r1"}, scripts: "/etc/a.d", secrets: "/run/s", drivers: []string{"process", "sim"},
		docker: "tcp://engine:2375", cpu: 2.5, memory: "1.5GiB", units: map[string]int64{"gpu": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultAgent()
	want.DataDir, want.Server, want.Name, want.Drivers = dir, "server:7480", "n4", []string{"process", "sim"}
	want.Labels = map[string]string{"disk": "ssd", "note": "a=b"}
	want.Docker.Host = "tcp://engine:2375"
	want.Attributes, want.AttributesDir, want.SecretsDir = map[string]string{"rack": "r1"}, "/etc/a.d", "/run/s"
	want.Capacity = cluster.Resources{MilliCPU: 2500, Memory: 3 << 29, Units: map[string]int64{"gpu": 2}}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}

	// A later start needs no words; those that it has win.
	if err := noteAgent(cfg); err != nil {
		t.Fatal(err)
	}
	again, err := a.agentConfig(&agentFlags{cpu: 4})
	if err != nil {
		t.Fatal(err)
	}
	if again.Server != "server:7480" || again.Capacity.MilliCPU != 4000 || again.Capacity.Memory != 3<<29 || !reflect.DeepEqual(again.Drivers, want.Drivers) ||
		!reflect.DeepEqual(again.Attributes, want.Attributes) || again.AttributesDir != want.AttributesDir || again.SecretsDir != want.SecretsDir || again.Docker.Host != "tcp://engine:2375" {
		t.Errorf("at a later start: %+v", again)
	}
	if r, err := devcluster.Read(dir); err != nil || r.PID != os.Getpid() || !r.Alive() {
		t.Errorf("who the agent is: %+v, %v", r, err)
	}
}

func TestAgentFlagsThatAreWrong(t *testing.T) {
	server := t.TempDir()
	if err := os.Mkdir(datadir.Dir(server).Authority(), 0o700); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, settingsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	join := "--join=t@h:1"
	tests := []struct {
		args   []string
		code   int
		errOut []string
	}{
		{[]string{}, exitRefused, []string{"neither a server nor a token", "setpoint token create"}},
		{[]string{"--join", "token"}, exitRefused, []string{"--join has no server", "TOKEN@HOST:PORT"}},
		{[]string{join, "--label", "disk"}, exitRefused, []string{`bad --label "disk"`}},
		{[]string{join, "--label", "=x"}, exitRefused, []string{"bad --label", "--label KEY=VALUE"}},
		{[]string{join, "--attribute", "rack"}, exitRefused, []string{`bad --attribute "rack"`, "--attribute KEY=VALUE"}},
		{[]string{join, "--cpu", "-1"}, exitRefused, []string{"bad --cpu"}},
		{[]string{join, "--memory", "much"}, exitRefused, []string{`bad --memory "much"`, "8GiB"}},
		{[]string{join, "--unit", "cpu=1"}, exitRefused, []string{"bad --unit cpu=1"}},
		{[]string{join, "--driver", "rocket"}, exitRefused, []string{`no driver "rocket"`}},
		{[]string{join, "--docker-host", "engine"}, exitRefused, []string{"bad --docker-host", "tcp://127.0.0.1:2376"}},
		{[]string{join, "--data-dir", server}, exitRefused, []string{"is a server's data directory", "agents/n4"}},
		{[]string{"--data-dir", damaged}, exitError, []string{"read what was said at the last start", settingsFile}},
		{[]string{join, "--config", "/does/not/exist"}, exitRefused, []string{"/does/not/exist"}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			execute(t, "", append([]string{"agent", "--data-dir", t.TempDir()}, tt.args...)...).expect(t, tt.code, nil, tt.errOut)
		})
	}
}

// What a configuration said of the process driver holds at a start at which nothing is said.
func TestProcessSettingsAreRemembered(t *testing.T) {
	cfg := config.DefaultAgent()
	cfg.DataDir, cfg.Server = t.TempDir(), "127.0.0.1:7480"
	cfg.Process = config.ProcessDriver{Enforce: config.EnforceRequired, CgroupParent: "/setpoint"}
	if err := noteAgent(cfg); err != nil {
		t.Fatal(err)
	}
	again := config.DefaultAgent()
	again.DataDir = cfg.DataDir
	if err := remember(again); err != nil || again.Process != cfg.Process {
		t.Errorf("remembered %+v, %v", again.Process, err)
	}
}
