package reconcile_test

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// drawScene draws a cluster in which anything may have happened to a job's slots and tasks, if it can happen at all.
func drawScene(t *testing.T, r *rapid.T) *scene {
	answered := rapid.Bool().Draw(r, "answered")
	s := newScene(t, rapid.IntRange(1, 4).Draw(r, "nodes"), func(spec *cluster.JobSpec) {
		spec.Count = rapid.IntRange(0, 5).Draw(r, "count")
		spec.Type = rapid.SampledFrom([]string{cluster.TypeReplicated, cluster.TypeBatch}).Draw(r, "type")
		if answered {
			spec.Type = "test"
		}
		spec.MaxUnavailable = cluster.Amount{Count: rapid.IntRange(1, 3).Draw(r, "unavailable")}
		spec.OnLost = rapid.SampledFrom([]cluster.OnLost{cluster.LostReplace, cluster.LostWait}).Draw(r, "on lost")
		spec.LostAfter = time.Duration(rapid.IntRange(0, 1).Draw(r, "lost after")) * time.Hour
		spec.OnDrift = rapid.SampledFrom([]cluster.OnDrift{cluster.DriftMove, cluster.DriftKeep}).Draw(r, "on drift")
		spec.Parallelism = rapid.IntRange(0, 2).Draw(r, "at a time")
		spec.HistoryLimit = rapid.IntRange(0, 2).Draw(r, "history")
		spec.Restart.Attempts = rapid.IntRange(0, 2).Draw(r, "attempts")
		spec.Restart.Condition = rapid.SampledFrom([]cluster.RestartCondition{cluster.RestartAny, cluster.RestartOnFailure, cluster.RestartNone}).Draw(r, "condition")
		spec.Update.Parallelism = rapid.IntRange(0, 2).Draw(r, "parallelism")
		spec.Update.Order = rapid.SampledFrom([]cluster.Order{cluster.StopFirst, cluster.StartFirst}).Draw(r, "order")
		spec.Update.OnFailure = rapid.SampledFrom([]cluster.OnFailure{cluster.FailureContinue, cluster.FailurePause}).Draw(r, "on failure")
	})
	s.job().CreatedRev = drawnJob
	for i := range rapid.IntRange(0, 2).Draw(r, "versions") {
		s.version(env(strconv.Itoa(i)))
	}
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[id]
		n.Status.State = rapid.SampledFrom([]cluster.NodeState{cluster.NodeReady, cluster.NodeReady, cluster.NodeSilent, cluster.NodeDown}).Draw(r, "state")
		n.Status.Since = drawTime(r, "since")
		n.Spec.Availability = rapid.SampledFrom([]cluster.Availability{cluster.Active, cluster.Active, cluster.Pause, cluster.Drain}).Draw(r, "availability")
		if n.Spec.Availability == cluster.Drain && rapid.Bool().Draw(r, "deadline") {
			n.Spec.DrainSince, n.Spec.DrainDeadline = drawTime(r, "drained"), time.Hour
		}
		s.verdicts[id] = rapid.SampledFrom([]reconcile.Verdict{{}, {}, {Pending: true}, {Refused: true}, {Refused: true, Evicts: true, By: "f"}}).Draw(r, "verdict")
	}
	for i := range rapid.IntRange(0, 4).Draw(r, "slots") {
		s.drawSlot(r, cluster.SlotKey(strconv.Itoa(i+1)))
	}
	if answered {
		s.drawAnswer(r)
	}
	s.drawUpdate(r)
	s.control(func(c *cluster.JobControl) { c.Rebalances = uint64(rapid.IntRange(0, 1).Draw(r, "rebalances")) })
	return s
}

func drawTime(r *rapid.T, label string) cluster.Time {
	return cluster.Time{}.Add(start - time.Duration(rapid.IntRange(1, 7200).Draw(r, label))*time.Second)
}

// drawnJob is the revision at which the drawn job was made. What was made before is of a removed job of the same name.
const drawnJob = 20

func (s *scene) drawSlot(r *rapid.T, key cluster.SlotKey) {
	j := s.job()
	version := uint64(rapid.IntRange(1, int(j.Control.Version)).Draw(r, "version"))
	v := &cluster.Slot{
		Job: jobName, Key: key, Created: cluster.Revision(rapid.SampledFrom([]int{0, drawnJob, drawnJob, drawnJob}).Draw(r, "created")), Ends: j.Control.Spec.Ends(),
		Version: version, SpecVersion: version, SpentFor: version, MovedIn: version,
		Unwanted: rapid.IntRange(0, 5).Draw(r, "unwanted") == 0, EverUp: rapid.Bool().Draw(r, "ever up"),
		MovedBy: rapid.SampledFrom([]string{"", "", "update", "monitor", "drain"}).Draw(r, "moved by"),
	}
	if rapid.Bool().Draw(r, "was up") {
		v.UpSince = drawTime(r, "up since")
	} else {
		v.NotUpSince, v.NotUpWhy = drawTime(r, "not up since"), cluster.NotUpFailed
	}
	s.slots[v.ID()] = v
	for i := range rapid.IntRange(0, 3).Draw(r, "tasks") {
		rev := cluster.Revision(i + 1)
		if v.Created == drawnJob && rapid.IntRange(0, 3).Draw(r, "former") > 0 {
			rev += drawnJob
		}
		s.drawTask(r, v, rev)
	}
}

