package sdk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Diagnostic is one mistake in a configuration or in what a job says. The daemon shows it with the file and line that Path leads to.
type Diagnostic struct {
	Warning bool // otherwise an error
	Summary string
	Detail  string
	Path    Path
}

// Path leads to a value: attribute names, list indexes and map keys from the outside in.
type Path []Step

// Step is one step of a Path. Path's methods make it.
type Step struct {
	name  string // of an attribute or block, or the key of a map
	index int    // of a list
	kind  stepKind
}

type stepKind uint8

const (
	stepAttribute stepKind = iota
	stepKey
	stepIndex
)

// At returns the path to an attribute.
func At(attribute string) Path { return Path{}.Attribute(attribute) }

// Attribute returns the path extended by an attribute or block.
func (p Path) Attribute(name string) Path { return p.with(Step{name: name}) }

// Key returns the path extended by a map key.
func (p Path) Key(key string) Path { return p.with(Step{name: key, kind: stepKey}) }

// Index returns the path extended by a list index.
func (p Path) Index(i int) Path { return p.with(Step{index: i, kind: stepIndex}) }

func (p Path) with(s Step) Path { return append(p[:len(p):len(p)], s) }

// String writes the path as in constraints[2] or limits["gpu"].
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch s.kind {
		case stepKey:
			b.WriteString("[" + strconv.Quote(s.name) + "]")
		case stepIndex:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// Diagnostics is a list of mistakes, all that were found.
type Diagnostics []Diagnostic

// Add appends an error.
func (d *Diagnostics) Add(path Path, summary, detail string) {
	*d = append(*d, Diagnostic{Summary: summary, Detail: detail, Path: path})
}

// Err returns the diagnostics as an error, or nil if none of them is one.
func (d Diagnostics) Err() error {
	for _, x := range d {
		if !x.Warning {
			return d
		}
	}
	return nil
}

// Error writes the diagnostics one after another.
func (d Diagnostics) Error() string {
	var parts []string
	for _, x := range d {
		s := x.Summary
		if len(x.Path) > 0 {
			s = x.Path.String() + ": " + s
		}
		if x.Detail != "" {
			s += ": " + x.Detail
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// diagnosticsOf returns what an author's error says as diagnostics.
func diagnosticsOf(err error) Diagnostics {
	if err == nil {
		return nil
	}
	var d Diagnostics
	if errors.As(err, &d) {
		return d
	}
	if s, ok := asStall(err); ok && s == nil {
		return nil
	} else if ok {
		return Diagnostics{{Summary: fmt.Sprintf("%s (%s)", s.Message, s.Code), Detail: s.Detail}}
	}
	return Diagnostics{{Summary: err.Error()}}
}

func (d Diagnostics) wire() []*pluginv1.Diagnostic {
	out := make([]*pluginv1.Diagnostic, 0, len(d))
	for _, x := range d {
		w := &pluginv1.Diagnostic{Warning: x.Warning, Summary: x.Summary, Detail: x.Detail}
		for _, s := range x.Path {
			step := &pluginv1.PathStep{}
			switch s.kind {
			case stepKey:
				step.Step = &pluginv1.PathStep_Key{Key: s.name}
			case stepIndex:
				step.Step = &pluginv1.PathStep_Index{Index: int64(s.index)}
			default:
				step.Step = &pluginv1.PathStep_Attribute{Attribute: s.name}
			}
			w.Path = append(w.Path, step)
		}
		out = append(out, w)
	}
	return out
}
