package api_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func TestNodeAsPeopleSeeIt(t *testing.T) {
	s := serve(t, nil)
	drained := with(node("a", "n1"), func(n *cluster.Node) {
		n.Spec.Availability, n.Spec.DrainDeadline, n.Spec.Labels = cluster.Drain, time.Minute, map[string]string{"disk": "ssd"}
		n.Drain = cluster.DrainStatus{State: cluster.Draining, Since: at(3 * time.Second), Left: 2, Lost: 1}
	})
	s.engine.set(9, drained)
	state := s.engine.View()
	s.engine.answer(func(engine.Op) (any, error) {
		return engine.InspectResult{State: state, Nodes: []engine.NodeUse{{
			Node: "a", Reserved: cluster.Resources{MilliCPU: 500}, Free: cluster.Resources{MilliCPU: 3500, Memory: 1 << 30}, Tasks: 1,
			Ports: map[uint16]cluster.TaskID{8081: "b/1/2", 8080: "a/1/2"},
		}}}, nil
	})
	c := s.as(pki.RoleReader)
	res, err := c.GetNode(t.Context(), connect.NewRequest(&apiv1.GetNodeRequest{Node: "n1"}))
	if err != nil {
		t.Fatal(err)
	}
	want := &apiv1.Node{
		Id: "a", Name: "n1", State: "ready", Since: stamp(2 * time.Second), Availability: "drain", Labels: map[string]string{"disk": "ssd"},
		Capacity: &setpointv1.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30}, Used: &setpointv1.Resources{MilliCpu: 500},
		Free: &setpointv1.Resources{MilliCpu: 3500, MemoryBytes: 1 << 30}, Tasks: 1,
		Ports:       []*apiv1.Port{{Name: "a/1/2", Number: 8080}, {Name: "b/1/2", Number: 8081}},
		Description: &setpointv1.NodeDescription{Hostname: "n1", Capacity: &setpointv1.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30}},
		Drain:       &apiv1.Drain{State: "draining", Left: 2, Lost: 1, Since: stamp(3 * time.Second), Deadline: durationpb.New(time.Minute), Until: stamp(time.Minute)},
		Joined:      stamp(time.Second),
	}
	if !proto.Equal(res.Msg.GetNode(), want) {
		t.Errorf("the node is\n%v, want\n%v", res.Msg.GetNode(), want)
	}
	list, err := c.ListNodes(t.Context(), connect.NewRequest(&apiv1.ListNodesRequest{}))
	if err != nil || len(list.Msg.GetNodes()) != 1 || !proto.Equal(list.Msg.GetNodes()[0], want) || list.Msg.GetRevision() != 9 {
		t.Errorf("the list is %v, %v", list, err)
	}
	if _, err := c.GetNode(t.Context(), connect.NewRequest(&apiv1.GetNodeRequest{Node: "n9"})); !client.IsNotFound(err) {
		t.Errorf("an unknown node gave %v", err)
	}
}

// TestHoldersOfANode has one task that holds something of a node, one that has ended there, and a node that has less than what is held.
func TestHoldersOfANode(t *testing.T) {
	s := serve(t, nil)
	holder := with(task("web/1/3"), func(x *cluster.Task) {
		x.Reserve.Resources = cluster.Resources{MilliCPU: 500, Units: map[string]int64{"gpu": 2}}
		x.Placement = cluster.Placement{
			Node: "a", Ports: []cluster.PortGrant{{Name: "http", Number: 80}}, Addresses: []cluster.AddressGrant{{Name: "eth0", Pool: "lan", Address: "10.0.0.1"}},
		}
	})
	ended := with(task("web/2/3"), func(x *cluster.Task) { x.Placement.Node, x.Observed.State = "a", cluster.Failed })
	s.engine.set(9, node("a", "n1"), holder, ended)
	state := s.engine.View()
	s.engine.answer(func(engine.Op) (any, error) {
		return engine.InspectResult{
			State: state, Nodes: []engine.NodeUse{{Node: "a", Free: cluster.Resources{MilliCPU: 3500, Units: map[string]int64{"gpu": -1}}, Tasks: 1}},
			Pools: []engine.PoolUse{{Pool: engine.Pool{Name: "lan", CIDR: "10.0.0.0/30"}, Total: 2, Used: 1}, {Pool: engine.Pool{Name: "wan", CIDR: "10.1.0.0/30"}, Total: 2}},
		}, nil
	})
	res, err := s.as(pki.RoleReader).GetNode(t.Context(), connect.NewRequest(&apiv1.GetNodeRequest{Node: "n1"}))
	if err != nil {
		t.Fatal(err)
	}
	got := res.Msg.GetNode()
	want := &apiv1.Node{
		Free: &setpointv1.Resources{MilliCpu: 3500, Units: map[string]int64{"gpu": 0}},
		Holders: []*apiv1.Holder{{
			Task: "web/1/3", Phase: got.GetHolders()[0].GetPhase(), Reserves: &setpointv1.Resources{MilliCpu: 500, Units: map[string]int64{"gpu": 2}},
			Ports: []*apiv1.Port{{Name: "http", Number: 80}}, Addresses: []*apiv1.Address{{Name: "eth0", Pool: "lan", Address: "10.0.0.1"}},
		}},
		Pools: []*apiv1.Pool{{Name: "lan", Cidr: "10.0.0.0/30", Total: 2, Used: 1}},
	}
	if have := (&apiv1.Node{Free: got.GetFree(), Holders: got.GetHolders(), Pools: got.GetPools()}); !proto.Equal(have, want) {
		t.Errorf("the node has\n%v, want\n%v", have, want)
	}
}

