package config

import (
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/setpointd/setpoint/core/hcltext"
)

// reader fills a configuration from bodies.
type reader struct {
	hcltext.Decoder

	config *Config
	sinks  []string // paths of the notify blocks
}

type (
	attributes = map[string]func(hcltext.Value)
	blocks     = map[string]hcltext.BlockField
)

func (r *reader) fields() hcltext.Fields {
	c := r.config
	return hcltext.Fields{
		Attributes: attributes{
			"name":      hcltext.Set(hcltext.String, &c.Name),
			"data_dir":  hcltext.Set(path, &c.DataDir),
			"advertise": hcltext.Set(hcltext.String, &c.Advertise),

			"record_inputs": hcltext.Set(path, &c.RecordInputs),
		},
		Blocks: blocks{
			"log": r.section(attributes{
				"level": hcltext.Set(hcltext.String, &c.Log.Level),
				"json":  hcltext.Set(hcltext.Bool, &c.Log.JSON),
			}),
			"listen": r.section(attributes{"api": hcltext.Set(hcltext.String, &c.Listen.API)}),
			"tls":    {Read: r.tls},
			"dashboard": r.section(attributes{
				"listen":      hcltext.Set(hcltext.String, &c.Dashboard.Listen),
				"advertise":   hcltext.Set(hcltext.String, &c.Dashboard.Advertise),
				"certificate": hcltext.Set(path, &c.Dashboard.Certificate),
				"key":         hcltext.Set(path, &c.Dashboard.Key),
			}),
			"store": {Label: "kind", Read: r.store},
			"heartbeat": r.section(attributes{
				"interval":     hcltext.Set(hcltext.Duration, &c.Heartbeat.Interval),
				"silent_after": hcltext.Set(hcltext.Duration, &c.Heartbeat.Silent),
				"grace":        hcltext.Set(hcltext.Duration, &c.Heartbeat.Grace),

				"per_second":         hcltext.Set(hcltext.Int, &c.Heartbeat.PerSecond),
				"returns_per_second": hcltext.Set(hcltext.Int, &c.Heartbeat.ReturnsPerSecond),
			}),
			"replace":   r.section(attributes{"nodes_per": hcltext.Set(hcltext.Duration, &c.Replace.NodesPer)}),
			"placement": r.section(attributes{"strategy": hcltext.Set(word, &c.Placement.Strategy)}),
			"limits":    r.section(attributes{"turn_changes": hcltext.Set(hcltext.Int, &c.Limits.TurnChanges)}),
			"audit": r.section(attributes{
				"file_size": hcltext.Set(hcltext.Bytes, &c.Audit.FileSize),
				"files":     hcltext.Set(hcltext.Int, &c.Audit.Files),

				"on_failure": hcltext.Set(word, &c.Audit.OnFailure),
			}),
			"telemetry": {Read: r.telemetry},

			"pool":   {Label: "name", Repeated: true, Read: r.pool},
			"secret": {Label: "name", Repeated: true, Read: r.secret},
			"plugin": {Label: "name", Repeated: true, Read: r.plugin},
			"notify": {Label: "kind", Repeated: true, Alike: true, Read: r.notify},
			"agent":  {Read: r.agent},
		},
	}
}

func (r *reader) tls(b hcltext.Block) {
	t := &r.config.TLS
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{
		Attributes: attributes{"names": hcltext.Set(hcltext.Strings, &t.Names)},
		Blocks: blocks{"authority": r.section(attributes{
			"certificate": hcltext.Set(path, &t.Authority.Certificate),
			"key":         hcltext.Set(path, &t.Authority.Key),
		})},
	})
}

func (r *reader) pool(b hcltext.Block) {
	p := Pool{Name: b.Label}
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: attributes{"cidr": hcltext.Set(hcltext.String, &p.CIDR)}})
	r.config.Pools = append(r.config.Pools, p)
}

func (r *reader) secret(b hcltext.Block) {
	s := Secret{Name: b.Label}
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: attributes{"file": hcltext.Set(path, &s.File)}})
	r.config.Secrets = append(r.config.Secrets, s)
}

// section reads a block that has attributes only.
func (r *reader) section(fields attributes) hcltext.BlockField {
	return hcltext.BlockField{Read: func(b hcltext.Block) { r.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: fields}) }}
}

