package jobfile

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// fullSpec is what testdata/full.hcl and full.json say.
func fullSpec() cluster.JobSpec {
	return cluster.JobSpec{
		Name:     "web",
		Type:     "replicated",
		Labels:   map[string]string{"team": "shop", "example.com/tier": "1"},
		Strategy: cluster.StrategyBinpack,
		Plugins: []cluster.PluginSettings{
			{
				Plugin: "cel",
				JSON: `{"expr":"node.cpu > 4 && node.name != <none>","item":[{"n":1},{"n":2}],"nested":{"size":1.5},` +
					`"rule":{"first":{"weight":1},"second":{"weight":2,"weight2":null}}}`,
			},
			{Plugin: "constraint", JSON: `{"constraints":["node.labels.disk == ssd","node.attributes.kernel >= 5.10"],"strict":true}`},
		},
		MaxUnavailable: cluster.Amount{Percent: 50},
		MaxPerNode:     2,
		OnDrift:        cluster.DriftKeep,
		OnLost:         cluster.LostWait,
		LostAfter:      90 * time.Second,
		OnDrain:        cluster.DrainLast,
		Spread: []cluster.Spread{
			{Attribute: "node.labels.zone", Targets: []cluster.SpreadTarget{{Value: "a", Percent: 60}, {Value: "b", Percent: 40}}},
			{Attribute: "node.os"},
		},
		Task: cluster.TaskSpec{
			Driver:    "process",
			Command:   []string{"/srv/web", "-listen", ":8080"},
			Dir:       "/srv",
			User:      "www",
			Env:       map[string]string{"MODE": "prod", "LEVEL": "3", "for": "x", "TEMPLATE": "${HOME}", "quoted name": "y"},
			Config:    map[string]string{"run_for": "10s", "exit_code": "3", "quiet": "true", "mounts": `["/a","/b"]`},
			Resources: cluster.Resources{MilliCPU: 100, Memory: 256 << 20, Units: map[string]int64{"gpu": 2}},
			Ports:     []cluster.Port{{Name: "http", Static: 8080}, {Name: "admin"}},
			Addresses: []cluster.Address{{Name: "eth0", Pool: "lan"}},
			Secrets: []cluster.Secret{
				{Name: "db-password", Version: 3, Target: "db.txt", Mode: 0o440, Owner: "1000:1000"}, {Name: "tls.key", Target: "tls.key", Mode: 0o400},
			},
			Stop: cluster.StopSpec{Signal: "INT", Grace: 90 * time.Second, AfterDisconnect: 2 * time.Minute},
			Health: &cluster.HealthSpec{
				HTTP: "http://127.0.0.1:8080/healthz", Interval: 5 * time.Second, Timeout: time.Second, StartPeriod: 30 * time.Second, Retries: 5,
			},
		},
		Update: cluster.UpdateSpec{
			Delay: 5 * time.Second, Order: cluster.StartFirst, OnFailure: cluster.FailureRollback, MaxFailureRatio: 0.25,
		},
		Restart: cluster.RestartSpec{
			Condition: cluster.RestartOnFailure, Delay: 2 * time.Second, MaxDelay: 20 * time.Second, Attempts: 10, Window: 5 * time.Minute,
		},
	}
}

// mustParse returns the jobs of a file that has nothing wrong with it.
func mustParse(t *testing.T, filename string, src []byte) []*Job {
	t.Helper()
	file, diags := Parse(filename, src)
	if len(diags) > 0 {
		var out strings.Builder
		if err := file.Write(&out, diags, hcltext.Look{}); err != nil {
			t.Fatal(err)
		}
		t.Fatalf("%s:\n%s", filename, out.String())
	}
	return file.Jobs
}

