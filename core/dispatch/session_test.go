package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func hello() *agentv1.Hello { return &agentv1.Hello{ClusterId: clusterID} }

func TestFullSetNamesWhatTheNodeShouldRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := with(placedTask("web/2/3", "n1"), func(t *cluster.Task) {
			t.Desired = cluster.Desired{State: cluster.DesiredShutdown, Grace: 5 * time.Second}
			t.Observed.State = cluster.Running
		})
		ended := with(placedTask("web/3/3", "n1"), func(t *cluster.Task) { t.Observed.State = cluster.Failed })
		e := newFakeEngine(readyNode("n1"), webJob(), placedTask("web/1/3", "n1"), stopping, ended, placedTask("web/4/3", "n2"))
		a := dial(t, newDispatcher(t, e), "n1", hello())

		m := a.next().GetWelcome()
		if m.GetClusterId() != clusterID || m.GetNodeName() != "host-n1" || m.GetHeartbeatNs() != int64(2*time.Second) {
			t.Errorf("welcome is %v", m)
		}
		want := &agentv1.Assignments{Number: 1, Revision: 1, Full: true, Upsert: []*agentv1.Assignment{
			{
				Task: "web/1/3", Job: "web", Slot: "1", Desired: uint32(cluster.DesiredRunning), GraceNs: -1, Start: true,
				Spec:  &setpointv1.TaskSpec{Driver: "process", Command: []string{"/srv/web"}, Resources: &setpointv1.Resources{}, Stop: &setpointv1.StopSpec{}},
				Ports: []*setpointv1.PortGrant{{Name: "http", Number: 8080}},
			},
			{
				Task: "web/2/3", Job: "web", Slot: "2", Desired: uint32(cluster.DesiredShutdown), GraceNs: int64(5 * time.Second),
				Observed: uint32(cluster.Running), Ports: []*setpointv1.PortGrant{{Name: "http", Number: 8080}},
			},
		}}
		if got := a.assignments(1); !proto.Equal(got, want) {
			t.Errorf("full set\n got %v\nwant %v", got, want)
		}
		up := taken[engine.AgentUp](e)
		if len(up) != 1 || up[0].Node != "n1" || up[0].Session != 1 {
			t.Errorf("the engine was told %v, want the beginning of session 1", up)
		}
		if err := a.hangUp(); err != nil {
			t.Errorf("the session ended with %v, want nil", err)
		}
		if down := taken[engine.AgentDown](e); len(down) != 1 || down[0].Session != 1 {
			t.Errorf("the engine was told %v, want the end of session 1", down)
		}
	})
}

func TestLargeFullSetComesInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := []any{readyNode("n1"), webJob()}
		for i := range 2*maxAssignments + 1 {
			records = append(records, placedTask(cluster.TaskID(fmt.Sprintf("web/%d/3", i)), "n1"))
		}
		a := dial(t, newDispatcher(t, newFakeEngine(records...)), "n1", hello())
		a.next()
		var sizes []int
		for number := uint64(1); ; number++ {
			m := a.assignments(number)
			sizes = append(sizes, len(m.GetUpsert()))
			if !m.GetFull() {
				t.Errorf("part %d is not marked as part of the full set", number)
			}
			if !m.GetMore() {
				break
			}
		}
		if want := []int{maxAssignments, maxAssignments, 1}; !slices.Equal(sizes, want) {
			t.Errorf("parts of %v tasks, want %v", sizes, want)
		}
		_ = a.hangUp()
	})
}

func TestChangesFollowCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, job, one, two := readyNode("n1"), webJob(), placedTask("web/1/3", "n1"), placedTask("web/2/4", "n1")
		e := newFakeEngine(node, job, one)
		a := dial(t, newDispatcher(t, e), "n1", hello())
		a.welcome()

		e.turn([]any{node, job, one, two}, cluster.SetPlacement{Task: two.ID, Placement: two.Placement})
		if m := a.assignments(2); len(m.GetUpsert()) != 1 || m.GetUpsert()[0].GetTask() != "web/2/4" || !m.GetUpsert()[0].GetStart() {
			t.Errorf("after a placement: %v", m)
		}

		paused := with(node, func(n *cluster.Node) { n.Spec.Availability = cluster.Pause })
		e.turn([]any{paused, job, one, two}, cluster.SetNodeSpec{Node: "n1", Spec: paused.Spec})
		m := a.assignments(3)
		if len(m.GetUpsert()) != 2 || m.GetUpsert()[0].GetStart() || m.GetUpsert()[1].GetStart() || m.GetUpsert()[0].GetSpec() == nil {
			t.Errorf("after a pause: %v, want both tasks, not to be started", m)
		}

		gone := with(one, func(t *cluster.Task) { t.Desired = cluster.Desired{State: cluster.DesiredShutdown, Grace: -1} })
		e.turn([]any{paused, job, gone, two}, cluster.SetDesired{Task: one.ID, Desired: gone.Desired})
		if m := a.assignments(4); len(m.GetUpsert()) != 1 || m.GetUpsert()[0].GetDesired() != uint32(cluster.DesiredShutdown) || m.GetUpsert()[0].GetSpec() != nil {
			t.Errorf("after a stop: %v", m)
		}

		e.turn([]any{paused, job, two}, cluster.RemoveTask{Task: one.ID})
		if m := a.assignments(5); !slices.Equal(m.GetRemove(), []string{"web/1/3"}) || m.GetRevision() != 5 {
			t.Errorf("after a removal: %v", m)
		}
		_ = a.hangUp()
	})
}

func TestNothingNewIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, job, task := readyNode("n1"), webJob(), placedTask("web/1/3", "n1")
		e := newFakeEngine(node, job, task)
		a := dial(t, newDispatcher(t, e), "n1", hello())
		a.welcome()
		labelled := with(node, func(n *cluster.Node) { n.Spec.Labels = map[string]string{"disk": "ssd"} })
		e.turn([]any{labelled, job, task}, cluster.SetNodeSpec{Node: "n1", Spec: labelled.Spec})
		running := with(task, func(t *cluster.Task) { t.Observed.State = cluster.Accepted })
		e.turn([]any{labelled, job, running}, cluster.SetObserved{Task: task.ID, Observed: running.Observed})
		if m := a.assignments(2); len(m.GetUpsert()) != 1 || m.GetUpsert()[0].GetObserved() != uint32(cluster.Accepted) {
			t.Errorf("got %v, want only that the task is known now", m)
		}
		again := with(running, func(t *cluster.Task) { t.Observed.State = cluster.Running })
		e.turn([]any{labelled, job, again}, cluster.SetObserved{Task: task.ID, Observed: again.Observed})
		synctest.Wait()
		select {
		case m := <-a.down:
			t.Errorf("got %v, want nothing: the agent said so itself", m)
		default:
		}
		_ = a.hangUp()
	})
}

// An agent hears when it begins, and again with each answer, how often the server wants to hear of it.
func TestAgentsHearHowOftenToSpeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		period := 3 * time.Second
		d := newDispatcher(t, newFakeEngine(readyNode("n1")))
		d.opts.Heartbeat = func() time.Duration { return period }
		a := dial(t, d, "n1", hello())
		if m := a.next().GetWelcome(); m.GetHeartbeatNs() != int64(3*time.Second) {
			t.Errorf("welcome is %v", m)
		}
		a.assignments(1)
		period = 4 * time.Second
		a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
		if m := a.next().GetHeartbeat(); m.GetPeriodNs() != int64(4*time.Second) {
			t.Errorf("the answer is %v", m)
		}
		_ = a.hangUp()
	})
}

// While the agent does not read, a pause is committed: what was not sent by then is not sent as a start.
func TestSlowAgentIsToldTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, job := readyNode("n1"), webJob()
		e := newFakeEngine(node, job)
		d := newDispatcher(t, e)
		a := dial(t, d, "n1", hello())
		a.welcome()
		a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
		synctest.Wait() // the answer to the heartbeat waits to be read
		records := []any{node, job}
		for rev := range 1000 {
			task := placedTask(cluster.TaskID(fmt.Sprintf("web/1/%d", rev+3)), "n1")
			e.turn(append(slices.Clone(records), task), cluster.SetPlacement{Task: task.ID, Placement: task.Placement})
		}
		last := placedTask("web/1/1002", "n1")
		paused := with(node, func(n *cluster.Node) { n.Spec.Availability = cluster.Drain })
		e.turn([]any{paused, job, last}, cluster.SetNodeSpec{Node: "n1", Spec: paused.Spec})
		if m := a.next(); m.GetHeartbeat() == nil {
			t.Fatalf("got %v, want the answer to the heartbeat", m)
		}
		m := a.assignments(2)
		if len(m.GetRemove()) != 0 || len(m.GetUpsert()) != 1 || m.GetUpsert()[0].GetTask() != string(last.ID) || m.GetUpsert()[0].GetStart() {
			t.Errorf("told %v, want the one task that is left, not to be started", m)
		}
		if s := d.session("n1"); len(s.told) != 1 {
			t.Errorf("the session keeps %d tasks, want 1", len(s.told))
		}
		_ = a.hangUp()
	})
}

func TestReportsAreAcknowledgedAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(readyNode("n1"), webJob(), placedTask("web/1/3", "n1"))
		a := dial(t, newDispatcher(t, e), "n1", hello())
		a.welcome()
		a.report(&agentv1.Report{Number: 1, Full: true, More: true})
		a.report(&agentv1.Report{Number: 2, Full: true, Strays: []string{"old/1/2"}})
		a.report(&agentv1.Report{Number: 3, Tasks: []*agentv1.TaskStatus{{
			Task: "web/1/3", State: uint32(cluster.Failed), Message: "started\x1b]0;title\a\u202e\xff\nas pid 7", Err: strings.Repeat("x", 5000), ExitCode: -1, Healthy: true,
		}}})
		synctest.Wait()
		got := taken[engine.AgentReports](e)
		if len(got) != 3 {
			t.Fatalf("the engine was told %d reports, want 3", len(got))
		}
		if !got[0].Full || got[0].Last || !got[1].Full || !got[1].Last || got[2].Full {
			t.Errorf("parts are marked %v/%v, %v/%v, %v", got[0].Full, got[0].Last, got[1].Full, got[1].Last, got[2].Full)
		}
		if !slices.Equal(got[1].Strays, []cluster.TaskID{"old/1/2"}) {
			t.Errorf("strays are %v", got[1].Strays)
		}
		status := got[2].Tasks[0]
		if status.State != cluster.Failed || status.ExitCode != -1 || !status.Healthy || status.Message != "started ]0;title  \uFFFD\nas pid 7" || len(status.Err) != maxText {
			t.Errorf("the status is %+v", status)
		}
		select {
		case m := <-a.down:
			t.Errorf("got %v before the commit", m)
		default:
		}
		for _, r := range got {
			r.Received()
		}
		if m := a.next(); m.GetAck().GetNumber() != 3 {
			t.Errorf("got %v, want that report 3 and those before are durable", m)
		}
		_ = a.hangUp()
	})
}

func TestUnknownReportedTaskIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := dial(t, newDispatcher(t, newFakeEngine(readyNode("n1"))), "n1", hello())
		a.welcome()
		a.report(&agentv1.Report{Number: 1, Full: true, Tasks: []*agentv1.TaskStatus{{Task: "web/1/2", State: uint32(cluster.Complete)}}})
		if m := a.assignments(2); !slices.Equal(m.GetRemove(), []string{"web/1/2"}) {
			t.Errorf("got %v, want the task to be forgotten", m)
		}
		_ = a.hangUp()
	})
}

func TestMalformedMessagesEndTheSession(t *testing.T) {
	report := func(r *agentv1.Report) *agentv1.FromAgent {
		return &agentv1.FromAgent{Message: &agentv1.FromAgent_Report{Report: r}}
	}
	for name, m := range map[string]*agentv1.FromAgent{
		"second hello":       {Message: &agentv1.FromAgent_Hello{Hello: hello()}},
		"empty":              {},
		"gap":                report(&agentv1.Report{Number: 2, Full: true}),
		"not full":           report(&agentv1.Report{Number: 1}),
		"unknown state":      report(&agentv1.Report{Number: 1, Full: true, Tasks: []*agentv1.TaskStatus{{Task: "a/1/1", State: 9}}}),
		"state never spoken": report(&agentv1.Report{Number: 1, Full: true, Tasks: []*agentv1.TaskStatus{{Task: "a/1/1"}}}),
		"no task id":         report(&agentv1.Report{Number: 1, Full: true, Tasks: []*agentv1.TaskStatus{{Task: "a", State: 1}}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := dial(t, newDispatcher(t, newFakeEngine(readyNode("n1"))), "n1", hello())
				a.welcome()
				a.send(m)
				<-a.gone
				if code := connect.CodeOf(a.result); code != connect.CodeInvalidArgument {
					t.Errorf("the session ended with %v, want %v", a.result, connect.CodeInvalidArgument)
				}
			})
		})
	}
}

func TestHeartbeatsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(readyNode("n1"), readyNode("n2"))
		d := newDispatcher(t, e)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		agents := []*agent{dial(t, d, "n1", hello()), dial(t, d, "n2", hello())}
		for _, a := range agents {
			a.welcome()
		}
		time.Sleep(1050 * time.Millisecond) // to between two times at which what was heard is passed on
		taken[engine.AgentsHeard](e)
		for range 3 {
			for _, a := range agents {
				a.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
				if m := a.next(); m.GetHeartbeat() == nil {
					t.Errorf("a heartbeat was answered with %v", m)
				}
			}
		}
		time.Sleep(time.Second)
		heard := taken[engine.AgentsHeard](e)
		if len(heard) != 1 {
			t.Fatalf("six heartbeats gave %d inputs, want 1", len(heard))
		}
		slices.Sort(heard[0].Nodes)
		if want := []cluster.NodeID{"n1", "n2"}; !slices.Equal(heard[0].Nodes, want) {
			t.Errorf("heard of %v, want %v", heard[0].Nodes, want)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		for _, a := range agents {
			<-a.gone
			if code := connect.CodeOf(a.result); code != connect.CodeUnknown || a.result != errStopping {
				t.Errorf("a session ended with %v, want %v", a.result, errStopping)
			}
		}
		late := dial(t, d, "n1", hello())
		<-late.gone
		if late.result != errStopping {
			t.Errorf("a session after the end got %v, want %v", late.result, errStopping)
		}
	})
}

// Another process with a node's certificate, such as one on a copy of its data directory, has no session as long as the first is heard; after that it has.
func TestASecondAgentIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(readyNode("n1"))
		d := newDispatcher(t, e)
		as := func(process string) *agentv1.Hello {
			h := hello()
			h.Process = process
			return h
		}
		first := dial(t, d, "n1", as("a"))
		first.welcome()
		time.Sleep(3 * time.Second)
		first.send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
		if m := first.next(); m.GetHeartbeat() == nil {
			t.Fatalf("got %v, want the answer to a heartbeat", m)
		}
		second := dial(t, d, "n1", as("b"))
		<-second.gone
		if code := connect.CodeOf(asConnect(second.result)); code != connect.CodeAborted || !errors.Is(second.result, errTaken) {
			t.Errorf("the second agent is told %v", second.result)
		}
		select {
		case <-first.gone:
			t.Errorf("the first session ended with %v", first.result)
		default:
		}
		again := dial(t, d, "n1", as("a"))
		<-first.gone
		again.welcome()
		time.Sleep(4*time.Second + 1)
		late := dial(t, d, "n1", as("b"))
		late.welcome()
		<-again.gone
		_ = late.hangUp()
	})
}

func TestNewestSessionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEngine(readyNode("n1"))
		d := newDispatcher(t, e)
		old := dial(t, d, "n1", hello())
		old.welcome()
		newer := dial(t, d, "n1", hello())
		<-old.gone
		if code := connect.CodeOf(asConnect(old.result)); code != connect.CodeAborted {
			t.Errorf("the old session ended with %v, want %v", old.result, errSuperseded)
		}
		newer.welcome()
		if !d.Connected("n1") {
			t.Error("the end of the old session dropped the new one")
		}
		_ = newer.hangUp()
		if d.Connected("n1") {
			t.Error("an ended session counts as connected")
		}
	})
}

