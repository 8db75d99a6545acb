package jobfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

var emptyIsNil = cmpopts.EquateEmpty()

func TestFormat(t *testing.T) {
	checkFormat(t, fullSpec())
	got, err := Format(fullSpec())
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/formatted.hcl"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFormatLeavesDefaultsOut(t *testing.T) {
	s := cluster.JobSpec{Name: "a", Task: cluster.TaskSpec{Command: []string{"/bin/sleep", "1000"}}}.WithDefaults()
	got, err := Format(s)
	if err != nil {
		t.Fatal(err)
	}
	want := "job \"a\" {\n  type = \"replicated\"\n\n  task {\n    command = [\"/bin/sleep\", \"1000\"]\n  }\n}\n"
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestFormatRefuses(t *testing.T) {
	for json, want := range map[string]string{
		`{"a b": 1}`:              `the key "a b" is no name`,
		`[1]`:                     "no object",
		`null`:                    "no object",
		`{`:                       "EOF",
		`{"a": {"b": 1e6000000}}`: "too large",
	} {
		_, err := Format(cluster.JobSpec{Name: "a", Plugins: []cluster.PluginSettings{{Plugin: "p", JSON: json}}})
		if err == nil || !strings.HasPrefix(err.Error(), "format job a: settings of plugin p: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", json, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", 90 * time.Second: "1m30s", 90 * time.Minute: "1h30m", 10 * time.Hour: "10h", 1500 * time.Millisecond: "1.5s",
		time.Hour + time.Second: "1h0m1s", 10 * time.Second: "10s", -time.Minute: "-1m",
	} {
		got := formatDuration(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: got %s (%v, %v), want %s", d, got, back, err, want)
		}
	}
}

// TestFormatComesBack writes and reads arbitrary valid jobs.
func TestFormatComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSpec(rt)
		if problems := s.Validate(); problems != nil {
			rt.Fatalf("the generator made a job with problems: %v", problems)
		}
		text, err := Format(s)
		if err != nil {
			rt.Fatal(err)
		}
		file, diags := Parse("job.hcl", text)
		if diags.HasErrors() {
			rt.Fatalf("%v\n%s", diags, text)
		}
		if diff := cmp.Diff(s, file.Jobs[0].Spec, emptyIsNil); diff != "" {
			rt.Fatalf("-want +got:\n%s\n%s", diff, text)
		}
	})
}

