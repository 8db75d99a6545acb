package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func stamp(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(at(d).WallTime()) }

func ids(tasks []*apiv1.Task) string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.GetId())
	}
	return strings.Join(out, " ")
}

func TestTaskAsPeopleSeeIt(t *testing.T) {
	s := serve(t, nil)
	down := with(node("a", "n1"), func(n *cluster.Node) {
		n.Status = cluster.NodeStatus{State: cluster.NodeDown, Since: at(7 * time.Second)}
	})
	s.engine.set(9, down, job("web", 1), slot("web", "1"), running("web/1/3", "a"))
	res, err := s.as(pki.RoleReader).GetTask(t.Context(), connect.NewRequest(&apiv1.GetTaskRequest{Task: "web/1"}))
	if err != nil {
		t.Fatal(err)
	}
	want := &apiv1.Task{
		Id: "web/1/3", Job: "web", JobVersion: 2, Slot: "1", Node: "n1", NodeId: "a",
		Desired:   &apiv1.Desired{State: "running", Reason: "wanted", By: "core", Since: stamp(4 * time.Second)},
		Observed:  &apiv1.Observed{State: "running", Message: "started", Healthy: true, At: stamp(6 * time.Second)},
		Condition: &apiv1.Condition{State: "lost", Since: stamp(7 * time.Second), Reason: "node n1 is down"},
		Phase:     "lost", Created: stamp(4 * time.Second), Why: "new slot", Placed: stamp(5 * time.Second),
		Ports: []*apiv1.Port{{Name: "http", Number: 8080}},
		Spec:  &setpointv1.TaskSpec{Driver: "process", Command: []string{"/srv/web"}, Resources: &setpointv1.Resources{}, Stop: &setpointv1.StopSpec{}},
	}
	if !proto.Equal(res.Msg.GetTask(), want) {
		t.Errorf("the task is\n%v, want\n%v", res.Msg.GetTask(), want)
	}
}

func TestListTasksInPages(t *testing.T) {
	s := serve(t, nil)
	dead := with(running("web/2/3", "b"), func(t *cluster.Task) { t.Observed.State = cluster.Failed })
	s.engine.set(9, node("a", "n1"), node("b", "n2"), running("api/1/3", "b"), running("web/1/3", "a"), dead, running("web/3/3", "b"), task("web/4/3"))
	c := s.as(pki.RoleReader)
	for want, req := range map[string]*apiv1.ListTasksRequest{
		"api/1/3 web/1/3 web/3/3 web/4/3":         {},
		"api/1/3 web/1/3 web/2/3 web/3/3 web/4/3": {All: true},
		"web/1/3 web/3/3 web/4/3":                 {Job: "web"},
		"api/1/3 web/3/3":                         {Node: "n2"},
		"web/2/3 web/3/3":                         {Node: "b", Job: "web", All: true},
		"":                                        {Job: "none"},
	} {
		for _, size := range []int32{0, 1, 2} {
			var got []*apiv1.Task
			page := proto.Clone(req).(*apiv1.ListTasksRequest)
			page.PageSize = size
			for {
				res, err := c.ListTasks(t.Context(), connect.NewRequest(page))
				if err != nil {
					t.Fatal(err)
				}
				if size > 0 && len(res.Msg.GetTasks()) > int(size) {
					t.Errorf("a page has %d rows, want at most %d", len(res.Msg.GetTasks()), size)
				}
				got = append(got, res.Msg.GetTasks()...)
				if page.PageToken = res.Msg.GetNextPageToken(); page.GetPageToken() == "" {
					break
				}
			}
			if ids(got) != want {
				t.Errorf("%v in pages of %d: %q, want %q", req, size, ids(got), want)
			}
		}
	}
	for _, req := range []*apiv1.ListTasksRequest{{PageSize: -1}, {PageSize: 5001}, {PageToken: "§"}} {
		if _, err := c.ListTasks(t.Context(), connect.NewRequest(req)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v got %v, want code %v", req, err, connect.CodeInvalidArgument)
		}
	}
	if _, err := c.ListTasks(t.Context(), connect.NewRequest(&apiv1.ListTasksRequest{Node: "n9"})); !client.IsNotFound(err) {
		t.Errorf("an unknown node gave %v", err)
	}
}

