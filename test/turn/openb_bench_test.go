package turn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// BenchmarkTrace replays the openb trace through the plugins as processes and bbolt, pods in the order in which they came, and says how many found a place, what
// the others lack where they come nearest, and how well the nodes are used. plain is what best fit, written as a loop over all nodes, makes of the same pods.
func BenchmarkTrace(b *testing.B) {
	for _, g := range []gpus{wholeGPUs, sharedGPUs} {
		for _, strategy := range []cluster.Strategy{cluster.StrategySpread, cluster.StrategyBinpack} {
			b.Run(fmt.Sprintf("gpus=%s/%s", g, strategy), func(b *testing.B) {
				tr := readTrace(b, g, 1)
				var w *bench
				for b.Loop() {
					b.StopTimer()
					w = newBench(b, 0)
					w.until(b, func() bool { return len(w.in.ch) == 0 && pluginsReady(w) })
					tr.join(b, func(in ...engine.Input) engine.Output { return w.turn(b, in...) })
					w.until(b, func() bool { return len(w.in.ch) == 0 })
					b.StartTimer()
					w.replay(b, &tr, strategy)
				}
				st := w.eng.View()
				b.ReportMetric(float64(b.N*len(tr.pods))/b.Elapsed().Seconds(), "tasks/s")
				tr.report(b, tr.free(st), waitingPods(st))
			})
		}
		b.Run(fmt.Sprintf("gpus=%s/plain", g), func(b *testing.B) {
			tr := readTrace(b, g, 1)
			var free map[string]cluster.Resources
			var left []string
			for b.Loop() {
				free, left = tr.bestFit()
			}
			b.ReportMetric(float64(b.N*len(tr.pods))/b.Elapsed().Seconds(), "tasks/s")
			tr.report(b, free, left)
		})
	}
}

// batch is how many pods come at a time.
const batch = 100

// replay runs each pod as a job, and waits after each batch until every one of it has a node or a stall.
func (w *bench) replay(tb testing.TB, tr *trace, strategy cluster.Strategy) {
	for pods := range slices.Chunk(tr.pods, batch) {
		ops := make([]engine.Op, len(pods))
		for i := range pods {
			ops[i] = engine.RunJob{Spec: pods[i].job(strategy)}
		}
		w.do(tb, ops...)
		w.until(tb, func() bool {
			return !slices.ContainsFunc(pods, func(p pod) bool { return undecided(w.eng.View(), p.name) })
		})
	}
}

// undecided reports whether a job's task has neither a node nor a stall that counts nodes that filters have judged.
func undecided(st *engine.State, job string) bool {
	for x := range st.TasksOf(job) {
		if x.Placed() {
			return false
		}
		for _, s := range st.TaskStalls(x) {
			return s.Code == cluster.CodePluginPending || slices.ContainsFunc(s.Facts.Excluded, func(e cluster.Exclusion) bool { return e.Code == cluster.CodePluginPending })
		}
	}
	return true
}

func waitingPods(st *engine.State) []string {
	var out []string
	for x := range st.Tasks() {
		if !x.Placed() {
			out = append(out, x.Job)
		}
	}
	return out
}

// bestFit places each pod where the least is left then, as shares of what the node has, added up.
func (t *trace) bestFit() (free map[string]cluster.Resources, left []string) {
	free = map[string]cluster.Resources{}
	for _, m := range t.nodes {
		free[m.name] = m.capacity
	}
	for i := range t.pods {
		p, best, least := &t.pods[i], "", 0.0
		for k := range t.nodes {
			m := &t.nodes[k]
			if l := t.lack(p, m, free[m.name]); l.all() > 0 {
				continue
			}
			if rest := t.shares(free[m.name].Sub(p.needs), m.capacity); best == "" || rest < least {
				best, least = m.name, rest
			}
		}
		if best == "" {
			left = append(left, p.name)
			continue
		}
		free[best] = free[best].Sub(p.needs)
	}
	return free, left
}

// resources in which use is measured.
func (t *trace) resources() []string { return []string{"cpu", "memory", t.gpus.unit()} }

// shares adds up, over what a node has, the share of it that some amount is.
func (t *trace) shares(some, all cluster.Resources) float64 {
	sum := 0.0
	for _, name := range t.resources() {
		if has := all.Amount(name); has > 0 {
			sum += float64(some.Amount(name)) / float64(has)
		}
	}
	return sum
}

// report says how many pods were placed, what the others lack where they come nearest, and how the nodes that have a pod are used.
func (t *trace) report(b *testing.B, free map[string]cluster.Resources, left []string) {
	b.ReportMetric(float64(len(t.pods)-len(left)), "placed")
	lacks, pods := map[string]int{}, t.byName()
	for _, name := range left {
		_, l := t.nearest(pods[name], free)
		lacks[l.first()]++
	}
	for what, n := range lacks {
		b.ReportMetric(float64(n), "lack-"+what)
	}
	used := 0
	var has, has0 cluster.Resources // of nodes that have a pod: all, and what is left
	for _, m := range t.nodes {
		if !free[m.name].Equal(m.capacity) {
			used++
			has, has0 = has.Add(m.capacity), has0.Add(free[m.name])
		}
	}
	b.ReportMetric(float64(used), "nodes")
	for _, name := range t.resources() {
		b.ReportMetric(100-100*float64(has0.Amount(name))/float64(has.Amount(name)), name+"-used-%")
	}
	b.ReportMetric(100*t.stranded(free), "gpu-stranded-%")
}

// stranded is the share of all GPUs that is free and of no use: for a pod of the trace that wants GPUs, taken at random, the free GPUs of nodes that cannot take it.
func (t *trace) stranded(free map[string]cluster.Resources) float64 {
	unit := t.gpus.unit()
	var all, lost float64
	wanting := 0
	shapes := map[string]*pod{}
	often := map[string]int{}
	for i := range t.pods {
		p := &t.pods[i]
		if p.needs.Amount(unit) > 0 {
			wanting++
			key := fmt.Sprint(p.needs, p.models)
			shapes[key] = p
			often[key]++
		}
	}
	for k := range t.nodes {
		m := &t.nodes[k]
		all += float64(m.capacity.Amount(unit))
		if free[m.name].Amount(unit) == 0 {
			continue
		}
		for key, p := range shapes {
			if l := t.lack(p, m, free[m.name]); l.all() > 0 {
				lost += float64(free[m.name].Amount(unit)) * float64(often[key]) / float64(wanting)
			}
		}
	}
	return lost / all
}
