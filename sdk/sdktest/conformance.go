package sdktest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Cases are what Conformance asks a plugin about. Classes that some nodes meet and some do not make it find more.
type Cases struct {
	Config  string               // of the plugin, as JSON
	Classes []sdk.CompileRequest // for a filter
	Jobs    []sdk.Job            // for a job type
	// Node draws a node with a given id. Nil: DrawNode.
	Node func(t *rapid.T, id cluster.NodeID) *cluster.Node
}

// smallMessages makes answers come in parts.
const smallMessages = 16 << 10

// Conformance checks of a plugin what the daemon relies on: its description is sound; answers that followed changes of nodes are those that it gives when it
// is asked from scratch; the same question gets the same answer, in whatever order classes come and however small messages have to be; a drain speaks of the
// node's tasks only; and it stops when told. plugin is called for each run of the plugin.
func Conformance(t *testing.T, plugin func() sdk.Plugin, c Cases) {
	t.Helper()
	if c.Node == nil {
		c.Node = DrawNode
	}
	t.Run("description", func(t *testing.T) { checkDescription(t, plugin()) })
	t.Run("changes", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { c.checkChanges(rt, plugin) })
	})
	t.Run("repeatable", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { c.checkRepeatable(rt, plugin) })
	})
	if plugin().Drainer != nil {
		t.Run("drain", func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { c.checkDrain(rt, plugin) })
		})
	}
	t.Run("stop", func(t *testing.T) {
		h := NewWith(t, plugin(), Options{Config: c.Config})
		begun := time.Now()
		h.Stop(patience)
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("stopping took %s", took)
		}
	})
}

func checkDescription(t *testing.T, p sdk.Plugin) {
	h := New(t, p)
	d := h.Describe()
	if d.Name != p.Name || d.Version == "" || len(d.Interfaces) == 0 {
		t.Errorf("name %q, version %q, interfaces %v: want all of them", d.Name, d.Version, d.Interfaces)
	}
	again, err := h.Client().Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil || !proto.Equal(d, again) {
		t.Errorf("described again: %v, %v, want the same as before", again, err)
	}
}

// checkChanges compares answers that followed random changes with those of a plugin that is told the outcome only.
func (c Cases) checkChanges(rt *rapid.T, plugin func() sdk.Plugin) {
	h := NewWith(rt, plugin(), Options{Config: c.Config, MaxMessageBytes: smallMessages})
	defer h.Close()
	nodes := map[cluster.NodeID]*cluster.Node{}
	for _, id := range rapid.SliceOfNDistinct(drawID(), 0, 8, rapid.ID).Draw(rt, "first nodes") {
		nodes[id] = c.Node(rt, id)
	}
	h.SetNodes(slices.Collect(maps.Values(nodes))...)
	classes := c.register(h)
	for range rapid.IntRange(1, 8).Draw(rt, "changes") {
		h.Apply(c.drawChange(rt, nodes))
		if rapid.Bool().Draw(rt, "wait") {
			h.Settle()
		}
	}
	h.Settle()
	fresh := NewWith(rt, plugin(), Options{Config: c.Config})
	defer fresh.Close()
	fresh.SetNodes(h.Nodes()...)
	wanted := c.register(fresh)
	fresh.Settle()
	for i := range classes {
		same(rt, fmt.Sprintf("class %d after changes", i), wanted[i].Answer(), classes[i].Answer())
	}
	for _, j := range c.Jobs {
		same(rt, "slots of "+j.Name+" after changes", fresh.Slots(j.Name), h.Slots(j.Name))
	}
}

// register hands all classes and jobs to a plugin.
func (c Cases) register(h *Host) []*Class {
	var out []*Class
	for _, req := range c.Classes {
		out = append(out, h.RegisterClass(req))
	}
	for _, j := range c.Jobs {
		h.RegisterJob(j)
	}
	return out
}

func drawID() *rapid.Generator[cluster.NodeID] {
	return rapid.Custom(func(t *rapid.T) cluster.NodeID {
		return cluster.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 11).Draw(t, "id")))
	})
}

// drawChange draws what happens to nodes and does it to the map.
func (c Cases) drawChange(rt *rapid.T, nodes map[cluster.NodeID]*cluster.Node) Change {
	var ch Change
	for _, id := range rapid.SliceOfNDistinct(drawID(), 0, 3, rapid.ID).Draw(rt, "removed") {
		if nodes[id] != nil {
			delete(nodes, id)
			ch.Remove = append(ch.Remove, id)
		}
	}
	for _, id := range rapid.SliceOfNDistinct(drawID(), 0, 3, rapid.ID).Draw(rt, "put") {
		nodes[id] = c.Node(rt, id)
		ch.Put = append(ch.Put, nodes[id])
	}
	return ch
}

