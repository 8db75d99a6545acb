package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// pastSpec is what a version of job web asks for; edit changes it.
func pastSpec(edit func(*setpointv1.JobSpec)) *setpointv1.JobSpec {
	s := &setpointv1.JobSpec{
		Name: "web", Type: "replicated", Count: 3, MaxUnavailable: &setpointv1.Amount{Percent: 25},
		Task: &setpointv1.TaskSpec{
			Driver: "process", Command: []string{"/bin/sh", "-c", "one\ntwo\nthree\n"}, Env: map[string]string{"MODE": "dev"},
			Resources: &setpointv1.Resources{MilliCpu: 500, MemoryBytes: 32 << 20}, Ports: []*setpointv1.Port{{Name: "http", Static: 80}},
		},
		Update: &setpointv1.UpdateSpec{DelayNs: int64(time.Second)},
	}
	if edit != nil {
		edit(s)
	}
	return s
}

func historyJob() *apiv1.Job {
	at := timestamppb.New(time.Date(2026, 3, 1, 10, 0, 0, 0, time.Local))
	changed := pastSpec(func(s *setpointv1.JobSpec) {
		s.Count, s.MaxUnavailable = 5, &setpointv1.Amount{Count: 2}
		s.Task.Command[2], s.Task.Env = "one\n2 & more\nthree\n", map[string]string{"MODE": "prod", "NEW": "1"}
		s.Task.Resources = &setpointv1.Resources{MilliCpu: 1000, MemoryBytes: 64 << 20}
		s.Task.Ports[0].Static = 0
		s.Task.Health = &setpointv1.HealthSpec{Tcp: "127.0.0.1:80"}
		s.Update.DelayNs = int64(1500 * time.Millisecond)
	})
	return &apiv1.Job{
		Name: "web", Version: 4, Slots: []*apiv1.Slot{{Key: "1", Version: 4}, {Key: "2", Version: 2}, {Key: "3", Version: 4}, {Key: "4", Version: 4, Unwanted: true}},
		Versions: []*apiv1.JobVersion{
			{Version: 2, SpecVersion: 2, Created: at, Reason: "submitted", By: "ann", Spec: pastSpec(nil)},
			{Version: 3, SpecVersion: 3, Created: at, Reason: "larger", By: "bob", Spec: changed},
			{Version: 4, SpecVersion: 2, Created: at, Reason: "rolled back: 1 of 3 slots failed; back to version 2", Spec: pastSpec(nil)},
		},
	}
}

func TestJobHistory(t *testing.T) {
	f := newFake(t)
	f.job = frames(historyJob())
	r := f.run(t, "job", "history", "web")
	r.expect(t, exitDone, []string{
		"2        2026-03-01 10:00:00  ann         1      submitted", "the version before is not kept",
		"3        2026-03-01 10:00:00  bob         0      larger", "count: 3 → 5", `max_unavailable: "25%" → 2`, `task.env.MODE: "dev" → "prod"`, `task.env.NEW = "1"`,
		"task.resources.cpu: 0.5 → 1", "task.resources.memory: 32MiB → 64MiB", "task.port.http.static: 80 → 0", `task.health.tcp = "127.0.0.1:80"`,
		`update.delay: "1s" → "1.5s"`, `task.command[2]: "one\ntwo`,
		"4        2026-03-01 10:00:00  the server  2      rolled back: 1 of 3 slots failed; back to version 2", `task.env.NEW is gone, was "1"`,
	}, nil)
	if strings.Contains(r.out, "/bin/sh") {
		t.Errorf("what did not change is shown:\n%s", r.out)
	}

	f.run(t, "job", "history", "web", "3").expect(t, exitDone, []string{
		"web: from version 2 to version 3\n  made 2026-03-01 10:00:00 by bob: larger\n", "  count\n    - 3\n    + 5\n", "  task.command[2]\n    - two\n    + 2 & more\n", "  task.env.NEW\n    + \"1\"\n",
	}, nil)
	f.run(t, "job", "history", "web", "2", "4").expect(t, exitDone, []string{"web: from version 2 to version 4\n", "they ask for the same"}, nil)
	f.run(t, "job", "history", "web", "3", "2", "-o", "json").expect(t, exitDone, []string{`"from": 3`, `"to": 2`, `"path": "count"`, `"from": 5`, `"from": "1.5s"`}, nil)
	f.run(t, "job", "history", "web", "9").expect(t, exitRefused, nil, []string{"version 9 of job web is not kept", "These are kept: 2, 3, 4."})
	f.run(t, "job", "history", "web", "2").expect(t, exitRefused, nil, []string{"no version of job web before version 2 is kept"})
}
