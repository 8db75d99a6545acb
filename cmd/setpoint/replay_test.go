package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestReplayCommand(t *testing.T) {
	var record bytes.Buffer
	e := engine.New(engine.Config{}, engine.NewState("c"), cluster.Time{})
	e.Record(engine.NewRecorder(&record, 1<<20), version)
	spec := cluster.JobSpec{Name: "web", Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}}}.WithDefaults()
	for i, op := range []engine.Op{engine.RunJob{Spec: spec}, engine.ScaleJob{Job: "web", Count: 3}} {
		out := e.Step([]engine.Input{engine.Command("alice", op)}, cluster.Time{Engine: 1, Wall: int64(i)})
		e.Publish(out.Turn)
	}
	path := filepath.Join(t.TempDir(), "inputs.jsonl")
	if err := os.WriteFile(path, record.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	execute(t, "", "replay", path).expect(t, exitDone, []string{"Same decisions: 2 turns, revisions 1 to 2"}, nil)
	other := strings.Replace(record.String(), `"Count":3`, `"Count":2`, 1)
	execute(t, other, "replay", "-").expect(t, exitFailed, []string{"Another decision after 1 turn, in step 2", "recorded, and not now:  reconcile AddTask web/3/2 (new slot)"}, nil)
	execute(t, other, "replay", "-", "-o", "json").expect(t, exitFailed, []string{`"same": false`, `"recorded_revision": 2`, `"reconcile AddTask web/3/2 (new slot)"`}, nil)
	execute(t, "hello\n", "replay", "-").expect(t, exitRefused, nil, []string{"record_inputs"})
	execute(t, "", "replay", path+"x").expect(t, exitRefused, nil, []string{"no such file"})
}
