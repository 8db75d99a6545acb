package jobfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

const examples = "../../examples/jobs"

func TestExamples(t *testing.T) {
	want := map[string]func(cluster.JobSpec) bool{
		"agentlog.hcl": func(s cluster.JobSpec) bool { return s.Type == cluster.TypeGlobal && s.OnDrain == cluster.DrainLast },
		"needs-ssd.hcl": func(s cluster.JobSpec) bool {
			return s.Settings("constraint") == `{"constraints":["node.labels.disk == ssd"]}` && s.MaxUnavailable.Of(s.Count) == 1
		},
		"once.hcl": func(s cluster.JobSpec) bool { return s.Ends() && s.Numbered() && s.Count == 2 },
		"simulated.hcl": func(s cluster.JobSpec) bool {
			return s.Task.Driver == cluster.DriverSim && s.Task.Config["start_delay"] == "500ms"
		},
		"web.hcl": func(s cluster.JobSpec) bool {
			return s.Count == 3 && len(s.Task.Command) == 3 && strings.Contains(s.Task.Command[2], "\n  echo \"$MESSAGE\"\n") && len(s.Task.Ports) == 1
		},
	}
	var names []string
	paths, err := filepath.Glob(filepath.Join(examples, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		names = append(names, name)
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		jobs := mustParse(t, name, src)
		if len(jobs) != 1 || jobs[0].Spec.Name != strings.TrimSuffix(name, ".hcl") {
			t.Errorf("%s has other jobs than the one that it is named for", name)
			continue
		}
		if check := want[name]; check == nil || !check(jobs[0].Spec) {
			t.Errorf("%s does not say what it is meant to show: %+v", name, jobs[0].Spec)
		}
		checkFormat(t, jobs[0].Spec)
	}
	for name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestDockerExample(t *testing.T) {
	const name = "nginx.hcl"
	src, err := os.ReadFile(filepath.Join("../../examples/docker", name))
	if err != nil {
		t.Fatal(err)
	}
	jobs := mustParse(t, name, src)
	if len(jobs) != 1 || jobs[0].Spec.Name != "nginx" {
		t.Fatalf("%s has other jobs than the one that it is named for", name)
	}
	s := jobs[0].Spec.Task
	if s.Driver != cluster.DriverDocker || s.Config["image"] == "" || s.Config["ports"] != `{"http":80}` || s.Health.HTTP != "http://127.0.0.1:$SETPOINT_PORT_http/" {
		t.Errorf("%s does not say what it is meant to show: %+v", name, s)
	}
	checkFormat(t, jobs[0].Spec)
}
