package sdktest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Golden runs files that say what a plugin is told and what it answers; t is a *testing.T, and pattern names the files, such as "testdata/*.txtar". Each
// becomes a subtest, in which the parts of the file are done in order:
//
//	-- config --        the plugin's configuration as JSON, first
//	{"label":"teams"}
//	-- nodes --         all nodes, a line for each: its name and what it has
//	n1 teams=storage attributes.kernel=6.1 arch=arm64 cpu=4 units.gpu=2
//	-- class web --     a class as JSON: type, labels and settings; any number of them
//	{"settings":{"team":"storage"}}
//	-- job cache --     a job as JSON: type, count, labels and settings
//	{"type":"one-per","count":1}
//	-- drain n1 --      what is on a node that is to be emptied, a line for each task
//	web/1/7 type=batch desired=complete on_drain=last labels.app=web
//	-- want --          all answers
//	-- change --        nodes that change or are new, and -NAME for those that go
//	n2 teams=search
//	-n1
//	-- want --          and all answers after that
//
// What a node has is a label unless it is written attributes.KEY, units.KEY, labels.KEY, hostname, os, arch, version, address, driver, availability, state, cpu
// (in cores), memory (in bytes), or decommissioned alone. A drain is asked again at each want.
//
// If the test has a flag named update, as in var _ = flag.Bool("update", false, "rewrite golden files"), then go test -update writes what the plugin answers.
func Golden[S Test[S]](t S, plugin func() sdk.Plugin, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("sdktest: no file is named %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t S) {
			t.Helper()
			if problem := golden(t.Context(), Go(plugin), file, updating()); problem != "" {
				t.Errorf("%s", problem)
			}
		})
	}
}

// updating reports whether golden files are to be written.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// golden runs one file. It returns what is wrong, or "".
func golden(ctx context.Context, target Target, file string, update bool) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	a := parseArchive(string(text))
	if len(a.parts) == 0 || a.parts[len(a.parts)-1].name != "want" {
		a.parts = append(a.parts, part{name: "want"})
	}
	c := &checker{ctx: ctx, target: target, cases: Cases{}.withDefaults(), configured: map[Running]bool{}}
	var wrong []string
	_, v := c.try(RuleAnswers, 0, func(j *judge) {
		g := &goldenRun{judge: j, drains: map[string]sdk.DrainRequest{}, classes: map[string]*Class{}, jobs: map[string]bool{}}
		for i := range a.parts {
			j.sent = func() string { return "the part " + a.parts[i].name }
			got := g.part(a.parts[i])
			if a.parts[i].name != "want" || got == whole(a.parts[i].text) {
				continue
			}
			if !update {
				wrong = append(wrong, fmt.Sprintf("%s: part %d, want:\n%s", file, i+1, lineDiff(a.parts[i].text, got)))
			}
			a.parts[i].text = got
		}
	})
	switch {
	case v != nil:
		return file + ": " + v.String()
	case update && a.String() != string(text):
		if err := os.WriteFile(file, []byte(a.String()), 0o644); err != nil { //nolint:gosec // a file of the author's
			return err.Error()
		}
	case len(wrong) > 0:
		return strings.Join(wrong, "\n") + "\ngo test -update writes what the plugin answers, if the test has a flag of that name"
	}
	return ""
}

// goldenRun is one file that is run.
type goldenRun struct {
	*judge
	host    *Host
	drains  map[string]sdk.DrainRequest // by node
	classes map[string]*Class
	jobs    map[string]bool
}

// bad ends the file.
func (g *goldenRun) bad(format string, args ...any) {
	g.broken(Violation{Got: fmt.Sprintf(format, args...)})
}

// begin starts the plugin, if it does not run yet.
func (g *goldenRun) begin() *Host {
	if g.host == nil {
		g.host = g.judge.host(g.fresh(), Options{})
	}
	return g.host
}

// part does one part. It returns what the plugin answers, for want.
func (g *goldenRun) part(p part) string {
	kind, name, _ := strings.Cut(p.name, " ")
	switch kind {
	case "config":
		if g.host != nil {
			g.bad("the configuration must come first")
		}
		g.c.cases.Config = strings.TrimSpace(p.text)
	case "nodes":
		nodes, _ := g.nodes(p.text)
		g.begin().SetNodes(nodes...)
	case "change":
		nodes, removed := g.nodes(p.text)
		g.begin().Apply(Change{Put: nodes, Remove: removed})
	case "class":
		var spec goldenSpec
		g.json(p, &spec)
		req := sdk.CompileRequest{JobType: spec.Type, Labels: spec.Labels, Settings: sdk.Settings(spec.Settings)}
		if c := g.classes[name]; c != nil {
			c.Replace(req)
		} else {
			g.classes[name] = g.begin().RegisterClass(req)
		}
	case "job":
		spec := goldenSpec{Count: 1}
		g.json(p, &spec)
		g.begin().RegisterJob(sdk.Job{Name: name, Type: spec.Type, Count: spec.Count, Labels: spec.Labels, Settings: sdk.Settings(spec.Settings)})
		g.jobs[name] = true
	case "drain":
		g.drains[name] = g.drainOf(name, p.text)
	case "want":
		return g.answers()
	default:
		g.bad("no part is named %q", p.name)
	}
	return ""
}