func drawSpec(rt *rapid.T) cluster.JobSpec {
	name := rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)
	text := rapid.String().Filter(func(s string) bool {
		return !strings.Contains(s, "\x00") && s == strings.ToValidUTF8(s, "") && isNormal(s)
	})
	span := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "span"))
	})
	labels := rapid.MapOfN(rapid.StringMatching(`[a-zA-Z0-9]|for|null|a/b\.c-d_e`), rapid.StringMatching(`[ -~]{0,20}`), 0, 4)
	texts := rapid.MapOfN(rapid.StringMatching(`[A-Za-z_]{1,5}|for|a b|é`), text, 0, 4)
	s := cluster.JobSpec{
		Name:           name.Draw(rt, "name"),
		Type:           rapid.SampledFrom([]string{"replicated", "global", "batch", "global-batch", "per-rack"}).Draw(rt, "type"),
		Priority:       rapid.IntRange(0, 100).Draw(rt, "priority"),
		Labels:         labels.Draw(rt, "labels"),
		MaxUnavailable: rapid.SampledFrom([]cluster.Amount{{Count: 1}, {Count: 7}, {Percent: 25}, {Percent: 100}}).Draw(rt, "max_unavailable"),
		MaxPerNode:     rapid.IntRange(0, 3).Draw(rt, "max_per_node"),
		OnDrift:        rapid.SampledFrom([]cluster.OnDrift{"move", "keep"}).Draw(rt, "on_drift"),
		OnLost:         rapid.SampledFrom([]cluster.OnLost{"replace", "wait"}).Draw(rt, "on_lost"),
		LostAfter:      span.Draw(rt, "lost_after"),
		OnDrain:        rapid.SampledFrom([]cluster.OnDrain{"first", "last"}).Draw(rt, "on_drain"),
		Strategy:       rapid.SampledFrom([]cluster.Strategy{"", "spread", "binpack"}).Draw(rt, "strategy"),
		HistoryLimit:   rapid.IntRange(0, 9).Draw(rt, "history_limit"),
		Update: cluster.UpdateSpec{
			Parallelism: rapid.IntRange(0, 3).Draw(rt, "parallelism"), Delay: span.Draw(rt, "delay"), Monitor: span.Draw(rt, "monitor"),
			Order:           rapid.SampledFrom([]cluster.Order{"stop-first", "start-first"}).Draw(rt, "order"),
			OnFailure:       rapid.SampledFrom([]cluster.OnFailure{"pause", "continue", "rollback"}).Draw(rt, "on_failure"),
			MaxFailureRatio: float64(rapid.IntRange(0, 1_000_000).Draw(rt, "ratio in millionths")) / 1e6, ProgressDeadline: span.Draw(rt, "progress_deadline"),
		},
		Task: cluster.TaskSpec{
			Driver:    rapid.SampledFrom([]string{"process", "docker", "sim"}).Draw(rt, "driver"),
			Command:   append([]string{"/bin/x"}, rapid.SliceOfN(text, 0, 3).Draw(rt, "args")...),
			Env:       texts.Draw(rt, "env"),
			Config:    drawConfig(rt, texts),
			Resources: cluster.Resources{MilliCPU: rapid.Int64Range(0, 100_000).Draw(rt, "cpu"), Memory: rapid.Int64Min(0).Draw(rt, "memory")},
			Stop:      cluster.StopSpec{Signal: rapid.SampledFrom(cluster.StopSignals()).Draw(rt, "signal"), Grace: span.Draw(rt, "grace"), AfterDisconnect: span.Draw(rt, "after_disconnect")},
		},
	}
	if s.Task.Driver == cluster.DriverDocker {
		s.Task.Config["image"] = "a:1"
	}
	if s.Numbered() || s.Type == "per-rack" {
		s.Count = rapid.IntRange(0, 5).Draw(rt, "count")
	}
	s.Restart.Condition = rapid.SampledFrom([]cluster.RestartCondition{"any", "on-failure", "none"}).Draw(rt, "condition")
	s.Restart.Delay = span.Draw(rt, "restart_delay")
	s.Restart.MaxDelay = s.Restart.Delay + span.Draw(rt, "max_delay")
	s.Restart.Window = rapid.SampledFrom([]time.Duration{0, 10 * time.Minute, 1000 * time.Hour}).Draw(rt, "window")
	if rapid.Bool().Draw(rt, "health") {
		s.Task.Health = &cluster.HealthSpec{TCP: "a:1", Interval: 1 + span.Draw(rt, "interval"), Timeout: 5 * time.Second, Retries: 3}
	}
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "constraint", "z"}), 0, 3, rapid.ID).Draw(rt, "plugins") {
		json := rapid.SampledFrom([]string{
			`{}`, `{"constraints":["a == b"]}`, `{"constraints":["a"],"x":null}`, `{"constraints":"a"}`, `{"a":{"b c":[1,2.5,{"for":true}]},"e":"${x}%{y}"}`,
		}).Draw(rt, "json")
		s.Plugins = append(s.Plugins, cluster.PluginSettings{Plugin: p, JSON: json})
	}
	return sorted(s)
}

// drawConfig draws settings of a driver, among them such as look like what HCL has values for.
func drawConfig(rt *rapid.T, texts *rapid.Generator[map[string]string]) map[string]string {
	config := texts.Draw(rt, "config")
	likely := rapid.SampledFrom([]string{
		`["a","b"]`, `["a", "b"]`, `[]`, `{}`, `[[]]`, `[{"b":1,"a":[{"c":null}]},{"a b":"${x}"}]`, `{"for":1.50}`, `{"a":1,"a":2}`, `[1e3]`, `["\u0041"]`, `[`,
		`{"x":"a\nb"}`, `["` + strings.Repeat("long", 50) + `","b"]`, "true", "True", "7", "007", "-7", "-0", "1.5", "1e3", "99999999999999999999", " 7", "null",
	})
	for name, value := range rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}|for`), likely, 0, 4).Draw(rt, "settings") {
		config[name] = value
	}
	return config
}

func sorted(s cluster.JobSpec) cluster.JobSpec {
	plugins := s.WithDefaults().Plugins
	s.Plugins = plugins
	return s
}