func (s *scene) drawTask(r *rapid.T, v *cluster.Slot, rev cluster.Revision) {
	id := cluster.NewTaskID(jobName, v.Key, rev)
	version := uint64(rapid.IntRange(1, int(v.Version)).Draw(r, "task version")) // which its slot had when it was made
	t := &cluster.Task{
		ID: id, Job: jobName, Slot: v.Key, JobVersion: version, SpecVersion: version, CreatedRev: rev, Created: drawTime(r, "task created"),
		Condition: cluster.Condition{State: cluster.OK}, Desired: cluster.Desired{State: cluster.DesiredRunning, Grace: -1},
	}
	if v.Ends {
		t.Desired.State = cluster.DesiredComplete
	}
	if d := rapid.SampledFrom([]cluster.DesiredState{0, 0, 0, cluster.DesiredShutdown, cluster.DesiredRemove}).Draw(r, "desired"); d != 0 {
		t.Desired.State = d
	}
	if rapid.IntRange(0, 3).Draw(r, "placed") > 0 {
		t.Placement.Node = rapid.SampledFrom(slices.Sorted(maps.Keys(s.nodes))).Draw(r, "node")
		t.Observed = cluster.Observed{
			State:   cluster.ObservedState(rapid.SampledFrom([]int{0, 1, 3, 4, 4, 4, 4, 5, 6, 7, 8}).Draw(r, "observed")),
			Healthy: rapid.IntRange(0, 3).Draw(r, "healthy") > 0, At: drawTime(r, "at"),
		}
		if rapid.IntRange(0, 9).Draw(r, "gone") == 0 {
			t.Condition = cluster.Condition{State: cluster.Gone, Since: drawTime(r, "gone since")}
		}
		if s.Node(t.Placement.Node).Spec.Availability == cluster.Drain {
			strength := cluster.Strength(rapid.IntRange(0, 3).Draw(r, "says"))
			s.says[id] = saying{Transition: cluster.Transition{Task: id, To: cluster.DesiredShutdown, Strength: strength, By: "d", Grace: -1}}
		}
	}
	s.tasks[id] = t
}

func (s *scene) drawAnswer(r *rapid.T) {
	s.answer = reconcile.Answer{Known: rapid.IntRange(0, 5).Draw(r, "known") > 0, Fresh: rapid.Bool().Draw(r, "fresh")}
	if !s.answer.Known || rapid.IntRange(0, 5).Draw(r, "stalled") == 0 {
		s.answer.Stall = &cluster.Stall{Source: "p", Code: "p.no"}
	}
	if !s.answer.Known {
		return
	}
	for i := range 5 {
		w := reconcile.WantedSlot{Key: cluster.SlotKey(strconv.Itoa(i + 1)), Ends: s.job().Control.Spec.Ends()}
		switch rapid.IntRange(0, 4).Draw(r, "named") {
		case 0:
			continue
		case 1:
			w.Stall = &cluster.Stall{Source: "p", Code: "p.hold"}
		case 2:
			w.Nodes = []cluster.NodeID{rapid.SampledFrom(slices.Sorted(maps.Keys(s.nodes))).Draw(r, "limited to")}
		}
		s.answer.Slots = append(s.answer.Slots, w)
	}
}

func (s *scene) drawUpdate(r *rapid.T) {
	to := s.job().Control.Version
	states := []cluster.UpdateState{cluster.UpdateNone, cluster.Updating, cluster.UpdatePaused, cluster.UpdateCompleted, cluster.UpdateCancelled}
	j := *s.job()
	j.Update.State = rapid.SampledFrom(states).Draw(r, "update")
	if j.Update.State != cluster.UpdateNone {
		j.Update.To = uint64(rapid.IntRange(1, int(to)).Draw(r, "to"))
		j.Update.From = uint64(rapid.IntRange(1, int(to)).Draw(r, "from"))
		j.Update.Started, j.Update.Since, j.Update.LastUp = drawTime(r, "started"), drawTime(r, "update since"), drawTime(r, "last up")
	}
	s.jobs[jobName] = &j
}

