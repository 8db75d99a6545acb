package turn

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The openb trace: the nodes of a cluster with GPUs, and the pods that were asked of it. It is no part of the project; what needs it is skipped where it is not.
//
// How it is told to Setpoint:
//   - A node has its cores, its memory, and its GPUs as a named unit. Its model of GPU is the attribute gpu_model.
//   - A pod is a replicated job of one task. It asks for cores, memory and GPUs; gpu_spec, a list of models, is a constraint on the attribute.
//   - Pods come in the order in which they were created and stay: their ends, priorities and the phases that they had are left aside.
//   - Named units are counted and are no devices, so a share of one GPU cannot be told as it was meant. Both sides of it are played: see gpus.
const openb = "../../../shared/data/traces/openb"

// gpus is how GPUs are counted.
type gpus string

const (
	// wholeGPUs counts devices: a share of a GPU takes one. Less fits than in the cluster that the trace is of.
	wholeGPUs gpus = "whole"
	// sharedGPUs counts thousandths, summed over a node's devices: a share may lie on two of them, so more fits than in the cluster that the trace is of.
	sharedGPUs gpus = "shares"
)

func (g gpus) unit() string { return map[gpus]string{wholeGPUs: "gpu", sharedGPUs: "gpu_milli"}[g] }

func (g gpus) of(n, milli int64) int64 {
	if g == sharedGPUs {
		return n * milli
	}
	return n
}

// machine is a node of the trace.
type machine struct {
	name     string
	capacity cluster.Resources
	model    string // of its GPUs; "": it has none
}

// pod is a task of the trace.
type pod struct {
	name   string
	needs  cluster.Resources
	models []string // of GPU; empty: any
}

// trace is nodes and pods, the latter in the order in which they come.
type trace struct {
	gpus  gpus
	nodes []machine
	pods  []pod
}

// readTrace reads the trace, or every n-th node and pod of it.
func readTrace(tb testing.TB, g gpus, n int) trace {
	tb.Helper()
	out := trace{gpus: g}
	for i, row := range rows(tb, "openb_node_list_all_node.csv", "sn", "cpu_milli", "memory_mib", "gpu", "model") {
		if i%n == 0 {
			out.nodes = append(out.nodes, machine{row[0], g.resources(tb, row[1], row[2], row[3], "1000"), row[4]})
		}
	}
	pods := rows(tb, "openb_pod_list_gpuspec33.csv", "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time")
	slices.SortStableFunc(pods, func(a, b []string) int { return int(number64(tb, a[6]) - number64(tb, b[6])) })
	for i, row := range pods {
		if i%n != 0 {
			continue
		}
		p := pod{name: row[0], needs: g.resources(tb, row[1], row[2], row[3], row[4])}
		if row[5] != "" {
			p.models = slices.Compact(slices.Sorted(slices.Values(strings.Split(row[5], "|"))))
		}
		out.pods = append(out.pods, p)
	}
	return out
}

// rows returns the named columns of a file of the trace.
func rows(tb testing.TB, name string, columns ...string) [][]string {
	tb.Helper()
	f, err := os.Open(filepath.Join(openb, name))
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("the openb trace is not in %s", openb)
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil || len(all) < 2 {
		tb.Fatalf("read %s: %d lines, %v", name, len(all), err)
	}
	out := make([][]string, len(all)-1)
	for _, c := range columns {
		k := slices.Index(all[0], c)
		if k < 0 {
			tb.Fatalf("%s has no column %s", name, c)
		}
		for i, row := range all[1:] {
			out[i] = append(out[i], row[k])
		}
	}
	return out
}

func (g gpus) resources(tb testing.TB, cpu, memory, gpu, milli string) cluster.Resources {
	r := cluster.Resources{MilliCPU: number64(tb, cpu), Memory: number64(tb, memory) << 20}
	if n := g.of(number64(tb, gpu), number64(tb, milli)); n > 0 {
		r.Units = map[string]int64{g.unit(): n}
	}
	return r
}

