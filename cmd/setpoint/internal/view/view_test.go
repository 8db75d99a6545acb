package view

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

var at = timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC))

func stall() *apiv1.Stall {
	return &apiv1.Stall{
		Subject: &apiv1.Subject{Kind: "task", Id: "web/1/5"}, Job: "web", Slot: "1", Task: "web/1/5", Code: "constraint", Source: "placement",
		Message: "no node can run it", Since: at, Changed: at, Nearest: "n1", Clears: "a node joins",
		Facts: &apiv1.Facts{Nodes: 3, Excluded: []*apiv1.Exclusion{{Source: "constraint", Code: "constraint", Detail: "node.labels.disk == ssd", Count: 3, Nodes: []string{"n1", "n2", "n3"}}}},
	}
}

// TestContract holds the keys that programs rely on. A key may be added; none of these may go.
func TestContract(t *testing.T) {
	tests := []struct {
		name  string
		value any
		keys  string // of objects within, after a dot
	}{
		{
			"task ls", OfTask(&apiv1.Task{Stalls: []*apiv1.Stall{stall()}}),
			"id job job_version slot node node_id phase condition.state condition.since condition.reason " +
				"desired.state desired.reason desired.by desired.since " +
				"observed.state observed.message observed.err observed.exit_code observed.at " +
				"stalls.code stalls.source stalls.message stalls.since stalls.facts stalls.clears",
		},
		{"node ls", OfNode(&apiv1.Node{}), "id name state availability labels capacity used capacity.cpu capacity.memory capacity.units"},
		{
			"stalls", OfStall(stall()),
			"subject.kind subject.id job slot task node node_id code source message since changed facts.nodes facts.excluded.source facts.excluded.code " +
				"facts.excluded.detail facts.excluded.count facts.excluded.nodes nearest clears",
		},
		{"plugin ls", OfPlugins([]*apiv1.Plugin{{}})[0], "name version state pid restarts interfaces"},
		{"status", OfStatus(&apiv1.GetStatusResponse{}, ""), "pid address version revision counts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := keys(t, tt.value)
			for _, key := range strings.Fields(tt.keys) {
				if !slices.Contains(got, key) {
					t.Errorf("no key %s in %v", key, got)
				}
			}
		})
	}
}

// keys returns the paths of all keys in what a value is printed as; lists are looked into.
func keys(t *testing.T, value any) []string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				out = append(out, prefix+k)
				walk(prefix+k+".", inner)
			}
		case []any:
			for _, inner := range v {
				walk(prefix, inner)
			}
		}
	}
	walk("", parsed)
	return out
}

func TestTask(t *testing.T) {
	got := print(t, OfTask(&apiv1.Task{
		Id: "web/1/5", Job: "web", JobVersion: 2, Slot: "1", Node: "n1", NodeId: "abc", Phase: "failed", Dead: true, Created: at, Why: "restart",
		Desired:   &apiv1.Desired{State: "running", Reason: "wanted", By: "core", Since: at, Grace: durationpb.New(90 * time.Second)},
		Observed:  &apiv1.Observed{State: "failed", Message: "started", Err: "exit", ExitCode: 3, At: at},
		Condition: &apiv1.Condition{State: "ok"},
		Ports:     []*apiv1.Port{{Name: "http", Number: 8080}},
		Addresses: []*apiv1.Address{{Name: "eth0", Pool: "lan", Address: "10.1.0.1"}},
	}))
	want := `{"id":"web/1/5","job":"web","job_version":2,"slot":"1","node":"n1","node_id":"abc",` +
		`"desired":{"state":"running","reason":"wanted","by":"core","since":"2026-03-01T12:00:00.0000005Z","grace":"1m30s"},` +
		`"observed":{"state":"failed","message":"started","err":"exit","exit_code":3,"healthy":false,"at":"2026-03-01T12:00:00.0000005Z"},` +
		`"condition":{"state":"ok","since":null,"reason":""},"stalls":[],"phase":"failed","dead":true,"created":"2026-03-01T12:00:00.0000005Z",` +
		`"why":"restart","placed":null,"ports":[{"name":"http","number":8080}],"addresses":[{"name":"eth0","pool":"lan","address":"10.1.0.1"}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAmounts(t *testing.T) {
	got := print(t, OfNode(&apiv1.Node{
		Capacity: &setpointv1.Resources{MilliCpu: 4000, MemoryBytes: 8 << 30, Units: map[string]int64{"gpu": 2}},
		Used:     &setpointv1.Resources{MilliCpu: 1250}, Free: &setpointv1.Resources{MilliCpu: -100},
	}))
	for _, want := range []string{
		`"capacity":{"cpu":4,"memory":8589934592,"units":{"gpu":2}}`, `"used":{"cpu":1.25,"memory":0,"units":{}}`, `"free":{"cpu":-0.1,"memory":0,"units":{}}`,
		`"drain":null`, `"labels":{}`, `"stalls":[]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestJobSpec(t *testing.T) {
	got := print(t, ofJobSpec(&setpointv1.JobSpec{
		Name: "web", Count: 3, LostAfterNs: int64(time.Minute),
		Plugins: []*setpointv1.PluginSettings{{Plugin: "constraint", Json: `{"constraints":["a == b"]}`}, {Plugin: "odd", Json: "{"}},
		Spread:  []*setpointv1.Spread{{Attribute: "node.labels.zone", Targets: []*setpointv1.SpreadTarget{{Value: "a", Percent: 70}}}},
		Task:    &setpointv1.TaskSpec{Health: &setpointv1.HealthSpec{Http: "http://127.0.0.1", IntervalNs: int64(time.Second)}},
	}))
	for _, want := range []string{
		`"plugin":{"constraint":{"constraints":["a == b"]},"odd":"{"}`, `"lost_after":"1m0s"`, `"targets":{"a":70}`, `"interval":"1s"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if ofJobSpec(nil) != nil {
		t.Error("a job without a specification has one")
	}
}

func TestListsAreNeverNull(t *testing.T) {
	for _, value := range []any{OfTasks(nil), OfNodes(nil), OfStalls(nil), OfJobs(nil), OfPlugins(nil), OfTokens(nil)} {
		if got := print(t, value); got != "[]" {
			t.Errorf("%T: got %s, want []", value, got)
		}
	}
}

func print(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
