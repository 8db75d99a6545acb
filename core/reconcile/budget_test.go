package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// drainAll has a drainer say of the tasks of the given slots that they should go; without any, of all.
func (s *scene) drainAll(keys ...cluster.SlotKey) {
	for t := range s.TasksOf(jobName) {
		if !t.Dead() && (len(keys) == 0 || slices.Contains(keys, t.Slot)) {
			s.says[t.ID] = voluntary(t)
		}
	}
}

// stopped returns how many tasks the last decision told to stop.
func (s *scene) stopped() int { return strings.Count(s.told(), "stop ") }

func TestBudgetIsAShareOfTheWantedSlotsRoundedUp(t *testing.T) {
	for _, c := range []struct{ slots, count, percent, want int }{
		{1, 0, 25, 1},
		{3, 0, 25, 1},
		{4, 0, 25, 1},
		{5, 0, 25, 2},
		{8, 0, 25, 2},
		{9, 0, 25, 3},
		{3, 0, 100, 3},
		{10, 0, 1, 1},
		{4, 1, 0, 1},
		{4, 3, 0, 3},
		{4, 9, 0, 4},
	} {
		t.Run(fmt.Sprintf("%d slots, %d or %d%%", c.slots, c.count, c.percent), func(t *testing.T) {
			s := upScene(t, 3, c.slots, func(spec *cluster.JobSpec) {
				spec.MaxUnavailable = cluster.Amount{Count: c.count, Percent: c.percent}
			})
			s.drainAll()
			s.decide()
			if got := s.stopped(); got != c.want {
				t.Errorf("%d leave at a time, want %d", got, c.want)
			}
		})
	}
}

func TestMovesWaitForTheirSuccessors(t *testing.T) {
	s := upScene(t, 3, 4, nil)
	s.drainAll()
	s.decide()
	s.want("stop 1")
	s.wantStall("2", cluster.CodeWaitingForBudget)
	text := "task j/2/101 is to move (drain), but 1 of 4 slots are not up and the job allows 1"
	if got := s.message("2", cluster.CodeWaitingForBudget); got != text {
		t.Errorf("says %q, want %q", got, text)
	}
	s.observe("1", cluster.Stopped)
	s.decide()
	s.want("new 1")
	s.observe("1", cluster.Starting)
	s.decide()
	s.want("")
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 2")
	s.wantStall("1")
}

func TestWhatIsNotUpAnywayMovesAtOnce(t *testing.T) {
	s := upScene(t, 3, 4, nil)
	s.edit(s.of("3").ID).Observed.Healthy = false
	s.drainAll()
	s.decide()
	s.want("stop 3")
	s.wantStall("1", cluster.CodeWaitingForBudget)
}

func TestSlotsThatFailedUseTheBudgetUp(t *testing.T) {
	s := upScene(t, 3, 4, nil)
	s.observe("4", cluster.Failed)
	s.drainAll("1")
	s.decide()
	s.want("")
	s.wantStall("1", cluster.CodeWaitingForBudget)
	s.pass(time.Second)
	s.run()
	if s.slot("4").UpSince.IsZero() || s.SlotTasks(jobName, "1")[0].Desired.State.Wanted() {
		t.Error("slot 1 did not move once slot 4 was up")
	}
}

// answered gives the job n slots by its type, the first held of them held.
func (s *scene) answered(n, held int) {
	s.answer = reconcile.Answer{Known: true, Fresh: true}
	for i := range n {
		w := reconcile.WantedSlot{Key: cluster.SlotKey(fmt.Sprint(i + 1))}
		if i < held {
			w.Stall = &cluster.Stall{Source: "test", Code: "hold"}
		}
		s.answer.Slots = append(s.answer.Slots, w)
	}
}

func answeredScene(t *testing.T, n int) *scene {
	s := newScene(t, 3, func(spec *cluster.JobSpec) {
		spec.Type, spec.MaxUnavailable = "test", cluster.Amount{Percent: 25}
	})
	s.answered(n, 0)
	s.run()
	return s
}

