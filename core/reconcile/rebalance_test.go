package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// lopsided returns a scene in which so many tasks of a job are up on n1, n2, …
func lopsided(t *testing.T, edit func(*cluster.JobSpec), counts ...int) *scene {
	total := 0
	for _, n := range counts {
		total += n
	}
	s := upScene(t, 1, total, edit)
	for i := range counts {
		s.node(i + 1)
	}
	key := 0
	for i, n := range counts {
		for range n {
			key++
			s.edit(s.of(cluster.SlotKey(fmt.Sprint(key))).ID).Placement.Node = s.node(i + 1).ID
		}
	}
	s.decide()
	s.want("")
	return s
}

func (s *scene) rebalance() { s.control(func(c *cluster.JobControl) { c.Rebalances++ }) }

// spreadOut returns how many of the job's tasks are up on each node.
func (s *scene) spreadOut() string {
	counts := make([]string, len(s.nodes))
	for i := range counts {
		n := 0
		for t := range s.TasksOn(s.node(i + 1).ID) {
			if t.Up(s.node(i + 1)) {
				n++
			}
		}
		counts[i] = fmt.Sprint(n)
	}
	return strings.Join(counts, "/")
}

func TestRebalance(t *testing.T) {
	for _, order := range []cluster.Order{cluster.StopFirst, cluster.StartFirst} {
		for _, c := range []struct {
			counts []int
			want   string
			moved  int
		}{
			{[]int{0, 5, 5, 6}, "4/4/4/4", 4},
			{[]int{8, 8, 0}, "5/5/6", 5},
			{[]int{3, 0}, "2/1", 1},
			{[]int{2, 1}, "2/1", 0},
			{[]int{4}, "4", 0},
		} {
			t.Run(fmt.Sprint(order, c.counts), func(t *testing.T) {
				s := lopsided(t, func(spec *cluster.JobSpec) {
					spec.MaxUnavailable, spec.Update.Order = cluster.Amount{Count: 2}, order
				}, c.counts...)
				s.decide()
				s.want("") // only when asked
				s.rebalance()
				s.run()
				r := s.job().Rebalance
				if r.Ask != 1 || !r.Ended || r.Moved != c.moved || s.job().Rebalancing() {
					t.Errorf("the rebalance is %+v, want it ended with %d moved", r, c.moved)
				}
				counts := strings.Split(s.spreadOut(), "/")
				want := strings.Split(c.want, "/")
				slices.Sort(counts)
				slices.Sort(want)
				if !slices.Equal(counts, want) {
					t.Errorf("tasks are %s, want %s in any order", s.spreadOut(), c.want)
				}
				if len(s.last.Stalls) > 0 {
					t.Errorf("stalls %+v", s.last.Stalls)
				}
			})
		}
	}
}

func TestRebalanceKeepsToTheBudget(t *testing.T) {
	s := lopsided(t, nil, 4, 0)
	s.rebalance()
	s.decide()
	s.want("stop 1")
	if v := s.slot("1"); v.MovedBy != "rebalance" || v.Claim != "n2" {
		t.Errorf("slot 1 is moved by %q with room on %q, want rebalance, n2", v.MovedBy, v.Claim)
	}
	text := "task j/2/101 is to move (rebalance: n2 is a better place now), but 1 of 4 slots are not up and the job allows 1"
	if got := s.message("2", cluster.CodeWaitingForBudget); got != text {
		t.Errorf("says %q, want %q", got, text)
	}
	if why := s.SlotTasks(jobName, "1")[0].Desired.Reason; why != "rebalance: n2 is a better place now" {
		t.Errorf("task 1 leaves since %q", why)
	}
	s.observe("1", cluster.Stopped)
	s.decide()
	s.want("new 1")
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 2")
	s.observe("2", cluster.Stopped)
	s.decide()
	s.observe("2", cluster.Running)
	s.decide()
	s.want("")
	if !s.job().Rebalance.Ended {
		t.Errorf("the rebalance goes on with %s", s.spreadOut())
	}
}

func TestRebalanceStartsFirst(t *testing.T) {
	s := lopsided(t, func(spec *cluster.JobSpec) { spec.Update.Order = cluster.StartFirst }, 3, 0)
	s.rebalance()
	s.decide()
	s.want("new 1")
	s.wantStall("1", cluster.CodeWaitingForReplacement)
	s.see(s.of("1").ID, cluster.Starting)
	s.decide()
	s.want("")
	s.observe("1", cluster.Running)
	s.decide()
	s.want("stop 1")
	if first := s.SlotTasks(jobName, "1")[0]; first.Desired.State.Wanted() || first.Placement.Node != "n1" {
		t.Errorf("the task on %s is wanted at %s", first.Placement.Node, first.Desired.State)
	}
	if v := s.slot("1"); v.Leaves != "" {
		t.Errorf("slot 1 still leaves %s", v.Leaves)
	}
}

func TestRebalanceEndsWhereNothingFits(t *testing.T) {
	s := lopsided(t, nil, 3, 0)
	s.space = map[cluster.SlotKey]string{"1": noRoom, "2": noRoom, "3": noRoom}
	s.rebalance()
	s.decide()
	s.want("")
	if r := s.job().Rebalance; !r.Ended || r.Moved != 0 {
		t.Errorf("the rebalance is %+v, want it ended with nothing moved", r)
	}
}

// An operator ends a rebalance: what has left comes up where it was to go, nothing more leaves, and a replacement that was to start first goes.
func TestARebalanceIsCancelled(t *testing.T) {
	for _, order := range []cluster.Order{cluster.StopFirst, cluster.StartFirst} {
		t.Run(string(order), func(t *testing.T) {
			s := lopsided(t, func(spec *cluster.JobSpec) { spec.Update.Order = order }, 6, 0)
			s.rebalance()
			s.decide()
			if s.last.Changes == nil {
				t.Fatal("nothing began to move")
			}
			s.control(func(c *cluster.JobControl) { c.RebalancesEnded = c.Rebalances })
			s.run()
			want := map[cluster.Order]string{cluster.StopFirst: "5/1", cluster.StartFirst: "6/0"}[order]
			if got := s.spreadOut(); got != want {
				t.Errorf("tasks are %s, want %s", got, want)
			}
			if r := s.job().Rebalance; r.Ask != 1 || !r.Ended || s.job().Rebalancing() {
				t.Errorf("the rebalance is %+v", r)
			}
			s.decide()
			s.want("")
			s.rebalance()
			s.run()
			if got := s.spreadOut(); got != "3/3" {
				t.Errorf("asked for again: tasks are %s, want 3/3", got)
			}
		})
	}
}

func TestARebalanceIsAskedForAgain(t *testing.T) {
	s := lopsided(t, nil, 2, 2)
	s.rebalance()
	s.run()
	s.node(3)
	s.decide()
	s.want("")
	s.rebalance()
	s.decide()
	s.want("stop 1")
	s.run()
	if got := s.spreadOut(); got != "1/2/1" {
		t.Errorf("tasks are %s, want 1/2/1", got)
	}
}

func TestAStoppedJobIsNotRebalanced(t *testing.T) {
	s := lopsided(t, nil, 3, 0)
	s.rebalance()
	s.control(func(c *cluster.JobControl) { c.Stopped, c.StopGrace = true, -1 })
	s.run()
	if len(s.last.Stalls) > 0 || s.job().Rebalance.Moved > 0 {
		t.Errorf("rebalance %+v, stalls %+v", s.job().Rebalance, s.last.Stalls)
	}
}