// goldenSpec is a class or a job.
type goldenSpec struct {
	Type     string            `json:"type"`
	Count    int               `json:"count"`
	Labels   map[string]string `json:"labels"`
	Settings json.RawMessage   `json:"settings"`
}

func (g *goldenRun) json(p part, into any) {
	if strings.TrimSpace(p.text) == "" {
		return
	}
	d := json.NewDecoder(strings.NewReader(p.text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		g.bad("the part %q: %v", p.name, err)
	}
}

// nodes reads nodes and names of nodes that go.
func (g *goldenRun) nodes(text string) (nodes []*cluster.Node, removed []cluster.NodeID) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case strings.HasPrefix(words[0], "-"):
			removed = append(removed, cluster.NodeID(words[0][1:]))
		default:
			n := Node(words[0])
			for _, w := range words[1:] {
				g.set(n, w)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, removed
}

// set gives a node what a word says.
func (g *goldenRun) set(n *cluster.Node, word string) {
	key, value, _ := strings.Cut(word, "=")
	d := &n.Description
	number := func() int64 {
		x, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			g.bad("node %s: %q: want a whole number", n.ID, word)
		}
		return x
	}
	text := map[string]*string{"hostname": &d.Hostname, "os": &d.OS, "arch": &d.Arch, "version": &d.Version}
	group, rest, grouped := strings.Cut(key, ".")
	switch {
	case text[key] != nil:
		*text[key] = value
	case key == "address":
		d.Addresses = append(d.Addresses, value)
	case key == "driver":
		d.Drivers = append(d.Drivers, value)
	case key == "availability":
		n.Spec.Availability = cluster.Availability(value)
	case key == "state":
		n.Status.State = cluster.NodeState(value)
	case key == "decommissioned":
		n.Spec.Decommissioned = true
	case key == "cpu":
		cores, err := strconv.ParseFloat(value, 64)
		if err != nil {
			g.bad("node %s: %q: want a number of cores", n.ID, word)
		}
		d.Capacity.MilliCPU = int64(cores * 1000)
	case key == "memory":
		d.Capacity.Memory = number()
	case grouped && group == "units":
		if d.Capacity.Units == nil {
			d.Capacity.Units = map[string]int64{}
		}
		d.Capacity.Units[rest] = number()
	case grouped && group == "attributes":
		d.Attributes[rest] = value
	case grouped && group == "labels":
		n.Spec.Labels[rest] = value
	default:
		n.Spec.Labels[key] = value
	}
}

// drainOf reads what is on a node.
func (g *goldenRun) drainOf(node, text string) sdk.DrainRequest {
	req := sdk.DrainRequest{Node: &cluster.Node{ID: cluster.NodeID(node)}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		job, slot, _, err := cluster.TaskID(words[0]).Parts()
		if err != nil {
			g.bad("a task of %s: %v", node, err)
		}
		task := Task(job, 1)
		task.ID, task.Slot = cluster.TaskID(words[0]), slot
		for _, w := range words[1:] {
			g.setTask(&task, w)
		}
		req.Tasks = append(req.Tasks, task)
	}
	return req
}

func (g *goldenRun) setTask(t *sdk.DrainTask, word string) {
	key, value, _ := strings.Cut(word, "=")
	label, isLabel := strings.CutPrefix(key, "labels.")
	var err error
	switch {
	case key == "type":
		t.JobType = value
	case key == "on_drain":
		t.OnDrain = cluster.OnDrain(value)
	case key == "priority":
		t.Priority, err = strconv.Atoi(value)
	case key == "healthy":
		t.Healthy, err = strconv.ParseBool(value)
	case key == "settings":
		t.Settings = sdk.Settings(value)
	case key == "desired":
		t.Desired, err = stateOf(value, cluster.DesiredNone, cluster.DesiredRemove)
	case key == "observed":
		t.Observed, err = stateOf(value, cluster.ObservedNone, cluster.Stopped)
	case isLabel:
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[label] = value
	default:
		err = fmt.Errorf("a task has no %q", key)
	}
	if err != nil {
		g.bad("task %s: %q: %v", t.ID, word, err)
	}
}

// stateOf finds the state that a word names.
func stateOf[E interface {
	~uint8
	fmt.Stringer
}](word string, first, last E,
) (E, error) {
	for s := first; s <= last; s++ {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("no state is named %q", word)
}

// answers writes all that the plugin answers.
func (g *goldenRun) answers() string {
	h := g.begin()
	if h.revision == 0 {
		h.SetNodes()
	}
	h.Settle()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(g.classes)) {
		writeAnswer(&b, "class "+name, g.classes[name].Answer())
	}
	for _, name := range slices.Sorted(maps.Keys(g.jobs)) {
		writeSlots(&b, "job "+name, h.Slots(name))
	}
	for _, name := range slices.Sorted(maps.Keys(g.drains)) {
		a, f := h.Drain(g.drains[name])
		writeDrain(&b, "drain "+name, a, f)
	}
	return b.String()
}
