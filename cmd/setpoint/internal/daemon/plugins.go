package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/installed"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// GuardCommand is the first argument with which a server executes its own binary as the guard of what plugins start.
const GuardCommand = "plugin-guard"

// maxSocketDir is how long the path of the directory with the plugins' sockets may be.
const maxSocketDir = 69

// runDir is where the plugins' sockets of a server are that is root: plugins with users of their own cannot enter its data directory.
const runDir = "/run/setpoint"

// socketDir returns where the plugins' sockets are: at the given path unless that is too long, or cannot be entered by the plugins' users. Then a link is left
// there.
func socketDir(path string) (string, error) {
	sum := sha256.Sum256([]byte(path))
	name := hex.EncodeToString(sum[:6])
	other := filepath.Join(os.TempDir(), fmt.Sprintf("setpoint-%d-%s", os.Getuid(), name))
	if os.Geteuid() == 0 && os.MkdirAll(runDir, 0o755) == nil {
		other = filepath.Join(runDir, name)
	} else if len(path) <= maxSocketDir {
		return path, nil
	}
	if target, err := os.Readlink(path); err == nil && target == other {
		return other, nil
	}
	err := os.RemoveAll(path) // what earlier versions had there
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.Symlink(other, path)
	}
	return other, err
}

// newLauncher returns what starts plugins.
func newLauncher(dir datadir.Dir, log hclog.Logger) (*runner.Launcher, error) {
	path, err := filepath.Abs(dir.PluginSockets())
	if err != nil {
		return nil, err
	}
	if path, err = socketDir(path); err != nil {
		return nil, fmt.Errorf("prepare to start plugins: %w", err)
	}
	l, err := runner.NewLauncher(path, log)
	if err != nil {
		return nil, fmt.Errorf("prepare to start plugins: %w", err)
	}
	l.UseGuard(GuardCommand)
	l.UseConfiner(ConfineCommand)
	return l, nil
}

// pluginNames returns the names of the plugins that are to run.
func pluginNames(cfg *config.Config) []string {
	var out []string
	for i := range cfg.Plugins {
		if !cfg.Plugins[i].Disabled {
			out = append(out, cfg.Plugins[i].Name)
		}
	}
	return out
}

// pools returns the ranges of addresses that the engine gives to tasks.
func pools(cfg *config.Config) []engine.Pool {
	var out []engine.Pool
	for _, p := range cfg.Pools {
		out = append(out, engine.Pool(p))
	}
	return out
}

// hostPlugins returns the plugins that are to run, as the host takes them.
func hostPlugins(cfg *config.Config) []pluginhost.Plugin {
	var out []pluginhost.Plugin
	for i := range cfg.Plugins {
		if !cfg.Plugins[i].Disabled {
			out = append(out, hostPlugin(&cfg.Plugins[i]))
		}
	}
	return out
}

func hostPlugin(p *config.Plugin) pluginhost.Plugin {
	var cmd runner.Command
	if p.Builtin {
		exe, _ := os.Executable() // nothing lies beside ""
		cmd = runner.Builtin(p.Name, installed.Beside(exe, installed.Plugin))
	} else {
		cmd = runner.Command{Name: p.Name, Path: p.Path, Args: p.Args}
		if p.SHA256 != "" {
			cmd.SHA256, _ = hex.DecodeString(p.SHA256) // the configuration was checked
		}
	}
	cmd.HandshakeTimeout = p.HandshakeTimeout
	cmd.Env = runner.AllowedEnv(os.Environ())
	for key, value := range p.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	var err error
	if cmd.Confine, err = confinement(p); err != nil {
		cmd.Refused = err
	}
	if cmd.Confine.Level == runner.SandboxAuto || cmd.Confine.Level == runner.SandboxRequire {
		// It may not write where the server does; unless it is told otherwise it gets a directory of its own.
		cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") && p.Env["TMPDIR"] == "" })
	}
	block := &configBlock{plugin: p}
	return pluginhost.Plugin{
		Name: p.Name, Command: cmd, Timeout: p.Timeout, StartTimeout: 2 * p.HandshakeTimeout, FailureOpen: p.OnFailure == config.FailureIgnore,
		ConfigJSON: block.decode, Locate: block.locate,
	}
}

// configBlock is a plugin's block of the configuration, which can be read once the plugin has described its settings.
type configBlock struct {
	plugin *config.Plugin

	mu     sync.Mutex // guards schema
	schema *pluginv1.Schema
}

// decode returns the block as JSON, or what is wrong with it.
func (b *configBlock) decode(schema *pluginv1.Schema) (string, []pluginhost.Diagnostic) {
	b.mu.Lock()
	b.schema = schema
	b.mu.Unlock()
	text, diags := config.DecodePluginConfig(b.plugin.Config, schema)
	var out []pluginhost.Diagnostic
	for i, d := range diags {
		x := pluginhost.Diagnostic{Warning: !diags[i : i+1].HasErrors(), Summary: d.Summary, Detail: d.Detail}
		if d.Subject != nil {
			x.Where = d.Subject.String()
		}
		out = append(out, x)
	}
	return text, out
}

// locate says where in the files a path of the block leads.
func (b *configBlock) locate(path []*pluginv1.PathStep) string {
	b.mu.Lock()
	schema := b.schema
	b.mu.Unlock()
	at := config.LocateDiagnostic(b.plugin.Config, schema, path)
	if at.Filename == "" {
		return ""
	}
	return at.String()
}

// plugins is the host as the API sees it.
type plugins struct{ host *pluginhost.Host }

// Plugins returns what is known of each plugin, by name.
func (p plugins) Plugins() []api.Plugin {
	var out []api.Plugin
	for _, s := range p.host.Status() {
		out = append(out, api.Plugin{
			Name: s.Name, Version: s.Version, State: string(s.State), PID: s.PID, Restarts: s.Restarts, Interfaces: s.Interfaces, JobTypes: s.JobTypes,
			Message: s.LastError, Since: s.Since,
		})
	}
	slices.SortFunc(out, func(a, b api.Plugin) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// CheckJob returns what the plugins find wrong with what a job says to them.
func (p plugins) CheckJob(ctx context.Context, spec cluster.JobSpec) []cluster.Problem {
	return p.host.CheckJob(ctx, &spec)
}

// Trial has a filter judge classes on nodes as they would be.
func (p plugins) Trial(ctx context.Context, plugin string, classes []engine.Class, nodes []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	return p.host.Trial(ctx, plugin, classes, nodes)
}

// Away returns the plugins that do not serve, each with why.
func (s *Server) Away() map[string]string {
	out := make(map[string]string)
	for _, p := range s.host.Status() {
		if p.State != pluginhost.StateRunning {
			out[p.Name] = p.LastError
		}
	}
	return out
}

// settled returns why it is too early to judge by the plugins: one has neither served nor failed yet. A plugin that fails makes the server no less ready.
func (p plugins) settled() error {
	for _, s := range p.host.Status() {
		if s.Restarts == 0 && s.State != pluginhost.StateRunning {
			return fmt.Errorf("plugin %s is %s", s.Name, s.State)
		}
	}
	return nil
}