func TestHeldSlotsCountOnNeitherSide(t *testing.T) {
	s := answeredScene(t, 8) // 25 % of 8 are 2, and of the 4 that are not held 1
	s.answered(8, 4)
	s.drainAll("5", "6", "7", "8")
	s.decide()
	s.want("stop 5")
	if got := s.message("6", cluster.CodeWaitingForBudget); !strings.Contains(got, "1 of 4 slots are not up and the job allows 1") {
		t.Errorf("says %q", got)
	}
	s.drainAll()
	s.decide()
	s.want("stop 1, stop 2, stop 3, stop 4") // in held slots drain passes at once
	s.run()
	if n := len(s.slotStalls("1")); n != 1 {
		t.Errorf("the held slot without a task has %d stalls, want 1", n)
	}
}

func TestHeldSlotSaysSoInItsRecord(t *testing.T) {
	s := answeredScene(t, 2)
	s.answered(2, 1)
	s.decide()
	if got := s.slot("1").Held; got != "hold" {
		t.Errorf("held %q, want hold", got)
	}
	s.answered(2, 0)
	s.decide()
	if got := s.slot("1").Held; got != "" {
		t.Errorf("held %q, want nothing", got)
	}
}

func TestDoneSlotsCountOnNeitherSide(t *testing.T) {
	s := newScene(t, 3, func(spec *cluster.JobSpec) {
		spec.Type, spec.Count, spec.MaxUnavailable = cluster.TypeBatch, 8, cluster.Amount{Percent: 25}
	})
	s.run()
	for _, k := range []cluster.SlotKey{"1", "2", "3", "4"} {
		s.observe(k, cluster.Complete)
	}
	s.run()
	s.drainAll()
	s.decide()
	s.want("stop 5")
}

func TestExcludedSlotsLeaveByTheBudget(t *testing.T) {
	s := answeredScene(t, 3)
	for i := range s.answer.Slots {
		w := &s.answer.Slots[i]
		w.Nodes = []cluster.NodeID{s.of(w.Key).Placement.Node}
		s.verdicts[w.Nodes[0]] = reconcile.Verdict{Refused: true, Evicts: true, Detail: "class == x"}
	}
	s.pass(5 * time.Second) // they have kept still for long enough
	left := 3
	for range 3 {
		s.decide()
		if got := s.stopped(); got != 1 {
			t.Fatalf("%d leave at a time, want 1", got)
		}
		s.act()
		left--
	}
	s.decide()
	s.want("")
	if len(s.last.Stalls) != 0 || left != 0 {
		t.Errorf("stalls %+v", s.last.Stalls)
	}
}

func TestAnExcludedTaskStaysUnlessTheRefusalEvictsAndTheJobMoves(t *testing.T) {
	for _, c := range []struct {
		evicts bool
		drift  cluster.OnDrift
		want   string
	}{{false, cluster.DriftMove, ""}, {true, cluster.DriftKeep, ""}, {true, cluster.DriftMove, "stop 1"}} {
		s := answeredScene(t, 1)
		s.version(func(spec *cluster.JobSpec) { spec.OnDrift = c.drift })
		node := s.of("1").Placement.Node
		s.answer.Slots[0].Nodes = []cluster.NodeID{node}
		s.verdicts[node] = reconcile.Verdict{Refused: true, Evicts: c.evicts}
		s.pass(5 * time.Second) // it has kept still for long enough
		s.decide()
		s.want(c.want)
		s.wantStall("1")
	}
}

