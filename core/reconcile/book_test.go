package reconcile_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// notes are what a scene keeps between decisions: the job's book, and how all looked that its slots depend on when it was last decided.
type notes struct {
	book  *reconcile.Book
	shown *reconcile.Book // what a decision is given
	job   string
	slots map[cluster.SlotKey]string
	said  []cluster.Stall // what stands of all that was said
}

// result leaves out what a decision says for the book alone.
var result = cmpopts.IgnoreUnexported(reconcile.Result{})

func (s *scene) Book(string) *reconcile.Book { return s.notes.shown }

// decideBoth decides with what was kept since the last decision, and from nothing, which has to come out the same. So every test of a decision is one of what is
// left out of it as well.
func (s *scene) decideBoth() reconcile.Result {
	s.t.Helper()
	n := &s.notes
	job, slots := s.lookOfJob(), s.lookOfSlots()
	if n.job != job {
		n.book = nil
	}
	if n.book != nil {
		for _, key := range slices.Sorted(maps.Keys(slots)) {
			if slots[key] != n.slots[key] {
				n.book.Wake(key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(n.slots)) {
			if slots[key] == "" {
				n.book.Wake(key)
			}
		}
	}
	n.job, n.slots = job, slots
	n.shown = nil
	want := reconcile.Job(s, jobName, s.now, s.rev)
	n.shown = n.book
	got := reconcile.Job(s, jobName, s.now, s.rev)
	n.shown = nil
	n.stands(&got)
	bySubject := cmpopts.SortSlices(func(a, b cluster.Stall) bool { return a.Key() < b.Key() })
	if diff := cmp.Diff(want, got, result, bySubject); diff != "" {
		s.t.Errorf("looking at slots that are awake alone decides otherwise (-all +awake):\n%s", diff)
	}
	n.book = n.book.Next(&got)
	return got
}

// stands adds to what was decided what was said before of slots that were not looked at.
func (n *notes) stands(r *reconcile.Result) {
	keys, all := r.Looked()
	for _, s := range n.said {
		if s.Subject.Kind == cluster.SubjectSlot && !all && !slices.Contains(keys, cluster.SlotKey(strings.TrimPrefix(s.Subject.ID, jobName+"/"))) {
			r.Stalls = append(r.Stalls, s)
		}
	}
	n.said = slices.Clone(r.Stalls)
}

func (s *scene) lookOfJob() string {
	if j := s.job(); j != nil {
		return fmt.Sprintf("%v %+v", j.CreatedRev, j.Control)
	}
	return ""
}

// lookOfSlots tells for each slot, and for each that is named, how all looks that it depends on.
func (s *scene) lookOfSlots() map[cluster.SlotKey]string {
	out := map[cluster.SlotKey]string{}
	node := func(b *strings.Builder, id cluster.NodeID) {
		fmt.Fprintf(b, "%+v %+v\n", s.nodes[id], s.verdicts[id])
	}
	look := func(key cluster.SlotKey) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %+v\n", key, s.Slot(jobName, key))
		for _, t := range s.SlotTasks(jobName, key) {
			fmt.Fprintf(&b, "%+v %+v\n", t, s.says[t.ID])
			node(&b, t.Placement.Node)
		}
		for _, w := range s.answer.Slots {
			if w.Key != key {
				continue
			}
			fmt.Fprintf(&b, "%+v %+v\n", w, w.Stall)
			for _, id := range w.Nodes {
				node(&b, id)
			}
		}
		out[key] = b.String()
	}
	for _, v := range s.slots {
		if v.Job == jobName {
			look(v.Key)
		}
	}
	for _, w := range s.answer.Slots {
		look(w.Key)
	}
	for t := range s.TasksOf(jobName) {
		look(t.Slot)
	}
	return out
}

// TestAwakeIsEnough has a job live through whatever may happen to it, one thing or a few at a time. decideBoth holds that what is at rest makes no difference.
func TestAwakeIsEnough(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		answered := rapid.Bool().Draw(r, "answered")
		s := newScene(t, 5, func(spec *cluster.JobSpec) {
			spec.Count = rapid.IntRange(1, 9).Draw(r, "count")
			spec.Type = rapid.SampledFrom([]string{cluster.TypeReplicated, cluster.TypeReplicated, cluster.TypeBatch}).Draw(r, "type")
			if answered {
				spec.Type = rapid.SampledFrom([]string{"test", cluster.TypeGlobalBatch}).Draw(r, "answered type")
			}
			if spec.Ends() {
				spec.Parallelism = rapid.IntRange(0, 3).Draw(r, "at a time")
				spec.Restart.Attempts = rapid.IntRange(0, 2).Draw(r, "attempts")
				spec.Restart.Window = time.Duration(rapid.IntRange(0, 1).Draw(r, "window")) * time.Minute
			}
			spec.MaxUnavailable = cluster.Amount{Count: rapid.IntRange(1, 4).Draw(r, "unavailable")}
			spec.HistoryLimit = rapid.IntRange(0, 2).Draw(r, "history")
			spec.OnLost = rapid.SampledFrom([]cluster.OnLost{cluster.LostReplace, cluster.LostWait}).Draw(r, "on lost")
			spec.LostAfter = time.Duration(rapid.IntRange(0, 1).Draw(r, "lost after")) * time.Minute
			spec.Restart.Condition = rapid.SampledFrom([]cluster.RestartCondition{cluster.RestartAny, cluster.RestartAny, cluster.RestartNone}).Draw(r, "condition")
			spec.Update.Parallelism = rapid.IntRange(0, 3).Draw(r, "parallelism")
			spec.Update.Order = rapid.SampledFrom([]cluster.Order{cluster.StopFirst, cluster.StartFirst}).Draw(r, "order")
			spec.Update.OnFailure = rapid.SampledFrom([]cluster.OnFailure{cluster.FailureContinue, cluster.FailurePause, cluster.FailureRollback}).Draw(r, "on failure")
			spec.Update.ProgressDeadline = time.Duration(rapid.IntRange(0, 1).Draw(r, "deadline")) * time.Minute
		})
		if answered {
			s.drawAnswer(r)
			s.answer.Known, s.answer.Stall = true, nil
		}
		s.run()
		first := s.job().Control.Spec
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			s.happens(r, answered, first)
			s.decide()
			if rapid.IntRange(0, 3).Draw(r, "settles") == 0 {
				s.run()
			}
		}
	})
}

