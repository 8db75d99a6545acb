package sdk

import (
	"context"
	"reflect"

	"github.com/hashicorp/go-hclog"
)

// The interfaces below are optional on a Filter, Drainer or JobType. They are found there by themselves; a value that serves as several of the three is asked
// once.

// Configurer takes up a configuration.
type Configurer interface {
	// Configure is called before any session, and again when the configuration changes. Diagnostics as error point at what is wrong; with any error the
	// earlier configuration stays in force, so it must change nothing before it is sure.
	Configure(ctx context.Context, req ConfigureRequest) error
}

// ConfigureRequest carries a configuration.
type ConfigureRequest struct {
	Config Settings // the plugin's config block, checked against its schema, defaults filled in
}

// ConfigValidator checks a configuration beyond its schema, without taking it up.
type ConfigValidator interface {
	// ValidateConfig returns Diagnostics as error, or nil.
	ValidateConfig(ctx context.Context, req ConfigureRequest) error
}

// Validator checks what a job says to the plugin, beyond its schema. Of several job types, that of the job is asked. Without it a Filter's Compile is tried,
// and its *Stall is what is wrong.
type Validator interface {
	// Validate returns Diagnostics as error, or nil.
	Validate(ctx context.Context, req CompileRequest) error
}

// NeedsLogger is given the plugin's logger before anything else is called. What is logged there appears in the daemon's log under the plugin's name.
type NeedsLogger interface {
	SetLogger(log hclog.Logger)
}

// SessionRunner runs beside each session, for plugins whose answers depend on more than what they are asked about.
type SessionRunner interface {
	// RunSession is called in a goroutine of its own when a session begins and must return when ctx ends. An error is shown to the operator.
	RunSession(ctx context.Context, s Session) error
}

// Session is a plugin's side of its conversation with the daemon. Its methods may be called from any goroutine and do not block.
type Session interface {
	// Changed says that answers may have changed although no node and no job did. Everything is asked again.
	Changed()
	// Problem shows something to the operator. It changes nothing. The latest few are kept.
	Problem(code, message string)
}

// parts returns the distinct values that implement the plugin's interfaces, in a fixed order.
func (p *Plugin) parts() []any {
	var out []any
	add := func(v any) {
		if v == nil {
			return
		}
		for _, o := range out {
			if reflect.TypeOf(o) == reflect.TypeOf(v) && reflect.ValueOf(v).Comparable() && o == v {
				return
			}
		}
		out = append(out, v)
	}
	add(p.Filter)
	add(p.Drainer)
	for _, name := range p.jobTypes() {
		add(p.JobTypes[name])
	}
	return out
}

// partsOf returns the parts of the plugin that implement T.
func partsOf[T any](p *Plugin) []T {
	var out []T
	for _, v := range p.parts() {
		if t, ok := v.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