func TestOrderOfCauses(t *testing.T) {
	s := upScene(t, 4, 4, nil) // each slot on its node
	s.version(env("2"))
	for key, wish := range map[cluster.SlotKey]func(*cluster.Task){
		"2": func(x *cluster.Task) {
			s.verdicts[x.Placement.Node] = reconcile.Verdict{Refused: true, Evicts: true, By: "constraint"}
		},
		"3": func(x *cluster.Task) { s.says[x.ID] = voluntary(x) },
		"4": func(x *cluster.Task) {
			n := s.Node(x.Placement.Node)
			n.Spec.Availability, n.Spec.DrainDeadline, n.Spec.DrainSince = cluster.Drain, time.Hour, s.now
			s.says[x.ID] = voluntary(x)
		},
	} {
		wish(s.of(key))
	}
	var order []cluster.SlotKey
	for range 4 {
		s.decide()
		for _, c := range s.last.Changes {
			if d, ok := c.(cluster.SetDesired); ok {
				_, key, _, _ := d.Task.Parts()
				order = append(order, key)
			}
		}
		s.act()
		s.decide()
		s.act()
		s.pass(time.Minute)
	}
	// Drain by deadline, drain without, drift, update. The moves of slots 2 to 4 bring them to version 2 as well: one move serves all causes.
	if want := []cluster.SlotKey{"4", "3", "2", "1"}; !slices.Equal(order, want) {
		t.Errorf("moved %v, want %v", order, want)
	}
}

func TestOldestFirst(t *testing.T) {
	s := upScene(t, 3, 3, nil)
	s.observe("1", cluster.Failed)
	s.pass(time.Minute)
	s.run() // the task of slot 1 is the youngest now
	s.drainAll()
	s.decide()
	s.want("stop 2")
}

func TestKeepBeatsVoluntaryAndForcedBeatsKeep(t *testing.T) {
	s := upScene(t, 3, 2, nil)
	x := s.of("1")
	s.says[x.ID] = saying{
		Transition: cluster.Transition{Task: x.ID, Strength: cluster.Keep, By: "p", Grace: -1},
		Stalls:     []cluster.Stall{{Source: "p", Code: "p.busy"}},
	}
	s.verdicts[x.Placement.Node] = reconcile.Verdict{Refused: true, Evicts: true}
	s.decide()
	s.wantStall("1", "p.busy")
	if !s.of("1").Desired.State.Wanted() {
		t.Fatal("a kept task left voluntarily")
	}
	s.says[x.ID] = saying{Transition: cluster.Transition{
		Task: x.ID, To: cluster.DesiredShutdown, Strength: cluster.Forced, By: "p", Reason: "now", Grace: 3 * time.Second,
	}}
	s.decide()
	if d := s.of("1").Desired; d.State != cluster.DesiredShutdown || d.By != "p" || d.Grace != 3*time.Second || d.Reason != "now" {
		t.Errorf("told %+v", d)
	}
}

// A task that waits goes where its slot may be filled now: a node joined that belongs to it.
func TestWaitingTaskFollowsTheNodesOfItsSlot(t *testing.T) {
	s := answeredScene(t, 0)
	limited := func(nodes ...cluster.NodeID) {
		s.answer.Slots = []reconcile.WantedSlot{{Key: "a", Nodes: nodes}}
	}
	limited("n1")
	s.decide()
	s.want("new a")
	limited("n1", "n2")
	s.decide()
	s.want("cancel a, new a")
	if got := s.of("a").Nodes; !slices.Equal(got, []cluster.NodeID{"n1", "n2"}) {
		t.Errorf("it waits for %v", got)
	}
	s.observe("a", cluster.Running)
	limited("n1", "n2", "n3")
	s.decide()
	s.want("") // what runs stays
}

// A slot whose task is forced to go as an update begins is one of those that are not up, from the first decision on.
func TestSlotForcedToLeaveAsAnUpdateBeginsCountsForIt(t *testing.T) {
	s := upScene(t, 3, 3, nil)
	id := s.of("1").ID
	s.says[id] = saying{Transition: cluster.Transition{Task: id, To: cluster.DesiredShutdown, Strength: cluster.Forced, By: "d", Grace: -1}}
	s.version(env("2"))
	for _, told := range []string{"stop 1", ""} { // deciding again changes nothing
		s.decide()
		s.want(told)
	}
}