// happens changes one thing that decisions depend on. A job that was removed is made again as it was at first.
func (s *scene) happens(r *rapid.T, answered bool, first cluster.JobSpec) {
	if s.job() == nil && rapid.Bool().Draw(r, "again") {
		s.again(func(spec *cluster.JobSpec) { *spec = first })
	}
	n := s.node(rapid.IntRange(1, 5).Draw(r, "node"))
	event := rapid.IntRange(0, 13).Draw(r, "event")
	if s.job() == nil && slices.Contains([]int{3, 4, 10, 11, 12, 13}, event) {
		return // there is nothing of which that could be asked
	}
	switch event {
	case 0:
		*n = *copyOf(n)
		n.Status.State = rapid.SampledFrom([]cluster.NodeState{cluster.NodeReady, cluster.NodeSilent, cluster.NodeDown}).Draw(r, "state")
		n.Status.Since = s.now
	case 1:
		n.Spec.Availability = rapid.SampledFrom([]cluster.Availability{cluster.Active, cluster.Pause, cluster.Drain}).Draw(r, "availability")
	case 2:
		s.verdicts[n.ID] = rapid.SampledFrom([]reconcile.Verdict{{}, {Pending: true}, {Refused: true}, {Refused: true, Evicts: true, By: "f"}}).Draw(r, "verdict")
	case 3:
		s.version(env(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "version")))
	case 4:
		if answered {
			s.answer.Slots = nil
			s.drawAnswer(r)
		} else {
			s.version(func(spec *cluster.JobSpec) { spec.Count = rapid.IntRange(0, 9).Draw(r, "count") })
		}
	case 5, 6, 7:
		ids := slices.Sorted(maps.Keys(s.tasks))
		if len(ids) == 0 {
			return
		}
		id := rapid.SampledFrom(ids).Draw(r, "task")
		if t := s.tasks[id]; t.Placed() && !t.Dead() {
			s.see(id, rapid.SampledFrom([]cluster.ObservedState{cluster.Running, cluster.Running, cluster.Failed, cluster.Complete}).Draw(r, "observed"))
		}
	case 8:
		s.pass(time.Duration(rapid.IntRange(1, 100).Draw(r, "seconds")) * time.Second)
	case 9:
		s.act()
	case 10:
		s.control(func(c *cluster.JobControl) { c.Stopped, c.StopGrace = !c.Stopped, -1 })
	case 11:
		s.remove()
	case 12:
		s.control(func(c *cluster.JobControl) { c.Rebalances++ })
	case 13:
		s.control(func(c *cluster.JobControl) { c.RebalancesEnded = c.Rebalances })
	}
}
