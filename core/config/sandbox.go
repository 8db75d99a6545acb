package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// SandboxLevel says how strictly a plugin is confined.
type SandboxLevel string

// The levels of confinement.
const (
	SandboxAuto    SandboxLevel = "auto"    // as far as the machine can; the default
	SandboxRequire SandboxLevel = "require" // fully, or the plugin is not started
	SandboxOff     SandboxLevel = "off"     // as the server itself
)

// Sandbox says what a plugin may do besides what every one may.
type Sandbox struct {
	Level   SandboxLevel
	Read    []string // files and directories that it may read
	Write   []string // and write
	Network bool     // it may connect to others over TCP and UDP
}

const minMemory = 16 << 20 // with less nothing starts

// read takes the short form, sandbox = "require", and the block in JSON, where the two look alike.
func (s *Sandbox) read(v hcltext.Value) {
	value, ok := hcltext.Any(v)
	if !ok {
		return
	}
	if value.Type() == cty.String {
		s.Level = SandboxLevel(value.AsString())
		return
	}
	if !value.Type().IsObjectType() {
		v.Fail("Wrong type", `It must be "auto", "require" or "off", or a block.`)
		return
	}
	for key, x := range value.AsValueMap() {
		fine := true
		switch key {
		case "level":
			if fine = x.Type() == cty.String && !x.IsNull(); fine {
				s.Level = SandboxLevel(x.AsString())
			}
		case "network":
			if fine = x.Type() == cty.Bool && !x.IsNull(); fine {
				s.Network = x.True()
			}
		case "read":
			s.Read, fine = texts(x)
		case "write":
			s.Write, fine = texts(x)
		default:
			v.Fail("Unknown setting", fmt.Sprintf("A sandbox has no %q; it has level, network, read and write.", key))
		}
		if !fine {
			v.Fail("Wrong type", fmt.Sprintf("The %s of a sandbox is of another type: level is text, network true or false, read and write are lists of paths.", key))
		}
	}
}

func texts(v cty.Value) ([]string, bool) {
	if v.IsNull() || !v.CanIterateElements() || v.Type().IsObjectType() {
		return nil, false
	}
	var out []string
	for it := v.ElementIterator(); it.Next(); {
		_, x := it.Element()
		if x.IsNull() || x.Type() != cty.String {
			return nil, false
		}
		out = append(out, x.AsString())
	}
	return out, true
}

func (r *reader) sandboxBlock(s *Sandbox) hcltext.BlockField {
	return r.section(attributes{
		"level":   hcltext.Set(word[SandboxLevel], &s.Level),
		"read":    hcltext.Set(hcltext.Strings, &s.Read),
		"write":   hcltext.Set(hcltext.Strings, &s.Write),
		"network": hcltext.Set(hcltext.Bool, &s.Network),
	})
}

func (r *reader) checkConfinement(at string, p *Plugin) {
	r.oneOf(at+".sandbox", string(p.Sandbox.Level), string(SandboxAuto), string(SandboxRequire), string(SandboxOff))
	for name, paths := range map[string][]string{"read": p.Sandbox.Read, "write": p.Sandbox.Write} {
		if i := slices.IndexFunc(paths, func(path string) bool { return !filepath.IsAbs(path) }); i >= 0 {
			r.wrong(fmt.Sprintf("%s.sandbox.%s[%d]", at, name, i), "Relative path", fmt.Sprintf("%q must be the whole path, starting with /.", paths[i]))
		}
	}
	if p.MaxMemory != 0 {
		r.atLeast(at+".max_memory", p.MaxMemory, minMemory)
	}
	if p.User != "" && len(p.User) > cluster.MaxNodeNameLen {
		r.wrong(at+".user", "Invalid user", "It must be the name or number of a user of this machine.")
	}
}
