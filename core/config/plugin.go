package config

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
)

// The defaults of a plugin's timeouts.
const (
	DefaultPluginTimeout    = 5 * time.Second
	DefaultHandshakeTimeout = 5 * time.Second
)

func newPlugin(name string, config hcl.Body) Plugin {
	return Plugin{
		Name:             name,
		Builtin:          slices.Contains(BuiltinPlugins(), name),
		Timeout:          DefaultPluginTimeout,
		HandshakeTimeout: DefaultHandshakeTimeout,
		OnFailure:        FailureStall,
		Sandbox:          Sandbox{Level: SandboxAuto},
		Config:           config,
	}
}

func (r *reader) plugin(b hcltext.Block) {
	p := newPlugin(b.Label, emptyBody(b.At))
	p.Builtin = false
	builtinSaid := false
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{
		Attributes: attributes{
			"builtin": func(v hcltext.Value) {
				if on, ok := hcltext.Bool(v); ok {
					p.Builtin, builtinSaid = on, true
				}
			},
			"disabled":          hcltext.Set(hcltext.Bool, &p.Disabled),
			"path":              hcltext.Set(path, &p.Path),
			"sha256":            hcltext.Set(hcltext.String, &p.SHA256),
			"args":              hcltext.Set(hcltext.Strings, &p.Args),
			"env":               hcltext.Set(hcltext.StringMap, &p.Env),
			"timeout":           hcltext.Set(hcltext.Duration, &p.Timeout),
			"handshake_timeout": hcltext.Set(hcltext.Duration, &p.HandshakeTimeout),
			"on_failure":        hcltext.Set(word, &p.OnFailure),
			"max_memory":        hcltext.Set(hcltext.Bytes, &p.MaxMemory),
			"user":              hcltext.Set(hcltext.String, &p.User),
			"sandbox":           p.Sandbox.read,
		},
		Blocks: blocks{
			"sandbox": r.sandboxBlock(&p.Sandbox),
			"config":  {Read: func(inner hcltext.Block) { p.Config = inner.Body }},
		},
	})
	if !builtinSaid && p.Path == "" && !r.Failed(b.Path+".path") {
		p.Builtin = slices.Contains(BuiltinPlugins(), p.Name)
	}
	r.config.Plugins = append(r.config.Plugins, p)
}
