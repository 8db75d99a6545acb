package config

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// BuiltinPlugins returns the names of the plugins that are part of the executable.
func BuiltinPlugins() []string { return []string{"constraint", "drain", "global"} }

// stateFile is the name of bbolt's file in the data directory.
const stateFile = "state.db"

// Default returns the configuration of a server without files.
func Default() *Config {
	c := &Config{
		DataDir:   "/var/lib/setpoint",
		Log:       Log{Level: "info"},
		Listen:    Listen{API: "127.0.0.1:7480"},
		Store:     Store{Kind: StoreBolt, Retention: Retention{Revisions: 100_000, Age: 10 * time.Minute, Bytes: 64 << 20}},
		Heartbeat: Heartbeat{Interval: time.Second, PerSecond: 500, ReturnsPerSecond: 50},
		Placement: Placement{Strategy: cluster.StrategySpread},
		Limits:    Limits{TurnChanges: 4000},
		Audit:     Audit{FileSize: 16 << 20, Files: 10, OnFailure: AuditRefuse},
		Telemetry: Telemetry{Service: "setpoint", SampleRatio: 1, OTLP: OTLP{Timeout: 10 * time.Second}},
		files:     make(map[string]*hcl.File),
		ranges:    make(hcltext.Ranges),
	}
	c.complete()
	return c
}

// complete fills in what follows from the rest.
func (c *Config) complete() {
	c.Name = cmp.Or(c.Name, hostname())
	c.Advertise = cmp.Or(c.Advertise, reachable(c.Listen.API))
	if c.Store.Kind == StoreBolt {
		c.Store.File = cmp.Or(c.Store.File, filepath.Join(c.DataDir, stateFile))
	}
	c.Heartbeat.Silent = cmp.Or(c.Heartbeat.Silent, 2*c.Heartbeat.Interval)
	c.Heartbeat.Grace = cmp.Or(c.Heartbeat.Grace, max(3*c.Heartbeat.Interval, c.Heartbeat.Silent))
	for _, name := range BuiltinPlugins() {
		if c.Plugin(name) == nil {
			c.Plugins = append(c.Plugins, newPlugin(name, emptyBody(hcl.Range{Filename: "built-in settings"})))
		}
	}
	slices.SortFunc(c.Secrets, func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Plugins, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "setpoint"
	}
	return name
}

// Load reads files, and of directories the files ending in .hcl or .json, in the order of their names; which file says what makes no difference. Without
// paths it returns Default. Diagnostics say everything that is wrong; only if they have no errors may the configuration be used. It is never nil, so that it
// can write the diagnostics.
func Load(paths ...string) (*Config, hcl.Diagnostics) {
	c := Default()
	if len(paths) == 0 {
		return c, nil
	}
	names, diags := expand(paths)
	var files []*hcl.File
	for _, name := range names {
		src, err := read(name)
		if err != nil {
			diags = append(diags, unreadable(err))
			continue
		}
		file, found := hcltext.Parse(name, src)
		c.files[name] = file
		diags = append(diags, found...)
		files = append(files, file)
	}
	if diags.HasErrors() || len(files) == 0 {
		hcltext.Sort(diags)
		return c, diags
	}
	diags = append(diags, c.decode(files)...)
	hcltext.Sort(diags)
	return c, diags
}

func unreadable(err error) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot read the configuration", Detail: err.Error() + "."}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func expand(paths []string) ([]string, hcl.Diagnostics) {
	var names []string
	var diags hcl.Diagnostics
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			diags = append(diags, unreadable(err))
			continue
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			diags = append(diags, unreadable(err))
			continue
		}
		before := len(names)
		for _, e := range entries {
			if isConfigName(e.Name()) && !e.IsDir() {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if len(names) == before {
			diags = append(diags, unreadable(fmt.Errorf("%s has no file that ends in .hcl or .json: %w", path, fs.ErrNotExist)))
		}
	}
	return names, diags
}

func isConfigName(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".json"))
}

// read returns the file's content, up to a byte more than is allowed.
func read(name string) (src []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	src, err = io.ReadAll(io.LimitReader(f, hcltext.MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return src, nil
}

// decode starts over from values that nothing followed from yet.
func (c *Config) decode(files []*hcl.File) hcl.Diagnostics {
	c.Name, c.Advertise, c.Plugins, c.Store.File, c.Heartbeat.Silent, c.Heartbeat.Grace = "", "", nil, "", 0, 0
	r := &reader{config: c}
	body := files[0].Body
	if len(files) > 1 {
		body = hcl.MergeFiles(files)
	}
	r.Body(body, "", body.MissingItemRange(), r.fields())
	c.ranges, c.unsaid = r.Ranges, r.Unsaid
	c.complete()
	r.check()
	return r.Diags
}
