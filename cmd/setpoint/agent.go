package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/agent"
	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/docker"
	"github.com/setpointd/setpoint/agent/driver/process"
	"github.com/setpointd/setpoint/agent/driver/sim"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/devcluster"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/installed"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// agentFlags are what the command line says of an agent; it wins over configuration files.
type agentFlags struct {
	files     []string
	join      string
	server    string
	tokenFile string
	name      string
	labels    []string
	attribute []string
	scripts   string
	secrets   string
	drivers   []string
	docker    string
	cpu       float64
	memory    string
	units     map[string]int64
}

func (a *app) agentCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use: "agent", Short: "Run a node's agent", Args: takes(0, 0),
		Long: `Runs a node's agent: it joins a cluster once and runs the tasks that the server assigns to the node.

The first start needs a join token, which ` + "`setpoint token create`" + ` makes. Later ones need the data directory alone: the certificate is there, and what was
said at the last start. When an agent ends its tasks run on, and the next one finds them. On SIGUSR1 it stops them before it ends.`,
		Example: "  setpoint agent --join $(setpoint token create)@127.0.0.1:7480 --name n4 --data-dir /var/lib/setpoint-agent --label disk=ssd\n" +
			"  setpoint agent --data-dir /var/lib/setpoint-agent",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.agentConfig(&f)
			if err != nil {
				return err
			}
			return a.runAgent(cmd.Context(), cfg, f.token())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.files, "config", nil, "a configuration `file` or a directory of them; may be repeated")
	flags.StringVar(&f.join, "join", "", "`TOKEN@HOST:PORT` of the cluster to join")
	flags.StringVar(&f.server, "server", "", "the server's `HOST:PORT` (default: that of --join, or of the last start)")
	flags.StringVar(&f.tokenFile, "token-file", "", "a `file` with the join token, in place of --join")
	flags.StringVar(&f.name, "name", "", "the node's name (default: the host's)")
	flags.StringArrayVar(&f.labels, "label", nil, "a label `KEY=VALUE` that the node joins with; may be repeated")
	flags.StringArrayVar(&f.attribute, "attribute", nil, "an attribute `KEY=VALUE` of the node, before what is found; may be repeated")
	flags.StringVar(&f.scripts, "attributes-dir", "", "a `directory` of executables that print further attributes, KEY=VALUE a line")
	flags.StringVar(&f.secrets, "secrets-dir", "", "a `directory` on a tmpfs or ramfs for secrets of tasks (default: one in /dev/shm)")
	flags.StringSliceVar(&f.drivers, "driver", nil, "what the node can run: process, docker, sim (default: process)")
	flags.StringVar(&f.docker, "docker-host", "", "the `address` of the Docker engine for the driver docker (default: "+config.DockerHost+")")
	flags.Float64Var(&f.cpu, "cpu", 0, "cores that the node has to give (default: all)")
	flags.StringVar(&f.memory, "memory", "", "memory that the node has to give, such as 8GiB (default: all)")
	flags.StringToInt64Var(&f.units, "unit", nil, "countable units `NAME=COUNT` that the node has to give; may be repeated")
	return cmd
}

// token returns the token of --join.
func (f *agentFlags) token() string {
	token, _, _ := strings.Cut(f.join, "@")
	return token
}

// agentConfig joins configuration files, flags and what an earlier start left.
func (a *app) agentConfig(f *agentFlags) (*config.Agent, error) {
	files, err := a.loadConfig(f.files)
	if err != nil {
		return nil, err
	}
	cfg := files.Agent
	if cfg == nil {
		cfg = config.DefaultAgent()
	}
	cfg.DataDir = cmp.Or(a.dataDir, a.env("SETPOINT_DATA_DIR"), cfg.DataDir)
	if _, err := os.Stat(datadir.Dir(cfg.DataDir).Authority()); err == nil {
		return nil, refuse(fmt.Sprintf("Give the agent one of its own, such as --data-dir %s.", filepath.Join(datadir.Dir(cfg.DataDir).Nodes(), "n4")),
			"%s is a server's data directory", cfg.DataDir)
	}
	if files.Agent == nil {
		if err := remember(cfg); err != nil {
			return nil, err
		}
	}
	if err := f.apply(cfg); err != nil {
		return nil, err
	}
	if cfg.Server == "" {
		return nil, refuse("`setpoint agent --join TOKEN@HOST:PORT` says both; `setpoint token create` makes a token.", "neither a server nor a token was named")
	}
	return cfg, nil
}