// checkRepeatable asks the same of two plugins, of the second in the opposite order and in small messages, and as a trial.
func (c Cases) checkRepeatable(rt *rapid.T, plugin func() sdk.Plugin) {
	var nodes []*cluster.Node
	for i := range rapid.IntRange(0, 12).Draw(rt, "nodes") {
		nodes = append(nodes, c.Node(rt, cluster.NodeID(fmt.Sprintf("n%d", i))))
	}
	first := NewWith(rt, plugin(), Options{Config: c.Config})
	defer first.Close()
	first.SetNodes(nodes...)
	classes := c.register(first)
	first.Settle()

	back := c
	back.Classes, back.Jobs = slices.Clone(c.Classes), slices.Clone(c.Jobs)
	slices.Reverse(back.Classes)
	slices.Reverse(back.Jobs)
	second := NewWith(rt, plugin(), Options{Config: c.Config, MaxMessageBytes: smallMessages})
	defer second.Close()
	second.SetNodes(nodes...)
	reversed := back.register(second)
	second.Settle()
	slices.Reverse(reversed)
	for i := range classes {
		same(rt, fmt.Sprintf("class %d asked in another order", i), classes[i].Answer(), reversed[i].Answer())
	}
	for _, j := range c.Jobs {
		same(rt, "slots of "+j.Name+" asked in another order", first.Slots(j.Name), second.Slots(j.Name))
	}
	if len(c.Classes) == 0 {
		return
	}
	for i, a := range first.Try(c.Classes) {
		same(rt, fmt.Sprintf("class %d as a trial", i), classes[i].Answer(), a)
	}
}

// checkDrain asks twice about a node with random tasks.
func (c Cases) checkDrain(rt *rapid.T, plugin func() sdk.Plugin) {
	h := NewWith(rt, plugin(), Options{Config: c.Config, MaxMessageBytes: smallMessages})
	defer h.Close()
	node := c.Node(rt, "n1")
	h.SetNodes(node)
	req := sdk.DrainRequest{Node: node, Waited: time.Minute, Tasks: rapid.SliceOfN(rapid.Custom(drawTask), 0, 20).Draw(rt, "tasks")}
	for i := range req.Tasks {
		req.Tasks[i].ID = cluster.NewTaskID(req.Tasks[i].Job, req.Tasks[i].Slot, cluster.Revision(i+1))
	}
	first, failure := h.Drain(req)
	if failure != nil {
		rt.Fatalf("drain failed: %v", failure)
	}
	for _, x := range first.Transitions {
		i := slices.IndexFunc(req.Tasks, func(t sdk.DrainTask) bool { return string(t.ID) == x.Task })
		if i < 0 {
			rt.Fatalf("a transition of task %q, which is not on the node", x.Task)
		}
		if x.To == cluster.DesiredShutdown.String() && !req.Tasks[i].Desired.Before(cluster.DesiredShutdown) {
			rt.Fatalf("a transition of task %q, which was told to stop before", x.Task)
		}
	}
	second, _ := h.Drain(req)
	if diff := cmp.Diff(first, second, protocmp.Transform()); diff != "" {
		rt.Fatalf("the same drain again (-first +second):\n%s", diff)
	}
}

func drawTask(t *rapid.T) sdk.DrainTask {
	out := Task(rapid.SampledFrom([]string{"web", "db", "log"}).Draw(t, "job"), 1)
	out.OnDrain = rapid.SampledFrom([]cluster.OnDrain{cluster.DrainFirst, cluster.DrainLast}).Draw(t, "on_drain")
	out.Desired = rapid.SampledFrom([]cluster.DesiredState{cluster.DesiredRunning, cluster.DesiredComplete, cluster.DesiredShutdown}).Draw(t, "desired")
	out.Observed = rapid.SampledFrom([]cluster.ObservedState{cluster.ObservedNone, cluster.Starting, cluster.Running}).Draw(t, "observed")
	out.Priority = rapid.IntRange(0, 100).Draw(t, "priority")
	return out
}

// DrawNode draws a node with a few labels, attributes and addresses out of few values, so that changes often repeat one.
func DrawNode(t *rapid.T, id cluster.NodeID) *cluster.Node {
	n := Node(string(id))
	for _, key := range []string{"disk", "zone", "gpu"} {
		if v := rapid.SampledFrom([]string{"", "1", "2", "ssd"}).Draw(t, key); v != "" {
			n.Spec.Labels[key] = v
		}
	}
	n.Description.Attributes["kernel"] = rapid.SampledFrom([]string{"5.9.0", "5.10.1-generic", "6.1.0-rc2"}).Draw(t, "kernel")
	n.Description.Addresses = []string{rapid.SampledFrom([]string{"10.1.0.1", "10.2.0.1"}).Draw(t, "address")}
	n.Description.Arch = rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "arch")
	n.Spec.Availability = rapid.SampledFrom([]cluster.Availability{cluster.Active, cluster.Pause, cluster.Drain}).Draw(t, "availability")
	n.Spec.Decommissioned = rapid.IntRange(0, 9).Draw(t, "decommissioned") == 0
	return n
}

// same compares two answers, leaving aside at which revision they were given and in which order indexes name a slot's nodes.
func same[A Answer | Slots](t *rapid.T, what string, want, got A) {
	t.Helper()
	if diff := cmp.Diff(normal(want), normal(got), protocmp.Transform()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func normal(x any) any {
	switch a := x.(type) {
	case Answer:
		a.Revision = 0
		return a
	case Slots:
		a.Revision = 0
		if a.Stall != nil {
			a.Slots = nil // what a held job keeps depends on what was before
		}
		a.Slots = slices.Clone(a.Slots)
		for i := range a.Slots {
			a.Slots[i].Nodes = slices.Sorted(slices.Values(a.Slots[i].Nodes))
		}
		return a
	}
	return x
}