func TestUnwantedNodesLeave(t *testing.T) {
	decommissioned := with(readyNode("n1"), func(n *cluster.Node) { n.Spec.Decommissioned = true })
	for name, test := range map[string]struct {
		records []any
		hello   *agentv1.Hello
		leaves  bool
		code    connect.Code
	}{
		"decommissioned":       {records: []any{decommissioned}, hello: hello(), leaves: true},
		"removed":              {hello: &agentv1.Hello{ClusterId: clusterID, SeenRevision: 1}, leaves: true},
		"older copy of state":  {hello: &agentv1.Hello{ClusterId: clusterID, SeenRevision: 2}, code: connect.CodeFailedPrecondition},
		"of another cluster":   {records: []any{readyNode("n1")}, hello: &agentv1.Hello{ClusterId: "c2"}, code: connect.CodeFailedPrecondition},
		"without a cluster id": {records: []any{readyNode("n1")}, hello: &agentv1.Hello{}, code: connect.CodeFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := dial(t, newDispatcher(t, newFakeEngine(test.records...)), "n1", test.hello)
				if test.leaves {
					if m := a.next(); m.GetLeave().GetReason() == "" {
						t.Errorf("got %v, want Leave", m)
					}
				}
				<-a.gone
				if test.leaves && a.result != nil || !test.leaves && connect.CodeOf(a.result) != test.code {
					t.Errorf("the session ended with %v, want code %v", a.result, test.code)
				}
			})
		})
	}
}

// What an older copy of the state says of a node's tasks may be long past, and stays so when its revision has grown.
func TestAnOlderCopyOfTheStateStaysOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := readyNode("n1")
		e := newFakeEngine(node)
		d := newDispatcher(t, e)
		if err := d.Ahead(); err != nil {
			t.Error(err)
		}
		var notes []engine.NoteStall
		e.do = func(op engine.Op) (any, error) {
			notes = append(notes, op.(engine.NoteStall))
			return nil, nil
		}
		for range 3 {
			a := dial(t, d, "n1", &agentv1.Hello{ClusterId: clusterID, SeenRevision: 2})
			<-a.gone
			if connect.CodeOf(a.result) != connect.CodeFailedPrecondition || !strings.Contains(a.result.Error(), "state restore") {
				t.Errorf("the session ended with %v", a.result)
			}
			if err := d.Ahead(); err == nil || !strings.Contains(err.Error(), "node host-n1 has seen revision 2") {
				t.Errorf("what the server says of it: %v", err)
			}
			e.turn([]any{node}, cluster.SetNodeStatus{Node: "n1", Status: node.Status})
		}
		if len(notes) != 1 || notes[0].About != "n1" || notes[0].Code != cluster.CodeOlderCopy || !strings.Contains(notes[0].Message, "host-n1 has seen revision 2") {
			t.Errorf("the state is to know %+v", notes)
		}
		// A server that is started again on it knows it from there.
		noted := &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectCluster, ID: "n1"}, Source: cluster.SourceCore, Code: cluster.CodeOlderCopy, Message: notes[0].Message}
		again := newDispatcher(t, newFakeEngine(node, noted))
		a := dial(t, again, "n1", &agentv1.Hello{ClusterId: clusterID, SeenRevision: 1})
		<-a.gone
		if connect.CodeOf(a.result) != connect.CodeFailedPrecondition || again.Ahead() == nil {
			t.Errorf("started again, the session ended with %v, and the server says %v", a.result, again.Ahead())
		}
		gone := with(node, func(n *cluster.Node) { n.Spec.Decommissioned = true })
		e.turn([]any{gone}, cluster.SetNodeSpec{Node: "n1", Spec: gone.Spec})
		if err := d.Ahead(); err != nil {
			t.Errorf("once the node was decommissioned: %v", err)
		}
	})
}

func TestDecommissionedDuringASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := readyNode("n1")
		e := newFakeEngine(node)
		a := dial(t, newDispatcher(t, e), "n1", hello())
		a.welcome()
		gone := with(node, func(n *cluster.Node) { n.Spec.Decommissioned = true })
		e.turn([]any{gone}, cluster.SetNodeSpec{Node: "n1", Spec: gone.Spec})
		if m := a.next(); m.GetLeave() == nil {
			t.Errorf("got %v, want Leave", m)
		}
		<-a.gone
		if a.result != nil {
			t.Errorf("the session ended with %v", a.result)
		}
	})
}

func TestSpecOfAnEarlierJobOfThatNameIsNotSent(t *testing.T) {
	later := with(webJob(), func(j *cluster.Job) { j.CreatedRev = 9 })
	state := engine.Assemble(clusterID, 10, cluster.Time{}, readyNode("n1"), later)
	if a, _ := assign(state, placedTask("web/1/3", "n1")); a.GetSpec() != nil || a.GetStart() {
		t.Errorf("got %v, want no content and no start", a)
	}
}