func TestNodeCommands(t *testing.T) {
	s := serve(t, nil)
	var got engine.Op
	s.engine.answer(func(op engine.Op) (any, error) {
		got = op
		if op, ok := op.(engine.TrialLabels); ok {
			want := engine.TrialLabels{Node: "n1", Set: map[string]string{"disk": "ssd"}, Remove: []string{"zone"}}
			if !reflect.DeepEqual(op, want) {
				t.Errorf("the trial is %+v", op)
			}
			return engine.Trial{
				Node:    engine.IndexedNode{Index: 3, Node: node("a", "n1")},
				Filters: []engine.TrialFilter{{Plugin: "constraint", Classes: []engine.Class{{ID: 7}}, Tasks: map[uint32][]cluster.TaskID{7: {"web/1/3"}}}},
			}, nil
		}
		if _, ok := op.(engine.SetAvailability); ok {
			return []engine.NodeResult{{Node: node("a", "n1"), Changed: true}}, nil
		}
		return engine.NodeResult{Node: node("a", "n1"), Changed: true}, nil
	})
	c, ctx := s.as(pki.RoleOperator), t.Context()
	drain, err := c.SetAvailability(ctx, connect.NewRequest(&apiv1.SetAvailabilityRequest{Nodes: []string{"n1"}, Availability: "drain", DrainDeadline: durationpb.New(time.Minute)}))
	if want := (engine.SetAvailability{Nodes: []string{"n1"}, Availability: cluster.Drain, DrainDeadline: time.Minute}); err != nil || !reflect.DeepEqual(got, engine.Op(want)) {
		t.Errorf("drain asked %+v, %v", got, err)
	}
	if nodes := drain.Msg.GetNodes(); len(nodes) != 1 || !nodes[0].GetChanged() || nodes[0].GetNode().GetName() != "n1" {
		t.Errorf("drain answered %v", drain.Msg)
	}
	s.plugins.verdicts = []engine.ClassVerdict{{Class: 7, Full: &engine.FullVerdict{
		Rejections: []engine.Rejection{{Code: cluster.CodeConstraint, Evicts: true}}, Nodes: []uint32{3}, Reasons: []uint32{0},
	}}}
	label := &apiv1.LabelNodeRequest{Node: "n1", Set: map[string]string{"disk": "ssd"}, Remove: []string{"zone"}}
	done, err := c.LabelNode(ctx, connect.NewRequest(label))
	if want := (engine.LabelNode{Node: "n1", Set: label.GetSet(), Remove: label.GetRemove()}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("label asked %+v, %v", got, err)
	}
	if !slices.Equal(done.Msg.GetMoves(), []string{"web/1/3"}) {
		t.Errorf("label would move %v", done.Msg.GetMoves())
	}
	if _, err = c.DecommissionNode(ctx, connect.NewRequest(&apiv1.DecommissionNodeRequest{Node: "n1", Force: true})); err != nil || got != engine.Op(engine.Decommission{Node: "n1", Force: true}) {
		t.Errorf("decommission asked %+v, %v", got, err)
	}
	if _, err = c.RemoveNode(ctx, connect.NewRequest(&apiv1.RemoveNodeRequest{Node: "n1"})); err != nil || got != engine.Op(engine.RemoveNode{Node: "n1"}) {
		t.Errorf("remove asked %+v, %v", got, err)
	}
	if _, err = c.ConfirmDown(ctx, connect.NewRequest(&apiv1.ConfirmDownRequest{Nodes: []string{"n1"}})); err != nil || !reflect.DeepEqual(got, engine.ConfirmDown{Nodes: []string{"n1"}}) {
		t.Errorf("confirm-down asked %+v, %v", got, err)
	}
	if _, err = c.ConfirmPlugin(ctx, connect.NewRequest(&apiv1.ConfirmPluginRequest{Plugin: "cel"})); err != nil || got != engine.Op(engine.ConfirmPlugin{Plugin: "cel"}) {
		t.Errorf("confirm asked %+v, %v", got, err)
	}
	got = nil
	_, err = c.SetAvailability(ctx, connect.NewRequest(&apiv1.SetAvailabilityRequest{Nodes: []string{"n1"}, Availability: "off"}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument || got != nil {
		t.Errorf("an unknown availability gave %v and asked %v", err, got)
	}
}

func TestStatus(t *testing.T) {
	s := serve(t, nil)
	s.plugins.list = []api.Plugin{{
		Name: "constraint", Version: "1.0", State: "backoff", Restarts: 3, Interfaces: []string{"filter"}, Message: "exited", Since: time.Unix(1500, 0),
	}}
	silent := with(node("b", "n2"), func(n *cluster.Node) { n.Status.State, n.Spec.Availability = cluster.NodeSilent, cluster.Drain })
	gone := with(node("c", "n3"), func(n *cluster.Node) { n.Spec.Decommissioned = true })
	s.engine.set(9, node("a", "n1"), silent, gone, job("web", 2), running("web/1/3", "a"), task("web/2/3"), groupStall("web"), &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectPlugin, ID: "constraint"}, Source: "core", Code: cluster.CodePluginUnavailable, Message: "exited",
	})
	res, err := s.as(pki.RoleReader).GetStatus(t.Context(), connect.NewRequest(&apiv1.GetStatusRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	m := res.Msg
	if len(m.GetPlugins()) != 1 || len(m.GetPlugins()[0].GetStalls()) != 1 || m.GetPlugins()[0].GetState() != "backoff" || m.GetPlugins()[0].GetRestarts() != 3 {
		t.Errorf("plugins are %v", m.GetPlugins())
	}
	m.Plugins = nil
	want := &apiv1.GetStatusResponse{
		ClusterId: "c1", Version: "1.2.3", Pid: 42, Started: m.GetStarted(), Revision: 9, Ready: true,
		Nodes: map[string]int64{"ready": 1, "silent": 1, "decommissioned": 1}, NodesDraining: 1, Jobs: 1,
		Tasks: map[string]int64{"running": 1, "stalled": 1}, Stalls: 2,
	}
	if !proto.Equal(m, want) || m.GetStarted().AsTime().Unix() != 1000 {
		t.Errorf("the status is\n%v, want\n%v", m, want)
	}
}

func TestClientWaits(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, node("a", "n1"), job("web", 1), slot("web", "1"), running("web/1/3", "a"))
	state := s.engine.View()
	s.engine.answer(func(engine.Op) (any, error) { return engine.InspectResult{State: state}, nil })
	c := s.as(pki.RoleReader)
	looks := 0
	j, err := c.WaitJob(t.Context(), "web", func(j *apiv1.Job) (bool, error) {
		looks++
		return looks == 2 && j.GetState() == "running", nil
	})
	if err != nil || j.GetName() != "web" || looks != 2 {
		t.Errorf("WaitJob returned %v, %v after %d looks", j, err, looks)
	}
	if _, err := c.WaitJob(t.Context(), "none", nil); !client.IsNotFound(err) {
		t.Errorf("waiting for an unknown job gave %v", err)
	}
	if n, err := c.WaitNode(t.Context(), "n1", func(n *apiv1.Node) (bool, error) { return n.GetState() == "ready", nil }); err != nil || n.GetId() != "a" {
		t.Errorf("WaitNode returned %v, %v", n, err)
	}
	if status, err := c.WaitReady(t.Context()); err != nil || !status.GetReady() {
		t.Errorf("WaitReady returned %v, %v", status, err)
	}
}
