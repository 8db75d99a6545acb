package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// A plugin that lacks what it should have is told with its name, its version, what this host knows, and which side to upgrade.
func Test17DMissingCapability(t *testing.T) {
	cases := map[string][]string{
		"session":   {"plugin session 3.2.1 (", "it does not serve this call", "version 1 of the protocol, the host's", "upgrade the plugin"},
		"interface": {"plugin interface 3.2.1 (", "no interface that this host knows, but oracle (this host knows filter, drainer, job_type)", "upgrade the host"},
		"filter":    {"plugin filter 3.2.1 (", "classes are given to a plugin that is no filter", "describes what it does not serve", "version 1 of the protocol", "upgrade the plugin"},
	}
	var config strings.Builder
	for what := range cases {
		config.WriteString(pluginBlock(what, faultPlugin(t), []string{"-version", "3.2.1", "-lack", what}, ""))
	}
	c := start(t, bench.Options{Nodes: bench.Ns(1), Config: config.String()})
	c.RunJobs(bench.Job{Name: "x"}) // a class that filters are asked about
	for what, says := range cases {
		var seen []bench.Stall
		c.Until(10*time.Second, "plugin "+what+" has its stall", func() (bool, any) {
			seen = pluginStalls(c)[what]
			return len(seen) == 1 && seen[0].Code == "plugin_invalid", seen
		})
		for _, want := range says {
			if !strings.Contains(seen[0].Message, want) {
				t.Errorf("%s: %q lacks %q", what, seen[0].Message, want)
			}
		}
	}
	if running := c.Running("x"); len(running) > 0 {
		t.Errorf("placed without the answers of filters: %+v", running)
	}
}

// What cannot be true is refused and told; nothing is placed by it, and what runs goes on.
func Test17EWrongAnswers(t *testing.T) {
	says := map[string]string{
		"stranger": "nodes or more, and there are 3",
		"both":     "both allows and refuses node 0",
		"negative": "rank -1000 is not between",
		"vast":     "larger than max",
		"garbled":  "invalid UTF-8",
		"earlier":  "goes back from revision",
	}
	var config strings.Builder
	for kind := range says {
		config.WriteString(pluginBlock(kind, faultPlugin(t), []string{"-lie", kind}, "timeout = \"2s\""))
	}
	// V4: plugins come and go, and with them what waiting tasks are told between two samples.
	c := start(t, bench.Options{Nodes: bench.Ns(3), Config: config.String(), Unchecked: []string{"V4"}})
	c.RunJobsWait(30*time.Second, bench.Job{Name: "web", Count: 6})
	lives := len(c.Lives("web"))
	for kind := range says {
		c.RunJobs(bench.Job{Name: "x-" + kind, Count: 2, More: fmt.Sprintf("plugin %q {\n  constraints = [\"node.labels.lie == yes\"]\n}\n", kind)})
	}
	c.Stall(10*time.Second, "x-earlier", "constraint")
	c.Label("n1", "lie=yes")
	c.Label("n2", "lie=yes") // what the plugin says of n1 counted before it was caught lying
	told := map[string]string{}
	c.Until(40*time.Second, "every lie is told", func() (bool, any) {
		for _, s := range c.Stalls("") {
			kind := s.Subject.ID
			if s.Subject.Kind != "plugin" {
				kind = strings.TrimPrefix(s.Job, "x-")
			}
			if strings.Contains(s.Code+s.Message, "plugin_invalid") && says[kind] != "" && strings.Contains(s.Message, says[kind]) {
				told[kind] = s.Message
			}
		}
		return len(told) == len(says), fmt.Sprintf("told %q; now %+v", told, c.Stalls(""))
	})
	for kind, text := range told {
		t.Logf("%s: %.300s", kind, text)
		if len(text) > 1500 || strings.ContainsAny(text, "\x00\x1b") {
			t.Errorf("%s: a text of %d bytes: %.200q", kind, len(text), text)
		}
	}
	c.During(2*time.Second, "web runs as it did, and nothing is placed by what was refused", func() (bool, any) {
		return len(c.Running("web")) == 6 && len(c.Lives("")) == lives, c.Tasks("")
	})
}