func number64(tb testing.TB, text string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// join lets the trace's nodes join, whose agents report at once: the n-th of them in session n.
func (t *trace) join(tb testing.TB, take func(...engine.Input) engine.Output) {
	tb.Helper()
	session := uint64(0)
	for nodes := range slices.Chunk(t.nodes, joinBatch) {
		var ops, reports []engine.Input
		for _, m := range nodes {
			about := cluster.NodeDescription{OS: "linux", Arch: "amd64", Capacity: m.capacity}
			if m.model != "" {
				about.Attributes = map[string]string{"gpu_model": m.model}
			}
			id := cluster.NodeID(m.name)
			session++
			ops = append(ops, engine.Command("test", engine.JoinNode{ID: id, Name: m.name, Description: about}))
			reports = append(reports, engine.AgentUp{Node: id, Session: session, Description: about}, engine.AgentReports{Node: id, Session: session, Full: true, Last: true})
		}
		for _, r := range take(ops...).Replies {
			if _, err := r.Result(); err != nil {
				tb.Fatal(err)
			}
		}
		take(reports...)
	}
}

// job is the pod as a job.
func (p *pod) job(strategy cluster.Strategy) cluster.JobSpec {
	s := cluster.JobSpec{Name: p.name, Count: 1, Strategy: strategy, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"pod"}, Resources: p.needs}}
	if len(p.models) > 0 {
		settings, err := json.Marshal(map[string][]string{"constraints": {"node.attributes.gpu_model in (" + strings.Join(p.models, ", ") + ")"}})
		if err != nil {
			panic(err) // strings can always be encoded
		}
		s.Plugins = []cluster.PluginSettings{{Plugin: "constraint", JSON: string(settings)}}
	}
	return s.WithDefaults()
}

// takes reports whether a node is of a model that the pod takes.
func (p *pod) takes(m *machine) bool {
	return len(p.models) == 0 || slices.Contains(p.models, m.model)
}

func (t *trace) byName() map[string]*pod {
	out := make(map[string]*pod, len(t.pods))
	for i := range t.pods {
		out[t.pods[i].name] = &t.pods[i]
	}
	return out
}

// free is what each node has left, by what is recorded of the tasks alone.
func (t *trace) free(st *engine.State) map[string]cluster.Resources {
	out, pods := make(map[string]cluster.Resources, len(t.nodes)), t.byName()
	for _, m := range t.nodes {
		out[m.name] = m.capacity
	}
	for x := range st.Tasks() {
		if name := string(x.Placement.Node); x.Placed() && !x.Dead() {
			out[name] = out[name].Sub(pods[x.Job].needs)
		}
	}
	return out
}

// lack is why a node cannot take a pod: what it lacks, in the order in which that is looked at.
type lack struct {
	model     bool // it is of another model, which comes first
	resources []string
	share     float64 // the largest share of a wanted resource that it lacks
}

func (t *trace) lack(p *pod, m *machine, free cluster.Resources) lack {
	l := lack{model: !p.takes(m)}
	for _, name := range []string{"cpu", "memory", t.gpus.unit()} {
		if want, has := p.needs.Amount(name), free.Amount(name); want > has {
			l.resources = append(l.resources, name)
			l.share = max(l.share, float64(want-has)/float64(want))
		}
	}
	return l
}

// first is what the node is counted under.
func (l *lack) first() string {
	if l.model {
		return string(cluster.CodeConstraint)
	}
	return l.resources[0]
}

// all is how many reasons keep the pod away.
func (l *lack) all() int {
	if l.model {
		return len(l.resources) + 1
	}
	return len(l.resources)
}

// nearer orders nodes by how near they are to taking a pod: those that meet its constraint, then those with the fewest reasons, then those that lack least.
func nearer(a, b *lack) int {
	if a.model != b.model {
		return map[bool]int{true: 1, false: -1}[a.model]
	}
	return cmp.Or(cmp.Compare(a.all(), b.all()), cmp.Compare(a.share, b.share))
}

// nearest is the node that is nearest to taking a pod, of those that are as near the first by name, which is their order in the trace; and what it lacks.
func (t *trace) nearest(p *pod, free map[string]cluster.Resources) (name string, best lack) {
	for i := range t.nodes {
		m := &t.nodes[i]
		if l := t.lack(p, m, free[m.name]); name == "" || nearer(&l, &best) < 0 {
			name, best = m.name, l
		}
	}
	return name, best
}