// apply puts what the command line says into the configuration.
func (f *agentFlags) apply(cfg *config.Agent) error {
	if f.join != "" {
		_, server, found := strings.Cut(f.join, "@")
		if !found || server == "" {
			return refuse("Write TOKEN@HOST:PORT.", "--join has no server")
		}
		cfg.Server, cfg.TokenFile = server, ""
	}
	for _, set := range []struct {
		to    *string
		value string
	}{{&cfg.Server, f.server}, {&cfg.TokenFile, f.tokenFile}, {&cfg.Name, f.name}, {&cfg.AttributesDir, f.scripts}, {&cfg.SecretsDir, f.secrets}} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	for _, set := range []struct {
		flag  string
		to    *map[string]string
		pairs []string
	}{{"--label", &cfg.Labels, f.labels}, {"--attribute", &cfg.Attributes, f.attribute}} {
		given, err := keyed(set.flag, set.pairs)
		if err != nil {
			return err
		}
		if len(given) > 0 {
			*set.to = given
		}
	}
	if len(f.drivers) > 0 {
		cfg.Drivers = f.drivers
	}
	if f.docker != "" {
		if err := config.ValidateDockerHost(f.docker); err != nil {
			return refuse(err.Error()+".", "bad --docker-host")
		}
		cfg.Docker.Host = f.docker
	}
	return f.capacity(&cfg.Capacity)
}

// keyed reads pairs KEY=VALUE of a flag.
func keyed(flag string, pairs []string) (map[string]string, error) {
	out := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if err := errors.Join(cluster.ValidateLabelKey(key), cluster.ValidateLabelValue(value)); err != nil || !found {
			return nil, refuse("Write "+flag+" KEY=VALUE.", "bad %s %q", flag, pair)
		}
		out[key] = value
	}
	return out, nil
}

func (f *agentFlags) capacity(to *cluster.Resources) error {
	if f.cpu < 0 || f.cpu > 1e6 {
		return refuse("It is a number of cores, such as 4 or 0.5.", "bad --cpu %g", f.cpu)
	}
	if f.cpu > 0 {
		to.MilliCPU = int64(f.cpu*1000 + 0.5)
	}
	if f.memory != "" {
		n, ok := hcltext.ParseBytes(f.memory)
		if !ok || n == 0 {
			return refuse("It is an amount such as 512MiB or 8GiB.", "bad --memory %q", f.memory)
		}
		to.Memory = n
	}
	for name, n := range f.units {
		if err := cluster.ValidateUnitName(name); err != nil || n < 0 {
			return refuse("Write --unit NAME=COUNT, such as gpu=2.", "bad --unit %s=%d", name, n)
		}
	}
	if len(f.units) > 0 {
		to.Units = f.units
	}
	return nil
}

