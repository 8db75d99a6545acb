package place

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// sorted lets facts be compared with those of the model, which does not order them.
var sorted = cmpopts.SortSlices(func(a, b cluster.Exclusion) bool {
	return a.Source+"|"+string(a.Code)+"|"+a.Detail < b.Source+"|"+string(b.Code)+"|"+b.Detail
})

func TestPlaceDoesWhatTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		got := Place(w.Cluster, w.Groups)
		placed, stalls := modelPlace(w.Cluster, w.Groups)
		if diff := cmp.Diff(placed, got.Placements, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("placements (-model +got):\n%s", diff)
		}
		if len(stalls) != len(got.Stalled) {
			t.Fatalf("%d groups are stalled, want %d", len(got.Stalled), len(stalls))
		}
		for k, want := range stalls {
			s := got.Stalled[k]
			if s.Key != want.key || !slices.Equal(s.Waiting, want.waiting) {
				t.Fatalf("%s with %v is stalled, want %s with %v", s.Key, s.Waiting, want.key, want.waiting)
			}
			if diff := cmp.Diff(want.facts, s.Standing.Facts(), cmpopts.EquateEmpty(), sorted); diff != "" {
				t.Fatalf("facts of %s (-model +got):\n%s", s.Key, diff)
			}
			if s.Standing.Fits() != (want.fits > 0) {
				t.Fatalf("%s: fits is %v, and %d nodes fit", s.Key, s.Standing.Fits(), want.fits)
			}
			if s.Standing.Fits() {
				t.Fatalf("%s is stalled and a node fits", s.Key)
			}
		}
	})
}

// limitOf returns how many tasks of its job a node may have where one of g is.
func limitOf(g *Group) int {
	if g.Reserve.MaxPerNode > 0 {
		return g.Reserve.MaxPerNode
	}
	return math.MaxInt
}

// jobOn is a job on a node.
type jobOn struct {
	node int
	job  string
}

func TestPlaceKeepsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		got := Place(w.Cluster, w.Groups)
		groups := map[cluster.TaskID]*Group{}
		for k := range w.Groups {
			for _, task := range w.Groups[k].Tasks {
				groups[task.ID] = &w.Groups[k]
			}
		}
		m := newModel(Cluster{Nodes: w.Cluster.Nodes})
		limits := map[jobOn][]int{}
		for _, p := range got.Placements {
			g, n := groups[p.Task], m.nodes[p.Node]
			delete(groups, p.Task)
			if !n.Node.Node.Usable() || n.Blocked != "" {
				t.Fatalf("%s was placed on %s, which takes nothing", p.Task, n.Node.Node.Spec.Name)
			}
			if g.Nodes != nil && !slices.Contains(g.Nodes, p.Node) {
				t.Fatalf("%s was placed beyond its nodes", p.Task)
			}
			for _, f := range g.Filters {
				if !f.Allowed.Get(p.Node) || f.Pending.Get(p.Node) {
					t.Fatalf("%s was placed where %s does not allow it", p.Task, f.Name)
				}
			}
			if lacking := n.free.Lacking(g.Reserve.Resources); len(lacking) > 0 {
				t.Fatalf("%s was placed where %v is short", p.Task, lacking)
			}
			n.free = n.free.Sub(g.Reserve.Resources)
			here := jobOn{p.Node, g.Job}
			limits[here] = append(limits[here], limitOf(g))
			if len(p.Ports) != len(g.Reserve.Ports) {
				t.Fatalf("%s got %d ports and asked for %d", p.Task, len(p.Ports), len(g.Reserve.Ports))
			}
			for k, port := range p.Ports {
				if holder, taken := n.ports[port.Number]; taken {
					t.Fatalf("%s got port %d of %s", p.Task, port.Number, holder)
				}
				if asked := g.Reserve.Ports[k]; asked.Name != port.Name || asked.Static != 0 && asked.Static != port.Number {
					t.Fatalf("%s asked for %v and got %v", p.Task, asked, port)
				}
				n.ports[port.Number] = p.Task
			}
		}
		// A task that waited for room may have been placed last although it is listed first, so the order that breaks no limit is what counts.
		for here, of := range limits {
			slices.Sort(of)
			for k, limit := range of {
				if number := m.nodes[here.node].perJob[here.job] + k + 1; number > limit {
					t.Fatalf("node %d has %d tasks of %s, one of which has a limit of %d", here.node, number, here.job, limit)
				}
			}
		}
		waiting := 0
		for _, s := range got.Stalled {
			waiting += len(s.Waiting)
			f, sum := s.Standing.Facts(), 0
			for _, e := range f.Excluded {
				sum += e.Count
			}
			if sum != f.Nodes {
				t.Fatalf("%s: %d nodes are excluded of %d", s.Key, sum, f.Nodes)
			}
		}
		if waiting != len(groups) {
			t.Fatalf("%d tasks wait and %d were not placed", waiting, len(groups))
		}
	})
}