func why(op engine.Op) (any, error) {
	w, ok := op.(engine.Why)
	if !ok {
		return nil, fmt.Errorf("asked %T", op)
	}
	return engine.WhyResult{
		Task: &cluster.Task{ID: w.Task}, Sentence: "no node can run it (amounts)", Nearest: "n3", Clears: "0.5 more cpu is free on n3", Exceeds: "gpu",
		Nodes: []engine.WhyNode{
			{Node: "a", Name: "n1", Reasons: []engine.WhyReason{{Source: "constraint", Code: cluster.CodeConstraint, Detail: "node.labels.disk == ssd"}}},
			{Node: "b", Name: "n2", Reasons: []engine.WhyReason{{Source: "constraint", Code: cluster.CodeConstraint, Detail: "node.labels.disk == ssd"}}},
			{Node: "c", Name: "n3", Reasons: []engine.WhyReason{{Source: "core", Code: cluster.CodeInsufficientResources, Detail: "want 1 cpu, free 0.5"}}},
			{Node: "d", Name: "n4"},
		},
	}, nil
}

func TestWhyTask(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, job("web", 1), slot("web", "1"), task("web/1/3"), groupStall("web"))
	s.engine.answer(why)
	res, err := s.as(pki.RoleReader).WhyTask(t.Context(), connect.NewRequest(&apiv1.WhyTaskRequest{Task: "web/1"}))
	if err != nil {
		t.Fatal(err)
	}
	m := res.Msg
	if m.GetSentence() != "no node can run it (amounts)" || m.GetNearest() != "n3" || m.GetExceeds() != "gpu" || len(m.GetNodes()) != 4 {
		t.Errorf("the answer is %v", m)
	}
	if n := m.GetNodes()[2]; n.GetNode() != "n3" || n.GetNodeId() != "c" || n.GetReasons()[0].GetDetail() != "want 1 cpu, free 0.5" {
		t.Errorf("n3 is %v", n)
	}
	if stalls := m.GetTask().GetStalls(); len(stalls) != 1 || stalls[0].GetMessage() != m.GetSentence() || m.GetTask().GetPhase() != "stalled" {
		t.Errorf("the task is %v", m.GetTask())
	}
}