// runAgent runs an agent until the context ends, or SIGUSR1, on which it stops its tasks first.
func (a *app) runAgent(ctx context.Context, cfg *config.Agent, token string) error {
	log := daemon.NewLogger("agent", config.Log{Level: "info"}, a.errOut)
	if token == "" && cfg.TokenFile != "" {
		text, err := os.ReadFile(cfg.TokenFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the join token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	drivers, err := newDrivers(cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var stopTasks atomic.Bool
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, devcluster.StopTasks)
	defer signal.Stop(asked)
	go func() {
		select {
		case <-asked:
			stopTasks.Store(true)
			end()
		case <-ctx.Done():
		}
	}()
	ag, err := agent.New(agent.Config{
		DataDir: cfg.DataDir, Server: cfg.Server, Token: token, Name: cfg.Name, Labels: cfg.Labels, Capacity: cfg.Capacity, Drivers: drivers, Log: log,
		Attributes: cfg.Attributes, AttributesDir: cfg.AttributesDir, SecretsDir: cfg.SecretsDir, StopTasksOnExit: stopTasks.Load, Version: version,
	})
	if err != nil {
		return err
	}
	if err := noteAgent(cfg); err != nil {
		return err
	}
	return ag.Run(ctx)
}

// settingsFile is the file in an agent's directory with what was said at its last start, for starts at which nothing is said.
const settingsFile = "settings.json"

type agentSettings struct {
	Server   string            `json:"server"`
	Drivers  []string          `json:"drivers"`
	Capacity cluster.Resources `json:"capacity"`
	TaskLogs config.TaskLogs   `json:"task_logs"`
	Process  processSettings   `json:"process,omitzero"`
	Docker   config.Docker     `json:"docker,omitzero"`

	Attributes    map[string]string `json:"attributes,omitempty"`
	AttributesDir string            `json:"attributes_dir,omitempty"`
	SecretsDir    string            `json:"secrets_dir,omitempty"`
}

type processSettings struct {
	Enforce      config.Enforce `json:"enforce,omitempty"`
	CgroupParent string         `json:"cgroup_parent,omitempty"`
}

// remember puts what was said at the last start into the configuration.
func remember(cfg *config.Agent) error {
	path := filepath.Join(cfg.DataDir, settingsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var said agentSettings
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		return fmt.Errorf("read what was said at the last start: %w; without %s it has to be said again", err, path)
	}
	cfg.Server, cfg.Drivers, cfg.Capacity, cfg.TaskLogs = said.Server, said.Drivers, said.Capacity, said.TaskLogs
	cfg.Attributes, cfg.AttributesDir, cfg.SecretsDir = said.Attributes, said.AttributesDir, said.SecretsDir
	cfg.Process = config.ProcessDriver{Enforce: cmp.Or(said.Process.Enforce, cfg.Process.Enforce), CgroupParent: said.Process.CgroupParent}
	if said.Docker.Host != "" { // an earlier version did not write it
		cfg.Docker = said.Docker
	}
	return nil
}

// noteAgent writes who the agent of the directory is and what was said to it, unless another one runs, which Run will say.
func noteAgent(cfg *config.Agent) error {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return err
	}
	if r, err := devcluster.Read(cfg.DataDir); err == nil && r.Alive() {
		return nil
	}
	self, err := devcluster.Self(cfg.Server)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(agentSettings{
		Server: cfg.Server, Drivers: cfg.Drivers, Capacity: cfg.Capacity, TaskLogs: cfg.TaskLogs, Attributes: cfg.Attributes, AttributesDir: cfg.AttributesDir,
		SecretsDir: cfg.SecretsDir, Process: processSettings(cfg.Process), Docker: cfg.Docker,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := datadir.WriteFile(filepath.Join(cfg.DataDir, settingsFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write what was said: %w", err)
	}
	return self.Write(cfg.DataDir)
}

// shimProgram is what stands beside a task: the small program that is installed beside this one, or else this one, which takes several times the memory.
func shimProgram(exe string) []string {
	if small := installed.Beside(exe, installed.Shim); small != "" {
		return []string{small}
	}
	return []string{exe, shimCommand}
}

func newDrivers(cfg *config.Agent) ([]driver.Driver, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out []driver.Driver
	for _, name := range cfg.Drivers {
		var d driver.Driver
		var err error
		switch name {
		case cluster.DriverProcess:
			d, err = process.New(process.Options{
				Dir: filepath.Join(cfg.DataDir, name), Shim: shimProgram(exe), Env: process.BaseEnv(os.Environ()),
				Log:     process.LogLimits{MaxBytes: cfg.TaskLogs.FileSize, MaxFiles: cfg.TaskLogs.Files},
				Enforce: process.Enforce(cfg.Process.Enforce), CgroupParent: cfg.Process.CgroupParent,
			})
		case cluster.DriverDocker:
			d, err = docker.New(dockerOptions(cfg))
		case cluster.DriverSim:
			d, err = sim.New(sim.Options{Dir: filepath.Join(cfg.DataDir, name)})
		default:
			return nil, refuse("It is process, docker or sim.", "this agent has no driver %q", name)
		}
		if err != nil {
			return nil, fmt.Errorf("prepare driver %s: %w", name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func dockerOptions(cfg *config.Agent) docker.Options {
	out := docker.Options{
		Dir: filepath.Join(cfg.DataDir, docker.Name), Host: cfg.Docker.Host, TLS: docker.TLS(cfg.Docker.TLS),
		Required:   cfg.Docker.Enforce == config.EnforceRequired,
		Log:        docker.LogLimits{MaxBytes: cfg.TaskLogs.FileSize, MaxFiles: cfg.TaskLogs.Files},
		Registries: make(map[string]docker.Credential),
	}
	for _, r := range cfg.Docker.Registries {
		out.Registries[r.Host] = docker.Credential{Username: r.Username, PasswordFile: r.PasswordFile}
	}
	return out
}
