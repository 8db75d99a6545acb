package engine

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// What is decided about many jobs at once is what is decided about one after the other: in most of them nothing is to be done.
func TestDecidingAheadMakesNoDifference(t *testing.T) {
	before := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(before, 1, "n1", "n2", "n3", "n4", "n5", "n6")
	for i := range 60 {
		step(before, 2, run(fmt.Sprintf("job%02d", i), func(s *cluster.JobSpec) {
			s.Count = 2
			s.Task.Resources = cluster.Resources{MilliCPU: 50}
			s.Update.Order = []cluster.Order{cluster.StopFirst, cluster.StartFirst}[i%2]
		}))
	}
	step(before, 3)
	st := before.View()
	for x := range st.Tasks() { // they run, except those of every ninth job
		if x.Job[4] != '9' && x.Placed() {
			step(before, 4, AgentReports{Node: x.Placement.Node, Session: 1, Tasks: []TaskReport{{Task: x.ID, State: cluster.Running, Healthy: true}}})
		}
	}
	st = before.View().fork()
	for i := 3; i < 60; i += 7 { // what is left of these is one slot without a task
		for _, x := range st.SlotTasks(fmt.Sprintf("job%02d", i), "1") {
			st.dropTask(x.ID)
			st.onNode.drop(x.Placement.Node, x.ID)
			st.unsettled.change(x, nil)
		}
	}
	decide := func(e *Engine, now cluster.Time) (changes []Authored) {
		e.begin(now)
		e.reconcile(now)
		return e.changes
	}
	now := cluster.Time{Engine: 6}
	several := decide(New(Config{Heartbeat: time.Hour}, st.fork(), now), now)
	if len(several) < 9 {
		t.Fatalf("decided %v", several)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if alone := decide(New(Config{Heartbeat: time.Hour}, st.fork(), now), now); !reflect.DeepEqual(several, alone) {
		t.Errorf("decided one after the other:\n%v\nahead:\n%v", alone, several)
	}
}

// Decisions are made ahead only where those before changed nothing, and thrown away where one did.
func TestDecisionsAheadEndWithAChange(t *testing.T) {
	e := New(Config{Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("job%02d", i))
		step(e, 2, run(names[i], nil))
	}
	step(e, 3)
	clear(e.books)
	now := cluster.Time{Engine: 4}
	e.begin(now)
	d := decisions{e: e, now: now}
	for i := range 4 {
		d.next(names[i:])
	}
	if len(d.ready) == 0 {
		t.Fatal("nothing was decided ahead")
	}
	e.apply(cluster.AuthorEngine, cluster.PutStall{Stall: &cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectCluster, ID: "x"}}})
	if d.next(names[4:]); len(d.ready) > 0 {
		t.Error("what was decided before a change is used after it")
	}
}