func TestStallsOfAGroupAreShownOnItsTasks(t *testing.T) {
	s := serve(t, nil)
	young := with(task("web/2/9"), func(t *cluster.Task) { t.Created = at(7 * time.Second) })
	s.engine.set(9, node("a", "n1"), job("web", 2), slot("web", "1"), task("web/1/3"), young, running("web/3/3", "a"), groupStall("web"),
		&cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "web/3"}, Source: "core", Code: cluster.CodeWaitingForBudget, Message: "0 of 1",
			Since: at(time.Second), Changed: at(time.Second), Clears: "a slot comes up",
		},
		&cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectNode, ID: "a"}, Source: "core", Code: cluster.CodeWaitingForBudget, Since: at(5 * time.Second)},
	)
	asked := 0
	s.engine.answer(func(op engine.Op) (any, error) {
		asked++
		return why(op)
	})
	c := s.as(pki.RoleReader)
	res, err := c.ListStalls(t.Context(), connect.NewRequest(&apiv1.ListStallsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	stalls := res.Msg.GetStalls()
	var subjects []string
	for _, v := range stalls {
		subjects = append(subjects, v.GetSubject().GetKind()+":"+v.GetSubject().GetId())
	}
	if want := []string{"slot:web/3", "task:web/1/3", "node:a", "task:web/2/9"}; !slices.Equal(subjects, want) {
		t.Fatalf("stalls of %v, want %v: longest first", subjects, want)
	}
	if asked != 1 {
		t.Errorf("the engine was asked %d times, want once for the group", asked)
	}
	want := &apiv1.Stall{
		Subject: &apiv1.Subject{Kind: "task", Id: "web/2/9"}, Job: "web", Slot: "2", Task: "web/2/9", Code: "constraint", Source: "placement",
		Message: "no node can run it (amounts)", Since: stamp(7 * time.Second), Changed: stamp(8 * time.Second), Nearest: "n3",
		Clears: "0.5 more cpu is free on n3",
		Facts: &apiv1.Facts{Nodes: 3, Excluded: []*apiv1.Exclusion{
			{Source: "constraint", Code: "constraint", Detail: "node.labels.disk == ssd", Count: 2, Nodes: []string{"n1", "n2"}},
			{Source: "core", Code: "insufficient_resources", Detail: "cpu", Count: 1, Nodes: []string{"n3"}},
		}},
	}
	if !proto.Equal(stalls[3], want) {
		t.Errorf("the stall is\n%v, want\n%v", stalls[3], want)
	}
	if v := stalls[2]; v.GetNode() != "n1" || v.GetNodeId() != "a" {
		t.Errorf("the drain's stall is %v", v)
	}
	if v := stalls[0]; v.GetJob() != "web" || v.GetSlot() != "3" || v.GetMessage() != "0 of 1" || v.GetClears() != "a slot comes up" {
		t.Errorf("the slot's stall is %v", v)
	}
	one, err := c.ListStalls(t.Context(), connect.NewRequest(&apiv1.ListStallsRequest{Job: "web", Code: "waiting_for_budget"}))
	if err != nil || len(one.Msg.GetStalls()) != 1 {
		t.Errorf("one job's stalls of one code: %v, %v", one, err)
	}
}

func TestLogsOfATask(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, node("a", "n1"), job("web", 2), running("web/1/3", "a"), task("web/2/3"))
	s.logs.text = strings.Repeat("a line\n", 20_000)
	c := s.as(pki.RoleReader)
	read := func(req *apiv1.TaskLogsRequest) (string, error) {
		t.Helper()
		stream, err := c.TaskLogs(t.Context(), connect.NewRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for stream.Receive() {
			text.Write(stream.Msg().GetData())
		}
		return text.String(), errors.Join(stream.Err(), stream.Close())
	}
	got, err := read(&apiv1.TaskLogsRequest{Task: "web/1", Stream: "stderr", Follow: true, Tail: 7, Since: stamp(time.Second)})
	if err != nil || got != s.logs.text {
		t.Errorf("read %d bytes and %v, want %d", len(got), err, len(s.logs.text))
	}
	ask := s.logs.ask
	if s.logs.node != "a" || ask.GetTask() != "web/1/3" || ask.GetStream() != "stderr" || !ask.GetFollow() || ask.GetTail() != 7 ||
		ask.GetSinceUnixNs() != at(time.Second).Wall {
		t.Errorf("node %s was asked %v", s.logs.node, ask)
	}
	if _, err := read(&apiv1.TaskLogsRequest{Task: "web/2"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a task without a node gave %v", err)
	}
	if _, err := read(&apiv1.TaskLogsRequest{Task: "web/1", Stream: "stdin"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("an unknown stream gave %v", err)
	}
	s.logs.err = errors.New("the node's agent is not connected")
	if _, err := read(&apiv1.TaskLogsRequest{Task: "web/1"}); connect.CodeOf(err) != connect.CodeFailedPrecondition || client.Detail(err).GetHint() == "" {
		t.Errorf("a node without a session gave %v", err)
	}
}

func TestListedTasksAreExplained(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, node("a", "n1"), job("web", 2), slot("web", "1"), slot("web", "2"), task("web/1/3"), task("web/2/3"), groupStall("web"))
	asked := 0
	s.engine.answer(func(op engine.Op) (any, error) {
		asked++
		return engine.WhyResult{Sentence: "no node can run it", Nearest: "n1", Clears: "n1 meets it"}, nil
	})
	res, err := s.as(pki.RoleReader).ListTasks(t.Context(), connect.NewRequest(&apiv1.ListTasksRequest{}))
	if err != nil || len(res.Msg.GetTasks()) != 2 || asked != 1 {
		t.Fatalf("got %v, %v, and asked %d times", res, err, asked)
	}
	for _, x := range res.Msg.GetTasks() {
		if st := x.GetStalls(); len(st) != 1 || st[0].GetClears() != "n1 meets it" || st[0].GetNearest() != "n1" || st[0].GetMessage() != "no node can run it" {
			t.Errorf("%s waits for %v", x.GetId(), st)
		}
	}
}
