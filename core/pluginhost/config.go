package pluginhost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Engine takes what plugins say. Send may block while the engine has too much to do, and fails when it has stopped.
type Engine interface {
	Send(ctx context.Context, in engine.Input) error
}

// Config is what a Host is made of.
type Config struct {
	Logger    hclog.Logger
	Launcher  *runner.Launcher // starts the processes; its owner closes it after Run has returned
	Version   string           // of this program, told to plugins
	ClusterID string
	Engine    Engine // may be nil if only ValidateConfigs is used
	Plugins   []Plugin
	Restart   RestartPolicy // zero: DefaultRestartPolicy

	// Rehearse asks the engine for all that a plugin would be asked if it began a session now. Nil: nothing can be reloaded, changed or compared.
	Rehearse func(ctx context.Context, ask engine.Rehearse) (engine.Rehearsal, error)

	// CheckSettings checks what a job says to a plugin against the schema which that plugin described, for while the plugin itself cannot be asked. Nil: it is
	// accepted unseen then.
	CheckSettings func(schema *pluginv1.Schema, settings string) []Diagnostic

	// AttachDir is where files ask for plugins to be attached to, which is for those who may write there; see AttachPath. "": nowhere.
	AttachDir string

	// Asked is told of questions that are part of a trace, and returns what is to be told of each; nil: nobody follows that one, or any.
	Asked func(because engine.Trace, q Question) Asked

	Now    func() time.Time // nil: time.Now
	Jitter func() float64   // from 0 up to 1; nil: random
}

// Plugin is one plugin of the configuration.
type Plugin struct {
	Name         string
	Command      runner.Command
	Timeout      time.Duration // for one answer; 0: 2 s
	StartTimeout time.Duration // for each step of a start; 0: 10 s
	FailureOpen  bool          // on_failure = "ignore": what the filter has not judged is allowed while it is away

	// ConfigJSON decodes the plugin's block of the configuration by the schema that the plugin described. An error among the diagnostics refuses it, and the
	// text then is what else could be read. Nil: the block is empty.
	ConfigJSON func(schema *pluginv1.Schema) (json string, diags []Diagnostic)
	// Locate returns where in the configuration a path of the plugin's block leads, such as "setpoint.hcl:12,5". Nil: nobody knows.
	Locate func(path []*pluginv1.PathStep) string

	attach *sdk.Attachment // a process that somebody else has started; nil: the host starts its own
}

const (
	defaultTimeout      = 2 * time.Second
	defaultStartTimeout = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}

func (p Plugin) withDefaults() Plugin {
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	if p.StartTimeout <= 0 {
		p.StartTimeout = defaultStartTimeout
	}
	if p.Command.Name == "" {
		p.Command.Name = p.Name
	}
	if p.Command.HandshakeTimeout <= 0 {
		p.Command.HandshakeTimeout = p.StartTimeout
	}
	return p
}

// Diagnostic is one mistake in a configuration or in what a job says to a plugin.
type Diagnostic struct {
	Warning bool // otherwise an error
	Summary string
	Detail  string
	Path    []*pluginv1.PathStep // within the plugin's block
	Where   string               // file and position; "" if unknown
}

// String returns the diagnostic as one line.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.Where != "" {
		b.WriteString(d.Where + ": ")
	}
	if path := pathText("", d.Path); path != "" {
		b.WriteString(path + ": ")
	}
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	return b.String()
}

// errorsOf returns those diagnostics that are no warnings.
func errorsOf(diags []Diagnostic) []Diagnostic {
	var out []Diagnostic
	for _, d := range diags {
		if !d.Warning {
			out = append(out, d)
		}
	}
	return out
}

// diagnosticsOf takes what a plugin found.
func (p *Plugin) diagnosticsOf(from []*pluginv1.Diagnostic) []Diagnostic {
	var out []Diagnostic
	for _, d := range from[:min(len(from), maxDiagnostics)] {
		x := Diagnostic{Warning: d.Warning, Summary: clean(d.Summary), Detail: clean(d.Detail), Path: d.Path}
		if p.Locate != nil {
			x.Where = p.Locate(d.Path)
		}
		out = append(out, x)
	}
	return out
}

const maxDiagnostics = 100 // of one answer; more help nobody

// pathText writes a path after what leads to the block: plugin["gpu"].zones[1].
func pathText(block string, path []*pluginv1.PathStep) string {
	var b strings.Builder
	b.WriteString(block)
	for _, s := range path {
		switch x := s.GetStep().(type) {
		case *pluginv1.PathStep_Attribute:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(clean(x.Attribute))
		case *pluginv1.PathStep_Key:
			fmt.Fprintf(&b, "[%q]", clean(x.Key))
		case *pluginv1.PathStep_Index:
			fmt.Fprintf(&b, "[%d]", x.Index)
		}
	}
	return b.String()
}