// copyWorld copies all that Place could write to.
func copyWorld(w world) world {
	out := world{Groups: slices.Clone(w.Groups), Cluster: Cluster{Claims: slices.Clone(w.Cluster.Claims)}}
	for _, n := range w.Cluster.Nodes {
		if n != nil {
			n = &Node{Node: n.Node, Free: n.Free.Add(cluster.Resources{}), Tasks: n.Tasks, PerJob: maps.Clone(n.PerJob), Ports: maps.Clone(n.Ports), Blocked: n.Blocked}
			n.Free.Units = maps.Clone(n.Free.Units)
		}
		out.Cluster.Nodes = append(out.Cluster.Nodes, n)
	}
	for k := range out.Groups {
		g := &out.Groups[k]
		g.Tasks, g.Nodes, g.Filters = slices.Clone(g.Tasks), slices.Clone(g.Nodes), slices.Clone(g.Filters)
		for j := range g.Filters {
			f := &g.Filters[j]
			f.Allowed, f.Pending, f.Ranks, f.Reason = slices.Clone(f.Allowed), slices.Clone(f.Pending), slices.Clone(f.Ranks), nil
		}
	}
	return out
}

func TestPlaceLeavesItsInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := copyWorld(w)
		got := Place(w.Cluster, w.Groups)
		for _, g := range w.Groups {
			Explain(w.Cluster, g)
			Describe(w.Cluster, g)
			Fit(w.Cluster, g, []Use{})
		}
		if after := copyWorld(w); !reflect.DeepEqual(before, after) {
			t.Fatalf("the input changed:\n%s", cmp.Diff(before, after, cmp.AllowUnexported(Reason{})))
		}
		if again := Place(w.Cluster, w.Groups); !reflect.DeepEqual(got, again) {
			t.Fatal("the second answer differs from the first")
		}
	})
}

func TestPlaceDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		want := Place(w.Cluster, w.Groups)
		moved, from := w.permute(t)
		if rapid.Bool().Draw(t, "order given") {
			moved.Cluster.Order = NameOrder(moved.Cluster.Nodes)
		}
		got := Place(moved.Cluster, moved.Groups)
		for k := range got.Placements {
			got.Placements[k].Node = from[got.Placements[k].Node]
		}
		if diff := cmp.Diff(want.Placements, got.Placements, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("placements (-want +got):\n%s", diff)
		}
		for k, s := range want.Stalled {
			o := got.Stalled[k]
			if s.Key != o.Key || !slices.Equal(s.Waiting, o.Waiting) || s.Standing.Code() != o.Standing.Code() || !reflect.DeepEqual(s.Standing.Facts(), o.Standing.Facts()) {
				t.Fatalf("%s: %v, want %s: %v", o.Key, o.Standing.Facts(), s.Key, s.Standing.Facts())
			}
		}
		for _, g := range w.Groups {
			o := moved.Groups[slices.IndexFunc(moved.Groups, func(o Group) bool { return o.Key == g.Key })]
			if a, b := Sentence(cluster.Facts{}, Describe(w.Cluster, g)), Sentence(cluster.Facts{}, Describe(moved.Cluster, o)); a != b {
				t.Fatalf("%s\n%s", a, b)
			}
		}
	})
}

func TestRecheckIsAFullLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		g := w.Groups[0]
		s := Stand(w.Cluster, g)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			next := Cluster{Nodes: slices.Clone(w.Cluster.Nodes)}
			next.Claims = w.Cluster.Claims
			var changed []int
			for i := range len(next.Nodes) + 1 {
				if rapid.IntRange(0, 2).Draw(t, "change") > 0 {
					continue
				}
				changed = append(changed, i)
				n := drawNode(t, i)
				if i == len(next.Nodes) {
					next.Nodes = append(next.Nodes, n)
				} else if next.Nodes[i] = n; rapid.IntRange(0, 9).Draw(t, "removed") == 0 {
					next.Nodes[i] = nil
				}
			}
			before := s.Facts()
			now := Recheck(next, g, s, changed)
			if !reflect.DeepEqual(before, s.Facts()) {
				t.Fatal("the standing that was given changed")
			}
			full := Stand(next, g)
			if !reflect.DeepEqual(now.Facts(), full.Facts()) || now.Fits() != full.Fits() || now.Code() != full.Code() {
				t.Fatalf("rechecked: %v fits %v, in full: %v fits %v", now.Facts(), now.Fits(), full.Facts(), full.Fits())
			}
			s, w.Cluster = now, next
		}
	})
}

func TestExplanationsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.Cluster.Claims = nil
		g := w.Groups[0]
		m := newModel(w.Cluster)
		nodes := Explain(w.Cluster, g)
		if want := len(m.considered(&g)); len(nodes) != want {
			t.Fatalf("%d nodes are explained, want %d", len(nodes), want)
		}
		fits := false
		for k, n := range nodes {
			if k > 0 && compareNames(w.Cluster.Nodes[nodes[k-1].Index], w.Cluster.Nodes[n.Index]) >= 0 {
				t.Fatal("nodes are not in the order of their names")
			}
			e, ok := m.exclusion(&g, n.Index)
			fits = fits || ok
			if ok != (len(n.Reasons) == 0) {
				t.Fatalf("%s: %v, want fitting %v", n.Name, n.Reasons, ok)
			}
			if !ok && (n.Reasons[0].Source != e.Source || n.Reasons[0].Code != e.Code || n.Reasons[0].Detail != e.Detail) {
				t.Fatalf("%s: first reason %v, want %v", n.Name, n.Reasons[0], e)
			}
			for j := range n.Reasons {
				if n.Reasons[j].Clears == "" {
					t.Fatalf("%s: nothing clears %v", n.Name, n.Reasons[j])
				}
				if j > 0 && compareReasons(n.Reasons[j-1].kind, n.Reasons[j].kind) >= 0 {
					t.Fatalf("%s: reasons are not in the fixed order: %v", n.Name, n.Reasons)
				}
			}
		}
		near, found := Nearest(w.Cluster, g)
		if found != (!fits && len(nodes) > 0) {
			t.Fatalf("a nearest node is found: %v", found)
		}
		if s := Stand(w.Cluster, g); found && near.Reasons[0].Code != s.Code() {
			t.Fatalf("the nearest node has %s and the stall %s", near.Reasons[0].Code, s.Code())
		}
		node, ok := Fit(w.Cluster, g, nil)
		if ok != fits {
			t.Fatalf("fit is %v, want %v", ok, fits)
		}
		if ok {
			if e, free := m.exclusion(&g, node); !free {
				t.Fatalf("fit says node %d, which has %v", node, e)
			}
		}
	})
}

func TestFitIsRoomOnceFreed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		g, m := w.Groups[0], newModel(w.Cluster)
		var freed []Use
		for i, n := range w.Cluster.Nodes {
			if n == nil || n.Tasks == 0 || n.PerJob["web"] == 0 || rapid.Bool().Draw(t, "stays") {
				continue
			}
			u := Use{Node: i, Job: "web", Resources: drawResources(t, 1)}
			if _, taken := n.Ports[80]; taken {
				u.Ports = []cluster.PortGrant{{Name: "http", Number: 80}}
			}
			freed = append(freed, u)
			m.nodes[i].free = m.nodes[i].free.Add(u.Resources)
			m.nodes[i].perJob["web"]--
			for _, p := range u.Ports {
				delete(m.nodes[i].ports, p.Number)
			}
		}
		want, wantOK := 0, false
		wanted := func(i int) int { // those in freed first, as they come, then by name
			if k := slices.IndexFunc(freed, func(u Use) bool { return u.Node == i }); k >= 0 {
				return k
			}
			return len(freed) + int(NameOrder(w.Cluster.Nodes)[i])
		}
		for _, i := range m.considered(&g) {
			if _, ok := m.exclusion(&g, i); ok && (!wantOK || wanted(i) < wanted(want)) {
				want, wantOK = i, true
			}
		}
		if got, ok := Fit(w.Cluster, g, freed); ok != wantOK || ok && got != want {
			t.Fatalf("fit on %d (%v), want %d (%v)", got, ok, want, wantOK)
		}
	})
}

func TestBitmapIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := func(label string) (Bitmap, map[int]bool) {
			bytes := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, label)
			in := map[int]bool{}
			for i := range len(bytes) * 8 {
				if bytes[i/8]&(1<<(i%8)) != 0 {
					in[i] = true
				}
			}
			return FromBytes(bytes), in
		}
		a, inA := set("a")
		b, inB := set("b")
		and, or, not := a.And(b), a.Or(b), a.AndNot(b)
		for i := range 200 {
			if a.Get(i) != inA[i] || and.Get(i) != (inA[i] && inB[i]) || or.Get(i) != (inA[i] || inB[i]) || not.Get(i) != (inA[i] && !inB[i]) {
				t.Fatalf("index %d: %v %v %v %v", i, a.Get(i), and.Get(i), or.Get(i), not.Get(i))
			}
		}
		all := slices.Collect(a.All())
		if len(all) != len(inA) || a.Count() != len(inA) || !slices.IsSorted(all) {
			t.Fatalf("%v of %v", all, inA)
		}
		i := rapid.IntRange(0, 200).Draw(t, "i")
		if with, without := a.With(i, true), a.With(i, false); !with.Get(i) || without.Get(i) || a.Get(i) != inA[i] || !with.With(i, inA[i]).Equal(a) || with.Equal(without) {
			t.Fatalf("with and without %d", i)
		}
		if a.Equal(b) != maps.Equal(inA, inB) {
			t.Fatal("equality")
		}
	})
}