// path reads a file's name, which is seen from the directory of the file that has it.
func path(v hcltext.Value) (string, bool) {
	name, ok := hcltext.String(v)
	if !ok || name == "" || filepath.IsAbs(name) {
		return name, ok
	}
	absolute, err := filepath.Abs(filepath.Join(filepath.Dir(v.At.Filename), name))
	if err != nil {
		v.Fail("Path cannot be made absolute", capital(err.Error())+".")
		return "", false
	}
	return absolute, true
}

func word[W ~string](v hcltext.Value) (W, bool) {
	text, ok := hcltext.String(v)
	return W(text), ok
}

func (r *reader) store(b hcltext.Block) {
	s := &r.config.Store
	s.Kind = b.Label
	fields := hcltext.Fields{Blocks: blocks{
		"retention": r.section(attributes{
			"revisions": hcltext.Set(count, &s.Retention.Revisions),
			"age":       hcltext.Set(hcltext.Duration, &s.Retention.Age),
			"size":      hcltext.Set(hcltext.Bytes, &s.Retention.Bytes),
		}),
	}}
	if s.Kind == StoreBolt {
		fields.Attributes = attributes{
			"file":           hcltext.Set(path, &s.File),
			"max_size":       hcltext.Set(hcltext.Bytes, &s.MaxSize),
			"any_filesystem": hcltext.Set(hcltext.Bool, &s.AnyFilesystem),
		}
	}
	if s.Kind != StoreBolt && s.Kind != StoreMemory {
		r.Fail(b.Path, b.Named, "Unknown store", unknownWord(s.Kind, StoreBolt, StoreMemory))
		return
	}
	r.Body(b.Body, b.Path, b.At, fields)
}

func count(v hcltext.Value) (uint64, bool) {
	n, ok := hcltext.Int(v)
	if ok && n < 0 {
		v.Fail("Negative number", "It cannot be less than 0.")
		return 0, false
	}
	return uint64(n), ok
}

// DefaultAgent returns the settings of an agent of which nothing was said. It has no server.
func DefaultAgent() *Agent {
	return &Agent{
		Name: hostname(), DataDir: "/var/lib/setpoint-agent", Drivers: []string{"process"}, TaskLogs: TaskLogs{FileSize: 10 << 20, Files: 4},
		Process: ProcessDriver{Enforce: EnforceBestEffort},
		Docker:  Docker{Host: DockerHost, Enforce: EnforceBestEffort},
	}
}

func (r *reader) agent(b hcltext.Block) {
	a := DefaultAgent()
	r.config.Agent = a
	r.Body(b.Body, b.Path, b.At, hcltext.Fields{
		Attributes: attributes{
			"server":     hcltext.Set(hcltext.String, &a.Server),
			"token_file": hcltext.Set(path, &a.TokenFile),
			"name":       hcltext.Set(hcltext.String, &a.Name),
			"data_dir":   hcltext.Set(path, &a.DataDir),
			"labels":     hcltext.Set(hcltext.StringMap, &a.Labels),
			"attributes": hcltext.Set(hcltext.StringMap, &a.Attributes),

			"secrets_dir":    hcltext.Set(path, &a.SecretsDir),
			"attributes_dir": hcltext.Set(path, &a.AttributesDir),
			"drivers":        hcltext.Set(hcltext.Strings, &a.Drivers),
		},
		Blocks: blocks{
			"capacity": r.section(attributes{
				"cpu":    hcltext.Set(hcltext.Milli, &a.Capacity.MilliCPU),
				"memory": hcltext.Set(hcltext.Bytes, &a.Capacity.Memory),
				"units":  hcltext.Set(hcltext.IntMap, &a.Capacity.Units),
			}),
			"task_logs": r.section(attributes{
				"file_size": hcltext.Set(hcltext.Bytes, &a.TaskLogs.FileSize),
				"files":     hcltext.Set(hcltext.Int, &a.TaskLogs.Files),
			}),
			"driver": {Label: "name", Repeated: true, Read: r.driver},
		},
	})
}

// emptyBody stands for a block that is not there; what is missing in it is missing at the given place.
func emptyBody(at hcl.Range) hcl.Body { return &hclsyntax.Body{SrcRange: at, EndRange: at} }