// copyOf returns a deep copy of plain data.
func copyOf[T any](v T) T { return deepCopy(reflect.ValueOf(v)).Interface().(T) }

func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(deepCopy(v.Field(i)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(v.Type()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(k, deepCopy(v.MapIndex(k)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

type records struct {
	Jobs     map[string]*cluster.Job
	Slots    map[string]*cluster.Slot
	Tasks    map[cluster.TaskID]*cluster.Task
	Nodes    map[cluster.NodeID]*cluster.Node
	Answer   reconcile.Answer
	Says     map[cluster.TaskID]reconcile.Saying
	Verdicts map[cluster.NodeID]reconcile.Verdict
}

func (s *scene) records() records {
	return records{s.jobs, s.slots, s.tasks, s.nodes, s.answer, s.says, s.verdicts}
}

func TestDecidingIsAFunctionOfWhatIsSeen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		before := copyOf(s.records())
		one := reconcile.Job(s, jobName, s.now, 101)
		if diff := cmp.Diff(before, s.records()); diff != "" {
			r.Fatalf("deciding changed what it was given:\n%s", diff)
		}
		if diff := cmp.Diff(one, reconcile.Job(s, jobName, s.now, 101), result); diff != "" {
			r.Fatalf("deciding twice gave two results:\n%s", diff)
		}
	})
}

// backwards is a scene that yields what has no order in another one.
type backwards struct{ *scene }

func (b backwards) TasksOf(job string) iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		all := slices.Collect(b.scene.TasksOf(job))
		slices.Reverse(all)
		for _, t := range all {
			if !yield(t) {
				return
			}
		}
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		one := reconcile.Job(s, jobName, s.now, 101)
		slices.Reverse(s.answer.Slots)
		two := reconcile.Job(backwards{s}, jobName, s.now, 101)
		texts := func(x reconcile.Result) []string {
			var out []string
			for _, c := range x.Changes {
				out = append(out, text(c))
			}
			for _, st := range x.Stalls {
				out = append(out, fmt.Sprintf("%+v", st))
			}
			slices.Sort(out)
			return out
		}
		if diff := cmp.Diff(texts(one), texts(two)); diff != "" {
			r.Fatalf("another order gave another result:\n%s", diff)
		}
	})
}

func text(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.AddTask:
		return fmt.Sprintf("AddTask %+v", *c.Task)
	case cluster.PutSlot:
		return fmt.Sprintf("PutSlot %+v", *c.Slot)
	}
	return fmt.Sprintf("%T %+v", c, c)
}

func TestDecidingAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		first := s.decide()
		said := s.said()
		second := s.decide()
		if len(second.Changes) > 0 {
			var did []string
			for _, c := range first.Changes {
				did = append(did, text(c))
			}
			r.Fatalf("after\n%v\nit goes on with\n%s", did, text(second.Changes[0]))
		}
		if first.Rollback != 0 && second.Rollback != 0 {
			r.Fatal("it rolls back twice")
		}
		if diff := cmp.Diff(said, s.said()); diff != "" {
			r.Fatalf("it says something else the second time:\n%s", diff)
		}
	})
}

// said returns the stalls of the last decision, sorted.
func (s *scene) said() []string {
	var out []string
	for _, st := range s.last.Stalls {
		out = append(out, fmt.Sprintf("%+v", st))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mayRun returns the tasks of a slot beside which nothing may start: not dead, and not lost and replaceable.
func (s *scene) mayRun(key cluster.SlotKey) []*cluster.Task {
	var out []*cluster.Task
	spec := &s.job().Control.Spec
	for _, t := range s.SlotTasks(jobName, key) {
		n := s.Node(t.Placement.Node)
		open := n != nil && t.ConditionOn(n).State == cluster.Lost && spec.OnLost != cluster.LostWait && s.now.Sub(n.Status.Since) >= spec.LostAfter
		if !t.Dead() && !open {
			out = append(out, t)
		}
	}
	return out
}

func TestOneAtATime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		made := map[cluster.SlotKey]int{}
		for _, c := range s.decide().Changes {
			add, ok := c.(cluster.AddTask)
			if !ok {
				continue
			}
			key := add.Task.Slot
			if made[key]++; made[key] > 1 {
				r.Fatalf("slot %s gets %d tasks at a time", key, made[key])
			}
			others := slices.DeleteFunc(s.mayRun(key), func(x *cluster.Task) bool { return x.ID == add.Task.ID })
			switch {
			case len(others) == 0:
			case len(others) == 1 && s.job().Control.Spec.Update.Order == cluster.StartFirst && others[0].Up(s.Node(others[0].Placement.Node)):
			default:
				r.Fatalf("slot %s gets a task beside %d others, the first %+v", key, len(others), others[0])
			}
		}
	})
}

