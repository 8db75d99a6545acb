package place

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpointd/setpoint/sdk/cluster"
)

var update = flag.Bool("update", false, "rewrite the expected sections of testdata/*.txtar")

// TestGolden places what the section "in" describes and compares what is said of it with the section "out".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Files) != 2 || a.Files[0].Name != "in" || a.Files[1].Name != "out" {
				t.Fatal("want the sections in and out")
			}
			got := parseScene(t, string(a.Files[0].Data)).run()
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(a.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// scene is a cluster and groups, written as lines of words:
//
//	node NAME KEY=VALUE…    cpu, memory, UNIT: capacity; used.cpu, …: taken; label.K; state; availability; blocked; port=N:TASK; tasks=JOB:N; drivers=A,B; attribute=K:V
//	claim JOB/SLOT NODE KEY=VALUE…
//	group JOB KEY=VALUE…    cpu, memory, UNIT; port=N, or 0 for any; max; priority; strategy; spread; nodes=A,B; tasks=N; avoid; driver; secret; want=K:V; pending=A,B; away
type scene struct {
	t     *testing.T
	c     Cluster
	g     []Group
	names map[string]int
	able  Abilities
}

func parseScene(t *testing.T, text string) *scene {
	s := &scene{t: t, names: map[string]int{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.TrimSpace(line))
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		switch words[0] {
		case "node":
			s.node(words[1], words[2:])
		case "claim":
			job, slot, _ := strings.Cut(words[1], "/")
			cl := Claim{Job: job, Slot: cluster.SlotKey(slot), Node: s.index(words[2])}
			s.pairs(words[3:], func(k, v string) { s.reserve(&cl.Reserve, k, v) })
			s.c.Claims = append(s.c.Claims, cl)
		case "group":
			s.group(words[1], words[2:])
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return s
}

func (s *scene) pairs(words []string, each func(k, v string)) {
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			s.t.Fatalf("no KEY=VALUE: %q", w)
		}
		each(k, v)
	}
}

func (s *scene) index(name string) int {
	i, ok := s.names[name]
	if !ok {
		s.t.Fatalf("no node %q", name)
	}
	return i
}

func (s *scene) number(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scene) amount(r *cluster.Resources, k, v string) {
	switch k {
	case "cpu":
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		r.MilliCPU = int64(f * 1000)
	case "memory":
		r.Memory = int64(s.number(strings.TrimSuffix(v, "MiB"))) << 20
	default:
		if r.Units == nil {
			r.Units = map[string]int64{}
		}
		r.Units[k] = int64(s.number(v))
	}
}

func (s *scene) node(name string, words []string) {
	n := &cluster.Node{ID: cluster.NodeID("id-" + name)}
	n.Spec = cluster.NodeSpec{Name: name, Availability: cluster.Active, Labels: map[string]string{}}
	n.Status.State = cluster.NodeReady
	n.Description.Capacity = cluster.Resources{MilliCPU: 4000, Memory: 8 * gib}
	out := &Node{Node: n, PerJob: map[string]int{}, Ports: map[uint16]cluster.TaskID{}}
	var used cluster.Resources
	s.pairs(words, func(k, v string) {
		label, isLabel := strings.CutPrefix(k, "label.")
		resource, isUsed := strings.CutPrefix(k, "used.")
		left, right, _ := strings.Cut(v, ":")
		switch {
		case isLabel:
			n.Spec.Labels[label] = v
		case isUsed:
			s.amount(&used, resource, v)
		case k == "state":
			n.Status.State = cluster.NodeState(v)
		case k == "availability":
			n.Spec.Availability = cluster.Availability(v)
		case k == "decommissioned":
			n.Spec.Decommissioned = true
		case k == "blocked":
			out.Blocked = v
		case k == "drivers":
			n.Description.Drivers = strings.Split(v, ",")
		case k == "attribute":
			n.Description.Attributes = map[string]string{left: right}
		case k == "port":
			out.Ports[uint16(s.number(left))] = cluster.TaskID(right)
		case k == "tasks":
			out.PerJob[left] = s.number(right)
			out.Tasks += s.number(right)
		default:
			s.amount(&n.Description.Capacity, k, v)
		}
	})
	out.Free = n.Description.Capacity.Sub(used)
	s.names[name] = len(s.c.Nodes)
	s.able.Describe(len(s.c.Nodes), n)
	s.c.Nodes = append(s.c.Nodes, out)
}

func (s *scene) reserve(r *cluster.Reserve, k, v string) {
	switch k {
	case "port":
		r.Ports = append(r.Ports, cluster.Port{Name: fmt.Sprintf("p%d", len(r.Ports)), Static: uint16(s.number(v))})
	case "max":
		r.MaxPerNode = s.number(v)
	default:
		s.amount(&r.Resources, k, v)
	}
}

func (s *scene) group(job string, words []string) {
	g := Group{Key: job, Job: job, Spec: &cluster.JobSpec{Name: job}}
	tasks, avoid := 1, ""
	var asks cluster.TaskSpec
	s.pairs(words, func(k, v string) {
		left, right, _ := strings.Cut(v, ":")
		switch k {
		case "driver":
			asks.Driver = v
		case "secret":
			asks.Secrets = append(asks.Secrets, cluster.Secret{Name: v})
		case "priority":
			g.Priority = s.number(v)
		case "strategy":
			g.Spec.Strategy = cluster.Strategy(v)
		case "spread":
			g.Spec.Spread = append(g.Spec.Spread, cluster.Spread{Attribute: v})
		case "target":
			last := &g.Spec.Spread[len(g.Spec.Spread)-1]
			last.Targets = append(last.Targets, cluster.SpreadTarget{Value: left, Percent: s.number(right)})
		case "nodes":
			for name := range strings.SplitSeq(v, ",") {
				g.Nodes = append(g.Nodes, s.index(name))
			}
		case "tasks":
			tasks = s.number(v)
		case "avoid":
			avoid = "id-" + v
		case "want":
			g.Filters = append(g.Filters, s.filter(left, right))
		case "pending":
			f := &g.Filters[len(g.Filters)-1]
			for name := range strings.SplitSeq(v, ",") {
				f.Pending.Set(s.index(name))
			}
		case "away":
			g.Filters[len(g.Filters)-1].Away = cluster.Code(v)
		case "rank":
			f := &g.Filters[len(g.Filters)-1]
			f.Ranks = append(f.Ranks, make([]int8, s.index(left)+1-len(f.Ranks))...)
			f.Ranks[s.index(left)] = int8(s.number(right))
		default:
			s.reserve(&g.Reserve, k, v)
		}
	})
	g.Filters = append(g.Filters, s.able.Filters(&asks)...)
	for k := range tasks {
		slot := cluster.SlotKey(strconv.Itoa(k))
		g.Tasks = append(g.Tasks, &cluster.Task{ID: cluster.NewTaskID(job, slot, 9), Job: job, Slot: slot, CreatedRev: 9, Avoid: cluster.NodeID(avoid)})
	}
	s.g = append(s.g, g)
}

// filter allows the nodes with a label of the given value.
func (s *scene) filter(key, value string) Filter {
	f := Filter{Name: "constraint", Allowed: NewBitmap(len(s.c.Nodes)), Pending: NewBitmap(len(s.c.Nodes))}
	for i, n := range s.c.Nodes {
		if n.Node.Spec.Labels[key] == value {
			f.Allowed.Set(i)
		}
	}
	f.Reason = func(int) (cluster.Code, string) {
		return cluster.CodeConstraint, fmt.Sprintf("node.labels.%s == %s", key, value)
	}
	f.Clears = func(int) string { return fmt.Sprintf("a node with %s=%s joins", key, value) }
	return f
}

func (s *scene) run() string {
	var b strings.Builder
	r := Place(s.c, s.g)
	for _, p := range r.Placements {
		fmt.Fprintf(&b, "%s on %s", p.Task, s.c.Nodes[p.Node].Node.Spec.Name)
		for _, port := range p.Ports {
			fmt.Fprintf(&b, " %s=%d", port.Name, port.Number)
		}
		b.WriteByte('\n')
	}
	for _, st := range r.Stalled {
		fmt.Fprintf(&b, "\n%s: %d waiting, %s\n", st.Key, len(st.Waiting), st.Standing.Code())
		f := st.Standing.Facts()
		for _, e := range f.Excluded {
			fmt.Fprintf(&b, "  %d %s %s %q\n", e.Count, e.Source, e.Code, e.Detail)
		}
		g := s.g[slices.IndexFunc(s.g, func(g Group) bool { return g.Key == st.Key })]
		if len(r.Placements) > 0 {
			continue // what follows would be about the cluster as it was before
		}
		fmt.Fprintf(&b, "  %s\n", Sentence(f, Describe(s.c, g)))
		for _, n := range Explain(s.c, g) {
			var texts []string
			for k := range n.Reasons {
				texts = append(texts, n.Reasons[k].Text())
			}
			fmt.Fprintf(&b, "  %s %s\n", n.Name, strings.Join(texts, "; "))
		}
	}
	return b.String()
}
