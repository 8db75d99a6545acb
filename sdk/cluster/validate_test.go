package cluster

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func validJob() JobSpec {
	return JobSpec{Name: "web", Task: TaskSpec{Command: []string{"/bin/true"}}}.WithDefaults()
}

func TestDefaults(t *testing.T) {
	s := validJob()
	s.Task.Health = &HealthSpec{TCP: "127.0.0.1:80"}
	h := s.Task.Health
	s = s.WithDefaults()
	if h.Interval != 0 || h.Timeout != 0 || h.Retries != 0 {
		t.Errorf("WithDefaults changed the job's own health check: %+v", *h)
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"type", s.Type, "replicated"},
		{"count", s.Count, 1},
		{"priority", s.Priority, 50},
		{"max_unavailable", s.MaxUnavailable, Amount{Percent: 25}},
		{"on_drift", s.OnDrift, DriftMove},
		{"on_lost", s.OnLost, LostReplace},
		{"on_drain", s.OnDrain, DrainFirst},
		{"strategy", s.Strategy, Strategy("")},
		{"history_limit", s.HistoryLimit, 5},
		{"driver", s.Task.Driver, "process"},
		{"stop", s.Task.Stop, StopSpec{Signal: "TERM", Grace: 10 * time.Second}},
		{"health interval", s.Task.Health.Interval, 10 * time.Second},
		{"health timeout", s.Task.Health.Timeout, 5 * time.Second},
		{"health start_period", s.Task.Health.StartPeriod, time.Duration(0)},
		{"health retries", s.Task.Health.Retries, 3},
		{"update", s.Update, UpdateSpec{Parallelism: 1, Order: StopFirst, Monitor: 5 * time.Second, OnFailure: FailurePause, ProgressDeadline: 10 * time.Minute}},
		{"restart", s.Restart, RestartSpec{Condition: RestartAny, Delay: time.Second, MaxDelay: time.Minute, Window: 10 * time.Minute}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestDefaultsByType(t *testing.T) {
	for _, c := range []struct {
		jobType   string
		count     int
		onDrain   OnDrain
		condition RestartCondition
	}{
		{TypeReplicated, 1, DrainFirst, RestartAny},
		{TypeBatch, 1, DrainFirst, RestartOnFailure},
		{TypeGlobal, 0, DrainLast, RestartAny},
		{TypeGlobalBatch, 0, DrainLast, RestartOnFailure},
		{"per-rack", 0, DrainFirst, RestartAny},
	} {
		s := JobSpec{Name: "a", Type: c.jobType, Task: TaskSpec{Command: []string{"x"}}}.WithDefaults()
		if s.Count != c.count || s.OnDrain != c.onDrain || s.Restart.Condition != c.condition {
			t.Errorf("%s: count %d, on_drain %s, condition %s; want %+v", c.jobType, s.Count, s.OnDrain, s.Restart.Condition, c)
		}
		if problems := s.Validate(); problems != nil {
			t.Errorf("%s: its defaults have problems: %v", c.jobType, problems)
		}
	}
	long := JobSpec{Restart: RestartSpec{Delay: 2 * time.Minute}}.WithDefaults()
	if long.Restart.MaxDelay != 2*time.Minute {
		t.Errorf("max_delay beside delay = 2m: %s, want 2m", long.Restart.MaxDelay)
	}
	given := []PluginSettings{{Plugin: "b"}, {Plugin: "a"}}
	sorted := JobSpec{Plugins: given}.WithDefaults()
	if sorted.Plugins[0].Plugin != "a" || given[0].Plugin != "b" {
		t.Errorf("plugin settings: %v, made of %v", sorted.Plugins, given)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*JobSpec)
		want string // PATH: SUMMARY, and part of the detail after a |
	}{
		{"upper case", func(s *JobSpec) { s.Name = "Web" }, `name: Invalid job name|"Web" has a 'W'`},
		{"empty name", func(s *JobSpec) { s.Name = "" }, `name: Invalid job name|It is empty`},
		{"hyphen at the end", func(s *JobSpec) { s.Name = "web-" }, `name: Invalid job name|must begin and end`},
		{"long name", func(s *JobSpec) { s.Name = strings.Repeat("a", 64) }, `name: Invalid job name|64 characters; the limit is 63`},
		{"type", func(s *JobSpec) { s.Type = "a b" }, `type: Invalid job type|' '`},
		{"negative count", func(s *JobSpec) { s.Count = -1 }, `count: Negative number|-1`},
		{"huge count", func(s *JobSpec) { s.Count = 1_000_001 }, `count: Number out of range|1000001`},
		{"count of a global job", func(s *JobSpec) { s.Type = TypeGlobal }, `count: A global job has no count|every eligible node`},
		{"parallelism", func(s *JobSpec) { s.Type, s.Parallelism = TypeBatch, -1 }, `parallelism: Negative number|-1`},
		{"address without a pool", func(s *JobSpec) { s.Task.Addresses = []Address{{Name: "eth0"}} }, `task.address["eth0"].pool: Invalid pool name|It is empty`},
		{"address twice", func(s *JobSpec) { s.Task.Addresses = []Address{{"a", "lan"}, {"a", "wan"}} }, `task.address["a"]: Address given twice|`},
		{"parallelism of a replicated job", func(s *JobSpec) { s.Parallelism = 2 }, `parallelism: A replicated job has no parallelism|use type = "batch"`},
		{"priority", func(s *JobSpec) { s.Priority = 101 }, `priority: Number out of range|between 0 and 100`},
		{"label key", func(s *JobSpec) { s.Labels = map[string]string{"a b": "x"} }, `labels["a b"]: Invalid label key|' '`},
		{"label value", func(s *JobSpec) { s.Labels = map[string]string{"a": "x\ny"} }, `labels["a"]: Invalid label value|cannot be printed, at byte 1`},
		{"settings", func(s *JobSpec) { s.Plugins = []PluginSettings{{"cel", "[]"}} }, `plugin["cel"]: Settings are no JSON object|cannot unmarshal array`},
		{"null settings", func(s *JobSpec) { s.Plugins = []PluginSettings{{"cel", "null"}} }, `plugin["cel"]: Settings are no JSON object|null`},
		{"settings twice", func(s *JobSpec) { s.Plugins = []PluginSettings{{"cel", "{}"}, {"cel", "{}"}} }, `plugin["cel"]: Settings given twice|`},
		{"none unavailable", func(s *JobSpec) { s.MaxUnavailable = Amount{} }, `max_unavailable: No task could ever be moved|start-first`},
		{"percent", func(s *JobSpec) { s.MaxUnavailable = Amount{Percent: 101} }, `max_unavailable: Number out of range|101 %`},
		{"negative amount", func(s *JobSpec) { s.MaxUnavailable = Amount{Count: -1} }, `max_unavailable: Negative number|`},
		{"max_per_node", func(s *JobSpec) { s.MaxPerNode = -1 }, `max_per_node: Negative number|`},
		{"on_drift", func(s *JobSpec) { s.OnDrift = "mvoe" }, `on_drift: Unknown word|use "move" or "keep". Did you mean "move"?`},
		{"on_lost", func(s *JobSpec) { s.OnLost = "x" }, `on_lost: Unknown word|There is no "x" here; use "replace" or "wait".`},
		{"lost_after", func(s *JobSpec) { s.LostAfter = -1 }, `lost_after: Negative duration|-1ns`},
		{"on_drain", func(s *JobSpec) { s.OnDrain = "Last" }, `on_drain: Unknown word|Did you mean "last"?`},
		{"strategy", func(s *JobSpec) { s.Strategy = "bin-pack" }, `strategy: Unknown word|Did you mean "binpack"?`},
		{"spread attribute", func(s *JobSpec) { s.Spread = []Spread{{Attribute: "node.oss"}} }, `spread[0].attribute: Unknown word|Did you mean "node.os"?`},
		{"spread label", func(s *JobSpec) { s.Spread = []Spread{{Attribute: "node.labels."}} }, `spread[0].attribute: Invalid label key|empty`},
		{
			"spread shares", func(s *JobSpec) { s.Spread = []Spread{{"node.os", []SpreadTarget{{"a", 60}, {"b", 60}}}} },
			`spread[0].targets: Shares are more than the whole|120 %`,
		},
		{"history", func(s *JobSpec) { s.HistoryLimit = -1 }, `history_limit: Negative number|`},
		{"driver", func(s *JobSpec) { s.Task.Driver = "procss" }, `task.driver: Unknown word|Did you mean "process"?`},
		{"no image", func(s *JobSpec) { s.Task.Driver, s.Task.Config = DriverDocker, map[string]string{"pull": "never"} }, `task.config: No image|docker driver`},
		{"no command", func(s *JobSpec) { s.Task.Command = nil }, `task.command: No command|process driver`},
		{"empty program", func(s *JobSpec) { s.Task.Command = []string{""} }, `task.command[0]: The program has no name|`},
		{"NUL", func(s *JobSpec) { s.Task.Command = []string{"a", "b\x00"} }, `task.command[1]: Text with a NUL character|`},
		{"relative dir", func(s *JobSpec) { s.Task.Dir = "srv" }, `task.dir: Not an absolute path|slash`},
		{"variable", func(s *JobSpec) { s.Task.Env = map[string]string{"A=B": ""} }, `task.env["A=B"]: Invalid variable name|`},
		{"reserved variable", func(s *JobSpec) { s.Task.Env = map[string]string{"SETPOINT_X": ""} }, `task.env["SETPOINT_X"]: Reserved variable name|SETPOINT_`},
		{"large env", func(s *JobSpec) { s.Task.Env = map[string]string{"A": strings.Repeat("a", 128<<10)} }, `task: Task too large|131`},
		{"negative cpu", func(s *JobSpec) { s.Task.Resources.MilliCPU = -1 }, `task.resources.cpu: Negative amount|`},
		{"negative memory", func(s *JobSpec) { s.Task.Resources.Memory = -1 }, `task.resources.memory: Negative amount|`},
		{"unit name", func(s *JobSpec) { s.Task.Resources.Units = map[string]int64{"cpu": 1} }, `task.resources.units["cpu"]: Invalid unit name|a resource of its own`},
		{"negative unit", func(s *JobSpec) { s.Task.Resources.Units = map[string]int64{"gpu": -1} }, `task.resources.units["gpu"]: Negative amount|`},
		{"port name", func(s *JobSpec) { s.Task.Ports = []Port{{Name: "my-port"}} }, `task.port["my-port"]: Invalid port name|'-'`},
		{"port twice", func(s *JobSpec) { s.Task.Ports = []Port{{Name: "a"}, {Name: "a"}} }, `task.port["a"]: Port given twice|`},
		{"number twice", func(s *JobSpec) { s.Task.Ports = []Port{{"a", 80}, {"b", 80}} }, `task.port["b"].static: Port number given twice|The port "a" has the number 80`},
		{"signal", func(s *JobSpec) { s.Task.Stop.Signal = "SIGTERM" }, `task.stop.signal: Unknown word|There is no "SIGTERM" here`},
		{"grace", func(s *JobSpec) { s.Task.Stop.Grace = -time.Second }, `task.stop.grace: Negative duration|-1s`},
		{"parallelism", func(s *JobSpec) { s.Update.Parallelism = -1 }, `update.parallelism: Negative number|`},
		{"delay", func(s *JobSpec) { s.Update.Delay = -1 }, `update.delay: Negative duration|`},
		{"order", func(s *JobSpec) { s.Update.Order = "startfirst" }, `update.order: Unknown word|Did you mean "start-first"?`},
		{"monitor", func(s *JobSpec) { s.Update.Monitor = -1 }, `update.monitor: Negative duration|`},
		{"on_failure", func(s *JobSpec) { s.Update.OnFailure = "rolback" }, `update.on_failure: Unknown word|Did you mean "rollback"?`},
		{"ratio", func(s *JobSpec) { s.Update.MaxFailureRatio = 1.5 }, `update.max_failure_ratio: Number out of range|1.5`},
		{"ratio not a number", func(s *JobSpec) { s.Update.MaxFailureRatio = math.NaN() }, `update.max_failure_ratio: Number out of range|NaN`},
		{"progress", func(s *JobSpec) { s.Update.ProgressDeadline = -1 }, `update.progress_deadline: Negative duration|`},
		{"condition", func(s *JobSpec) { s.Restart.Condition = "on_failure" }, `restart.condition: Unknown word|Did you mean "on-failure"?`},
		{"max_delay", func(s *JobSpec) { s.Restart.Delay = 2 * time.Minute }, `restart.max_delay: Shorter than the delay|max_delay is 1m0s, delay 2m0s`},
		{"attempts", func(s *JobSpec) { s.Restart.Attempts = -1 }, `restart.attempts: Negative number|`},
		{"window", func(s *JobSpec) { s.Restart.Window = -1 }, `restart.window: Negative duration|`},
		{
			"delay as long as the window", func(s *JobSpec) { s.Restart.Attempts, s.Restart.Window = 3, time.Second },
			`restart.delay: The limit on attempts would never count|attempts = 3 could never be used up`,
		},
		{
			"delays that grow past the window", func(s *JobSpec) { // 2 + 4 + 5 + 5 = 16
				s.Restart = RestartSpec{Condition: RestartAny, Delay: time.Second, MaxDelay: 5 * time.Second, Attempts: 5, Window: 16 * time.Second}
			},
			`restart.attempts: The limit on attempts would never count|the last of 5 restarts comes 16s after the first at the earliest`,
		},
		{
			"attempts of nothing", func(s *JobSpec) { s.Restart.Condition, s.Restart.Attempts = RestartNone, 3 },
			`restart.attempts: Nothing is restarted|attempts = 3 says nothing beside condition = "none"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := validJob()
			c.with(&s)
			problems := s.Validate()
			if len(problems) != 1 {
				t.Fatalf("want one problem, got %v", problems)
			}
			head, detail, _ := strings.Cut(c.want, "|")
			if got := problems[0].Path + ": " + problems[0].Summary; got != head || !strings.Contains(problems[0].Detail, detail) {
				t.Errorf("got  %s\nwant %s with %q", problems[0], head, detail)
			}
		})
	}
}

// TestValidateRestartsThatFit has limits that can just be reached.
func TestValidateRestartsThatFit(t *testing.T) {
	for _, r := range []RestartSpec{
		{Condition: RestartAny, Delay: time.Second, MaxDelay: 5 * time.Second, Attempts: 5, Window: 16*time.Second + 1},
		{Condition: RestartAny, Delay: time.Second, MaxDelay: time.Second, Attempts: 1, Window: 2 * time.Second},
		{Condition: RestartAny, Attempts: MaxCount, Window: 1},
		{Condition: RestartAny, Delay: time.Hour, MaxDelay: math.MaxInt64, Attempts: MaxCount},
	} {
		s := validJob()
		s.Restart = r
		if problems := s.Validate(); len(problems) != 0 {
			t.Errorf("%+v: %v", r, problems)
		}
	}
	s := validJob()
	s.Restart = RestartSpec{Condition: RestartAny, Delay: math.MaxInt64 / 4, MaxDelay: math.MaxInt64 / 3, Attempts: MaxCount, Window: math.MaxInt64 / 4}
	if problems := s.Validate(); len(problems) != 1 {
		t.Errorf("%+v: %v", s.Restart, problems)
	}
}

func TestValidateHealth(t *testing.T) {
	ok := HealthSpec{Interval: time.Second, Timeout: time.Second, Retries: 1}
	for _, c := range []struct {
		name string
		with func(*HealthSpec)
		want []string // PATH: SUMMARY
	}{
		{"http", func(h *HealthSpec) { h.HTTP = "http://127.0.0.1:8080/healthz" }, nil},
		{"http with a port that is granted", func(h *HealthSpec) { h.HTTP = "http://127.0.0.1:$SETPOINT_PORT_http/healthz" }, nil},
		{"tcp", func(h *HealthSpec) { h.TCP = "127.0.0.1:8080" }, nil},
		{"tcp v6", func(h *HealthSpec) { h.TCP = "[::1]:8080" }, nil},
		{"tcp with a port that is granted", func(h *HealthSpec) { h.TCP = "127.0.0.1:${SETPOINT_PORT_http}" }, nil},
		{"exec", func(h *HealthSpec) { h.Exec = []string{"/bin/true"} }, nil},
		{"nothing", func(*HealthSpec) {}, []string{"task.health: Not exactly one kind of check"}},
		{"two", func(h *HealthSpec) { h.HTTP, h.TCP = "http://a/", "a:1" }, []string{"task.health: Not exactly one kind of check"}},
		{"no program", func(h *HealthSpec) { h.Exec = []string{""} }, []string{"task.health.exec[0]: The program has no name"}},
		{"no scheme", func(h *HealthSpec) { h.HTTP = "127.0.0.1:8080" }, []string{"task.health.http: Not a URL"}},
		{"another scheme", func(h *HealthSpec) { h.HTTP = "ftp://a/" }, []string{"task.health.http: Not an HTTP address"}},
		{"no port", func(h *HealthSpec) { h.TCP = "127.0.0.1" }, []string{"task.health.tcp: Not a TCP address"}},
		{"large port", func(h *HealthSpec) { h.TCP = "127.0.0.1:70000" }, []string{"task.health.tcp: Not a TCP address"}},
		{"no host", func(h *HealthSpec) { h.TCP = ":80" }, []string{"task.health.tcp: Not a TCP address"}},
		{
			"times", func(h *HealthSpec) { h.TCP, h.Interval, h.Timeout, h.StartPeriod, h.Retries = "a:1", 0, -1, -1, 0 },
			[]string{
				"task.health.interval: Duration too short", "task.health.timeout: Duration too short", "task.health.start_period: Negative duration",
				"task.health.retries: Number out of range",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := ok
			c.with(&h)
			s := validJob()
			s.Task.Health = &h
			var got []string
			for _, p := range s.Validate() {
				got = append(got, p.Path+": "+p.Summary)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestValidateReportsAllAtOnce(t *testing.T) {
	s := JobSpec{Name: "Web", Type: "x y", Count: -1, Priority: -1}
	want := []string{
		"name", "type", "count", "priority", "on_drift", "on_lost", "on_drain", "task.driver", "task.stop.signal", "update.order", "update.on_failure",
		"restart.condition",
	}
	var got []string
	for _, p := range s.Validate() {
		got = append(got, p.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStartFirstAllowsNoneUnavailable(t *testing.T) {
	s := validJob()
	s.MaxUnavailable, s.Update.Order = Amount{}, StartFirst
	if problems := s.Validate(); problems != nil {
		t.Error(problems)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		what  string
		valid func(string) error
		good  []string
		bad   []string
	}{
		{"job", ValidateName, []string{"a", "web-1", "0", strings.Repeat("a", 63)}, []string{"", "-a", "a-", "a_b", "a.b", "é", "A", strings.Repeat("a", 64)}},
		{"node", ValidateNodeName, []string{"n1", "Node_1.example.com"}, []string{"", ".a", "a/b", "a b", strings.Repeat("a", 254)}},
		{"label key", ValidateLabelKey, []string{"disk", "example.com/zone", "a_b-c"}, []string{"", "disk-", "/a", "a=b", "a b", strings.Repeat("a", 129)}},
		{"label value", ValidateLabelValue, []string{"", "ssd", "two words", "日本"}, []string{"a\n", "\x00", "\xff", strings.Repeat("a", 257)}},
		{"unit", ValidateUnitName, []string{"gpu", "nvidia.com-gpu", "a_b"}, []string{"", "cpu", "memory", "GPU", "a/b"}},
		{"port", ValidatePortName, []string{"http", "http_2"}, []string{"", "HTTP", "a-b", "_a"}},
	} {
		for _, name := range c.good {
			if err := c.valid(name); err != nil {
				t.Errorf("%s %q: %v", c.what, name, err)
			}
		}
		for _, name := range c.bad {
			if err := c.valid(name); err == nil {
				t.Errorf("%s %q was not refused", c.what, name)
			}
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"any", "on-failure", "none", "count", "memory"}
	for given, want := range maps.All(map[string]string{
		"none": "none", "nnoe": "none", "on_failure": "on-failure", "ANY": "any", "cuont": "count", "memmory": "memory", "xyz": "", "": "", "counter": "count",
	}) {
		if got := Suggest(given, known); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestChoice(t *testing.T) {
	for want, words := range map[string][]string{"": nil, `"a"`: {"a"}, `"a" or "b"`: {"a", "b"}, `"a", "b" or "c"`: {"a", "b", "c"}} {
		if got := Choice(words); got != want {
			t.Errorf("%v: got %s, want %s", words, got, want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("web", "replicated", "127.0.0.1:80", `{"a":1}`, "node.labels.zone", 3)
	f.Add("", "", "${", "", "", -1)
	f.Fuzz(func(t *testing.T, name, word, text, json, attribute string, n int) {
		s := JobSpec{
			Name: name, Type: word, Count: n, Plugins: []PluginSettings{{name, json}}, Spread: []Spread{{Attribute: attribute}}, OnDrift: OnDrift(word),
			Labels: map[string]string{name: text},
			Task:   TaskSpec{Driver: word, Command: []string{text}, Env: map[string]string{name: text}, Health: &HealthSpec{HTTP: text, TCP: text}},
		}
		for _, p := range s.WithDefaults().Validate() {
			if p.Path == "" || p.Summary == "" {
				t.Errorf("a problem without a place or a text: %+v", p)
			}
		}
	})
}