func TestVoluntaryMovesKeepToTheBudget(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		s.job().Update = cluster.Update{}
		for _, v := range s.slots {
			v.SpecVersion = s.job().Control.SpecVersion
		}
		for _, x := range s.tasks {
			x.SpecVersion = s.job().Control.SpecVersion
		}
		up := func(key cluster.SlotKey) bool {
			return slices.ContainsFunc(s.SlotTasks(jobName, key), func(x *cluster.Task) bool {
				return x.CreatedRev >= s.job().CreatedRev && x.Up(s.Node(x.Placement.Node))
			})
		}
		before := map[cluster.SlotKey]bool{}
		for _, v := range s.Slots(jobName) {
			before[v.Key] = up(v.Key)
		}
		forced := map[cluster.SlotKey]bool{}
		for id, say := range s.says {
			if _, key, _, _ := id.Parts(); say.Transition.Strength == cluster.Forced {
				forced[key] = true
			}
		}
		for _, x := range s.tasks {
			if n := s.Node(x.Placement.Node); n != nil && n.Spec.DrainDeadline > 0 && s.now.Sub(n.Spec.DrainSince) >= n.Spec.DrainDeadline {
				forced[x.Slot] = true
			}
		}
		s.decide()
		moved, notUp, wanted := 0, 0, 0
		for _, v := range s.Slots(jobName) {
			if v.Unwanted || v.Done || s.heldOrExcluded(v) || s.inTurn(v) {
				continue
			}
			wanted++
			switch {
			case !before[v.Key]:
				notUp++
			case !up(v.Key) && !forced[v.Key]:
				moved++
			}
		}
		limit := s.job().Control.Spec.MaxUnavailable.Of(wanted)
		if moved > 0 && moved+notUp > limit {
			r.Fatalf("%d slots were moved, %d were not up before, and %d are allowed", moved, notUp, limit)
		}
	})
}

// inTurn reports whether the slot waits until fewer slots of the job have a task.
func (s *scene) inTurn(v *cluster.Slot) bool {
	return v.Ends && len(s.stalls(cluster.SubjectJob, jobName)) > 0 && !slices.ContainsFunc(s.SlotTasks(jobName, v.Key), func(x *cluster.Task) bool {
		return !x.Dead()
	}) && len(s.slotStalls(v.Key)) == 0
}

// heldOrExcluded reports whether the job's type or the slot's nodes keep it out of the budget.
func (s *scene) heldOrExcluded(v *cluster.Slot) bool {
	if s.job().Control.Spec.Numbered() {
		return false
	}
	i := slices.IndexFunc(s.answer.Slots, func(w reconcile.WantedSlot) bool { return w.Key == v.Key })
	if i < 0 || s.answer.Stall != nil {
		return true
	}
	w := s.answer.Slots[i]
	usable := func(id cluster.NodeID) bool { return s.Node(id).Usable() && s.verdicts[id] == reconcile.Verdict{} }
	return w.Stall != nil || len(w.Nodes) > 0 && !slices.ContainsFunc(w.Nodes, usable)
}

func TestEverythingComesUpInPeace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawScene(t, r)
		s.decide()
		s.act()
		for _, n := range s.nodes {
			n.Status.State, n.Spec.Availability = cluster.NodeReady, cluster.Active
		}
		clear(s.says)
		clear(s.verdicts)
		if !s.job().Control.Spec.Numbered() {
			s.answered(rapid.IntRange(0, 5).Draw(r, "answered in peace"), 0)
		}
		s.version(func(spec *cluster.JobSpec) {
			spec.Restart.Condition, spec.Restart.Attempts, spec.Parallelism = cluster.RestartAny, 0, 0
			spec.Task.Env = map[string]string{"V": "peace"}
		})
		for range 12 {
			s.run()
			s.pass(time.Minute)
		}
		s.run()
		for _, v := range s.Slots(jobName) {
			live := s.mayRun(v.Key)
			if v.Done && len(live) <= 1 {
				continue
			}
			if len(live) == 0 {
				r.Fatalf("slot %+v has no live task", v)
			}
			if len(live) != 1 || !live[0].Up(s.Node(live[0].Placement.Node)) || live[0].SpecVersion != s.job().Control.SpecVersion {
				r.Fatalf("slot %+v has %d live tasks: %+v, stalls %+v, update %+v", v, len(live), *live[0], s.last.Stalls, s.update())
			}
		}
		if u := s.update(); u.State == cluster.Updating || u.State == cluster.UpdatePaused {
			r.Fatalf("the update does not end: %+v", u)
		}
		if len(s.last.Stalls) > 0 || s.last.Wake != 0 {
			r.Fatalf("stalls %+v, wakes in %s", s.last.Stalls, s.last.Wake)
		}
	})
}
