package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const example = "../../config.hcl.example"

// ignoreInternals leaves out what says where things stood.
var ignoreInternals = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.IgnoreFields(Plugin{}, "Config")}

func mustLoad(t *testing.T, paths ...string) *Config {
	t.Helper()
	c, diags := Load(paths...)
	if len(diags) > 0 {
		t.Fatal(written(t, c, diags))
	}
	return c
}

func written(t *testing.T, c *Config, diags hcl.Diagnostics) string {
	t.Helper()
	var out strings.Builder
	if err := c.Write(&out, diags, hcltext.Look{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDefault(t *testing.T) {
	c := mustLoad(t)
	if c.Name == "" || c.Advertise != "127.0.0.1:7480" || c.Store.File != "/var/lib/setpoint/state.db" || c.Agent != nil {
		t.Errorf("%+v", c)
	}
	if c.Heartbeat != (Heartbeat{Interval: time.Second, Silent: 2 * time.Second, Grace: 3 * time.Second, PerSecond: 500, ReturnsPerSecond: 50}) {
		t.Errorf("heartbeat %+v", c.Heartbeat)
	}
	for _, name := range []string{"constraint", "drain", "global"} {
		want := &Plugin{Name: name, Builtin: true, Timeout: 5 * time.Second, HandshakeTimeout: 5 * time.Second, OnFailure: FailureStall, Sandbox: Sandbox{Level: SandboxAuto}}
		if diff := cmp.Diff(want, c.Plugin(name), ignoreInternals); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if len(c.Plugins) != 3 {
		t.Errorf("%d plugins, want 3", len(c.Plugins))
	}
	if diff := cmp.Diff(c, mustLoad(t, writeFile(t, "empty.hcl", "")), ignoreInternals); diff != "" {
		t.Errorf("an empty file (-without +with):\n%s", diff)
	}
}

// TestExampleShowsEverything requires every attribute and block to stand in the example, in one of the plugin blocks if it is a plugin's.
func TestExampleShowsEverything(t *testing.T) {
	c := mustLoad(t, example)
	said := func(path string) bool {
		if _, rest, isNotify := strings.Cut(path, `"`); isNotify && strings.HasPrefix(path, "notify[") {
			_, name, _ := strings.Cut(rest, ".") // one of the blocks says it
			return slices.ContainsFunc([]string{`notify["alertmanager"].`, `notify["webhook"].`, `notify["webhook"][1].`, `notify["exec"].`}, func(block string) bool {
				return strings.Contains(sink(path), sink(block)) && !slices.Contains(c.unsaid, block+name)
			})
		}
		_, rest, isPlugin := strings.Cut(path, `"].`)
		return isPlugin && strings.HasPrefix(path, "plugin[") && slices.ContainsFunc(c.Plugins, func(p Plugin) bool {
			return !slices.Contains(c.unsaid, hcltext.Keyed("plugin", p.Name)+"."+rest) && p.Name != "drain" && p.Name != "global"
		})
	}
	for _, path := range c.unsaid {
		if !said(path) {
			t.Errorf("%s is not in config.hcl.example", path)
		}
	}
}

// sink returns the kind of the sink that a path is of.
func sink(path string) string { return strings.Split(path, `"`)[1] }

// TestExampleShowsDefaults holds the example to what it says of itself: what it shows is the default, with the exceptions named there.
func TestExampleShowsDefaults(t *testing.T) {
	c, d := mustLoad(t, example), Default()
	d.Name, d.Advertise, d.Listen.API, d.TLS = c.Name, c.Advertise, c.Listen.API, c.TLS
	c.Agent, c.Pools, c.Secrets, c.Dashboard = nil, nil, nil, Dashboard{}
	for _, n := range c.Notify {
		if n.After != 5*time.Minute || n.Resend != time.Minute || n.Timeout != 10*time.Second && (n.Kind != NotifyExec || n.Timeout != 30*time.Second) {
			t.Errorf("notify %q shows no defaults: %+v", n.Name, n)
		}
	}
	c.Notify = nil
	o := c.Telemetry.OTLP
	d.Telemetry.Attributes, d.Telemetry.OTLP.Endpoint, d.Telemetry.OTLP.HeadersFile, d.Telemetry.OTLP.TLS = c.Telemetry.Attributes, o.Endpoint, o.HeadersFile, o.TLS
	c.Plugins = slices.DeleteFunc(c.Plugins, func(p Plugin) bool { return p.Name == "cel" })
	if diff := cmp.Diff(d, c, ignoreInternals); diff != "" {
		t.Errorf("-default +example:\n%s", diff)
	}
}

// TestEveryFieldHasAWord loads a file that says of everything something else than its default, and requires every field to be so.
func TestEveryFieldHasAWord(t *testing.T) {
	c := mustLoad(t, "testdata/other.hcl")
	plugin := c.Plugin("other")
	for _, pair := range []struct{ got, unsaid any }{
		{*c, *Default()},
		{*c.Agent, Agent{
			Drivers: []string{"process"}, DataDir: "/var/lib/setpoint-agent", Name: hostname(), TaskLogs: TaskLogs{10 << 20, 4},
			Process: ProcessDriver{Enforce: EnforceBestEffort}, Docker: Docker{Host: DockerHost, Enforce: EnforceBestEffort},
		}},
		{*plugin, Plugin{Timeout: 5 * time.Second, HandshakeTimeout: 5 * time.Second, OnFailure: FailureStall, Builtin: true, Disabled: true, Sandbox: Sandbox{Level: SandboxAuto}}},
	} {
		requireDifferent(t, reflect.TypeOf(pair.got).Name(), reflect.ValueOf(pair.got), reflect.ValueOf(pair.unsaid))
	}
	if g := c.Plugin("global"); !g.Disabled || !g.Builtin {
		t.Errorf("global: %+v", *g)
	}
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		c.DataDir: filepath.Join(here, "data"), plugin.Path: filepath.Join(here, "bin/other"), c.Agent.TokenFile: filepath.Join(here, "token"),
		c.Agent.DataDir: filepath.Join(filepath.Dir(here), "agent"), c.Store.File: "/other/state.db",
	} {
		if got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
}

func requireDifferent(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		name := path + "." + field.Name
		if !field.IsExported() || name == "Config.Store.Kind" { // tested with the bad files and below
			continue
		}
		if f := a.Field(i); f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[cluster.Resources]() {
			requireDifferent(t, name, f, b.Field(i))
		} else if reflect.DeepEqual(f.Interface(), b.Field(i).Interface()) {
			t.Errorf("%s has its default, %v", name, f)
		}
	}
}

func TestMemoryStore(t *testing.T) {
	c := mustLoad(t, writeFile(t, "a.hcl", `
store "memory" {
  retention {
    age = "1m"
  }
}`))
	want := Store{Kind: StoreMemory, Retention: Retention{Revisions: 100_000, Age: time.Minute, Bytes: 64 << 20}}
	if c.Store != want {
		t.Errorf("got %+v, want %+v", c.Store, want)
	}
}

func TestWhatFollows(t *testing.T) {
	c := mustLoad(t, writeFile(t, "a.json", `{"listen": {"api": "0.0.0.0:7000"}, "data_dir": "/d", "heartbeat": {"interval": "10s"}}`))
	if c.Advertise != hostname()+":7000" || c.Store.File != "/d/state.db" || c.Heartbeat.Silent != 20*time.Second || c.Heartbeat.Grace != 30*time.Second {
		t.Errorf("%+v", c)
	}
	c = mustLoad(t, writeFile(t, "a.hcl", "heartbeat {\n  interval = \"1s\"\n  silent_after = \"10s\"\n}\n"))
	if c.Heartbeat.Grace != 10*time.Second {
		t.Errorf("grace %s, want 10s: a node is not down before it is silent", c.Heartbeat.Grace)
	}
}

func TestLoadDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"20.hcl": `name = "n"`, "10.json": `{"data_dir": "/d"}`, "README": "no = = HCL", ".hidden.hcl": "no = = HCL", "30.hcl": `plugin "cel" { path = "/bin/cel" }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := mustLoad(t, dir)
	if c.Name != "n" || c.DataDir != "/d" || c.Plugin("cel") == nil || len(c.Plugins) != 4 {
		t.Errorf("%+v", c)
	}
}

func TestLoadRefuses(t *testing.T) {
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "missing.hcl"): "no such file or directory",
		t.TempDir(): "has no file that ends in .hcl or .json",
		writeFile(t, "large.hcl", "# "+strings.Repeat("x", hcltext.MaxFileSize)):             "the limit is",
		writeFile(t, "deep.hcl", "name = "+strings.Repeat("(", 1000)):                        "can be nested",
		writeFile(t, "loop.hcl", `name = join("", [for x in ["a"] : x])`):                    "no for expressions",
		writeFile(t, "invalid.hcl", "name = \"\xff\"\n"):                                     "UTF-8",
		writeFile(t, "a.json", `{"listen": {"api": "127.0.0.1:7480"}, "listen": {"api": 1}`): "",
	} {
		c, diags := Load(path)
		if text := written(t, c, diags); !diags.HasErrors() || !strings.Contains(text, want) {
			t.Errorf("%s: got %q, want %q", path, text, want)
		}
	}
}

func TestFilesAreCalledByTheirNames(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("empty.d", 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"missing.hcl": "stat missing.hcl:", "empty.d": "empty.d has no file"} {
		if c, diags := Load(path); !strings.Contains(written(t, c, diags), want) {
			t.Errorf("%s: got %q, want %q", path, written(t, c, diags), want)
		}
	}
}

func TestProblem(t *testing.T) {
	c := mustLoad(t, "testdata/other.hcl")
	if got := written(t, c, c.Problem("listen.api", "Address in use", "Somebody else listens there.")); !strings.Contains(got, `other.hcl line 11, in listen:`) {
		t.Error(got)
	}
	if got := written(t, c, c.Problem(`plugin["other"].path`, "S", "D")); !strings.Contains(got, `other.hcl line 72, in plugin "other":`) {
		t.Error(got)
	}
	d := Default()
	if got := written(t, d, d.Problem("listen.api", "Address in use", "Somebody else listens there.")); !strings.Contains(got, "Address in use") {
		t.Error(got)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadFiles loads the files of each archive of testdata/bad and compares what is said about them with its file "diagnostics".
func TestBadFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			want := ""
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
				if f.Name == "diagnostics" {
					want = string(f.Data)
				}
				return f.Name == "diagnostics"
			})
			for _, f := range archive.Files {
				if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, diags := Load(dir)
			got := strings.ReplaceAll(written(t, c, diags), dir+"/", "")
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: "diagnostics", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