func TestParseEverything(t *testing.T) {
	for _, name := range []string{"testdata/full.hcl", "testdata/full.json"} {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		jobs := mustParse(t, name, src)
		if len(jobs) != 1 {
			t.Fatalf("%s: %d jobs, want 1", name, len(jobs))
		}
		if diff := cmp.Diff(fullSpec(), jobs[0].Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFullSaysEverything fails for a field of a job for which the language has no word: it would have its default in testdata/full.hcl.
func TestFullSaysEverything(t *testing.T) {
	defaults := cluster.JobSpec{Name: "other", Task: cluster.TaskSpec{Health: &cluster.HealthSpec{}}}.WithDefaults()
	zeroSaid := fullSpec()
	requireDifferent(t, "job", reflect.ValueOf(zeroSaid), reflect.ValueOf(defaults))
}

// TestEveryFieldReachesTheServer sends what a file says, and compares what arrives.
func TestEveryFieldReachesTheServer(t *testing.T) {
	batch := cluster.JobSpec{Name: "b", Type: cluster.TypeBatch, Parallelism: 3, Task: cluster.TaskSpec{
		Command: []string{"x"}, Health: &cluster.HealthSpec{Exec: []string{"check", "it"}},
	}}.WithDefaults()
	tcp := fullSpec()
	tcp.Task.Health = &cluster.HealthSpec{TCP: "127.0.0.1:80", Interval: 1, Timeout: 2, StartPeriod: 3, Retries: 4}
	for _, s := range []cluster.JobSpec{fullSpec(), batch, tcp} {
		checkFormat(t, s)
		got, err := wire.JobSpecFromProto(wire.JobSpecToProto(&s))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, diff)
		}
		if problems := got.Validate(); problems != nil {
			t.Errorf("%s is refused: %v", s.Name, problems)
		}
	}
}

func requireDifferent(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	if a.Kind() == reflect.Pointer {
		a, b = a.Elem(), b.Elem()
	}
	for i := range a.NumField() {
		name := path + "." + a.Type().Field(i).Name
		switch name {
		case "job.Type", "job.Task.Driver", "job.Parallelism", "job.Task.Health.Exec", "job.Task.Health.TCP": // their defaults are what the file says; tested below
			continue
		}
		f, g := a.Field(i), b.Field(i)
		if f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[cluster.Amount]() || f.Kind() == reflect.Pointer {
			requireDifferent(t, name, f, g)
			continue
		}
		if reflect.DeepEqual(f.Interface(), g.Interface()) {
			t.Errorf("%s is not said in testdata/full.hcl", name)
		}
	}
}

func TestParseBatch(t *testing.T) {
	jobs := mustParse(t, "batch.hcl", []byte(`
job "once" {
  type        = "batch"
  count       = 10
  parallelism = 3
  task {
    command = ["/bin/true"]
  }
  restart {
    attempts = 2
  }
}
`))
	want := cluster.JobSpec{
		Name: "once", Type: cluster.TypeBatch, Count: 10, Parallelism: 3, Task: cluster.TaskSpec{Command: []string{"/bin/true"}},
	}.WithDefaults()
	want.Restart.Attempts = 2
	if diff := cmp.Diff(want, jobs[0].Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r := want.Restart; r.Window != 0 || r.Condition != cluster.RestartOnFailure {
		t.Errorf("attempts count for %s on %s, want for ever, on failure", r.Window, r.Condition)
	}
	checkFormat(t, jobs[0].Spec)
}

func TestParseDefaults(t *testing.T) {
	jobs := mustParse(t, "two.hcl", []byte(`
job "a" {
  task {
    command = ["/bin/true"]
    health {
      exec = ["/bin/check", "it"]
    }
  }
}
job "b" {
  type = "global-batch"
  task {
    driver = "sim"
    health {
      tcp = "127.0.0.1:$SETPOINT_PORT_http"
    }
  }
  restart {
    delay = "2m"
  }
}
`))
	want := []cluster.JobSpec{
		cluster.JobSpec{Name: "a", Task: cluster.TaskSpec{
			Command: []string{"/bin/true"}, Health: &cluster.HealthSpec{Exec: []string{"/bin/check", "it"}},
		}}.WithDefaults(),
		cluster.JobSpec{
			Name: "b", Type: "global-batch", Restart: cluster.RestartSpec{Delay: 2 * time.Minute},
			Task: cluster.TaskSpec{Driver: "sim", Health: &cluster.HealthSpec{TCP: "127.0.0.1:$SETPOINT_PORT_http"}},
		}.WithDefaults(),
	}
	for i, j := range jobs {
		if diff := cmp.Diff(want[i], j.Spec); diff != "" {
			t.Errorf("job %s (-want +got):\n%s", j.Spec.Name, diff)
		}
	}
	if len(jobs) != len(want) {
		t.Errorf("%d jobs, want %d", len(jobs), len(want))
	}
}

// TestNullSaysNothing lets a generator of JSON write null for what it has no opinion on.
func TestNullSaysNothing(t *testing.T) {
	jobs := mustParse(t, "j", []byte(`{"job": {"a": {"count": null, "type": null, "labels": null, "task": {"command": ["x"], "env": null}}}}`))
	want := cluster.JobSpec{Name: "a", Task: cluster.TaskSpec{Command: []string{"x"}}}.WithDefaults()
	if diff := cmp.Diff(want, jobs[0].Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDiagnose(t *testing.T) {
	const src = `job "web" {
  constraints = [
    "node.labels.disk == ssd",
    "node.lables.disk == ssd",
  ]
  task {
    command = ["/bin/true"]
    env     = { A = "1", B = "2" }
  }
  plugin "cel" {
    expr = "?"
    rule "x" {
      weight = 1
    }
    item {
      n = 1
    }
    item {
      n = { deep = [1, 2] }
    }
  }
}
`
	job := mustParse(t, "web.hcl", []byte(src))[0]
	for path, want := range map[string]string{
		`plugin["constraint"].constraints[1]`:    `"node.lables.disk == ssd"`,
		`plugin["constraint"].constraints[7]`:    `[` + "\n" + `    "node.labels.disk == ssd",` + "\n" + `    "node.lables.disk == ssd",` + "\n  ]",
		`plugin["cel"].expr`:                     `"?"`,
		`plugin["cel"].nothing`:                  `plugin "cel"`,
		`plugin["cel"].rule["x"].weight`:         `1`,
		`plugin["cel"].rule["x"].missing`:        `rule "x"`,
		`plugin["cel"].item[0].n`:                `1`,
		`plugin["cel"].item[1].n["deep"][1]`:     `2`,
		`plugin["cel"].item[1].n.deep[0]`:        `1`,
		`plugin["other"]`:                        `job "web"`,
		`name`:                                   `"web"`,
		`count`:                                  `job "web"`,
		`task.command[0]`:                        `"/bin/true"`,
		`task.env["B"]`:                          `"2"`,
		`task.resources.cpu`:                     `task`,
		``:                                       `job "web"`,
		`something["else\" with quotes"].deeper`: `job "web"`,
	} {
		diags := job.Diagnose([]cluster.Problem{{Path: path, Summary: "S", Detail: "D"}})
		if len(diags) != 1 || diags[0].Subject == nil || diags[0].Summary != "S" || diags[0].Detail != "D" {
			t.Errorf("%s: %v", path, diags)
			continue
		}
		if got := string(diags[0].Subject.SliceBytes([]byte(src))); got != want {
			t.Errorf("%s: points at %q, want %q", path, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := strings.Repeat("[", 200_000)
	for name, src := range map[string]string{
		"large":        "# " + strings.Repeat("x", hcltext.MaxFileSize),
		"lists":        "a = " + deep,
		"blocks":       strings.Repeat("a {\n", 50_000),
		"minus":        "a = " + strings.Repeat("-", 200_000) + "1",
		"not":          "a = " + strings.Repeat("!", 200_000) + "true",
		"conditionals": "a = " + strings.Repeat("true ? 1 : ", 20_000) + "1",
		"templates":    "a = " + strings.Repeat(`"${`, 50_000),
		"JSON lists":   `{"a": ` + deep,
	} {
		_, diags := Parse(name, []byte(src))
		if !diags.HasErrors() || !strings.Contains(diags.Error(), "Too deeply nested") && !strings.Contains(diags.Error(), "File too large") {
			t.Errorf("%s: %v", name, diags)
		}
	}
	for _, src := range []string{"a = 1e600000000", "a = -1E-600000000", `{"a": [1e600000000]}`, `{"a": 1E+600000000}`} {
		_, diags := Parse("huge", []byte(src))
		if len(diags) != 1 || diags[0].Summary != "Number too large" {
			t.Errorf("%s: %v", src, diags)
		}
	}
	if _, diags := Parse("not huge", []byte(`{"job": {"a": {"labels": {"a": "1e600000000"}, "task": {"command": ["x"]}}}}`)); diags.HasErrors() {
		t.Errorf("a text is no number: %v", diags)
	}
	src := `job "a" {
  count = 1e999
  labels = { a = 1e999 }
  task {
    command = ["x"]
    resources {
      cpu    = 1e999
      memory = 1e999
    }
  }
  plugin "p" {
    n = 1e999
  }
}`
	if _, diags := Parse("large", []byte(src)); len(diags) != 5 {
		t.Errorf("%d diagnostics, want 5: %v", len(diags), diags)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/full.hcl", "testdata/full.json"} {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(`job "a" { task { command = ["x"] } plugin "p" { a { } a = 1 } }`))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, diags := Parse("f", src)
		if err := file.Write(&bytes.Buffer{}, diags, hcltext.Look{Width: 80, Color: true}); err != nil {
			t.Fatal(err)
		}
		if diags.HasErrors() {
			return
		}
		for _, j := range file.Jobs {
			if problems := j.Spec.Validate(); problems != nil {
				t.Errorf("accepted with problems: %v", problems)
			}
			checkFormat(t, j.Spec)
		}
	})
}

// checkFormat requires that a job comes back from its file. It may refuse to become one.
func checkFormat(t *testing.T, s cluster.JobSpec) {
	t.Helper()
	text, err := Format(s)
	if err != nil {
		if !strings.Contains(err.Error(), "is no name") {
			t.Error(err)
		}
		return
	}
	again, diags := Parse("again.hcl", text)
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, text)
	}
	if diff := cmp.Diff(s, again.Jobs[0].Spec, emptyIsNil); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, text)
	}
}
