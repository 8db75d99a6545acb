package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// jobRow is a job as lists show it.
type jobRow struct {
	Name    string
	Type    string
	State   string
	Version uint64
	Wanted  int
	Up      int
	Done    int
	Failed  int
	Stalled bool
	Changed time.Time

	Update     cluster.Update
	UpdateStep string // "3 of 10 moved"; "": no update is under way
	Moved      int
	Total      int

	urgency int
}

// Ready is how many slots are as they should be.
func (r *jobRow) Ready() int { return r.Up + r.Done }

// jobUrgency orders the words for how jobs are: what needs a look comes first.
var jobUrgency = map[string]int{
	engine.JobStalled: 0, engine.JobFailed: 1, engine.JobPaused: 2, engine.JobUpdating: 3, engine.JobMoving: 4, engine.JobStarting: 5, engine.JobStopping: 6,
	engine.JobRunning: 7, engine.JobComplete: 8, engine.JobEmpty: 9, engine.JobStopped: 10,
}

// jobRows returns all jobs: what needs a look first, and by name.
func (b *board) jobRows() ([]*jobRow, error) {
	return b.jobs.get(b.revision(), func() ([]*jobRow, error) {
		var out []*jobRow
		s := b.view()
		stalled := stalledJobs(s)
		for j := range s.Jobs() {
			out = append(out, rowOf(s, j, stalled[j.Name]))
		}
		slices.SortStableFunc(out, func(a, b *jobRow) int { return cmp.Compare(a.urgency, b.urgency) })
		return out, nil
	})
}

// row returns one job of them, or nil.
func (b *board) row(name string) (*jobRow, error) {
	all, err := b.jobRows()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, nil
}

// stalledJobs returns the jobs of which something waits, other than for its turn; true: in turn too.
func stalledJobs(s *engine.State) map[string]stallKinds {
	out := map[string]stallKinds{}
	for stall := range s.Stalls() {
		job := stall.Subject.Job()
		if job == "" {
			continue
		}
		k := out[job]
		if stall.Code == cluster.CodeWaitingForTurn {
			k.turn = true
		} else {
			k.other = true
		}
		out[job] = k
	}
	return out
}

// stallKinds says what stalls a job has.
type stallKinds struct {
	turn  bool // it works its slots off in turn
	other bool
}

func rowOf(s *engine.State, j *cluster.Job, stalls stallKinds) *jobRow {
	n := s.SlotCounts(j.Name)
	r := &jobRow{
		Name: j.Name, Type: j.Control.Spec.Type, Version: j.Control.Version, Wanted: n.Wanted - unwantedOpen(s, j.Name), Up: n.Up, Done: n.Done, Failed: n.Failed,
		Stalled: stalls.other, Changed: j.Control.Changed.WallTime(), Update: j.Update,
	}
	counts := engine.JobCounts{Wanted: int64(r.Wanted), Up: int64(r.Up), Done: int64(r.Done), Failed: int64(r.Failed)}
	if stalls.turn {
		counts.Queued = max(0, counts.Wanted-counts.Up-counts.Done-pending(s, j.Name))
	}
	if j.Control.Stopped {
		for range s.UnsettledOf(j.Name) {
			counts.Left = 1
			break
		}
		counts.Left += counts.Up
	}
	r.State = engine.JobState(j, counts, stalls.other)
	if r.State == engine.JobUpdating || r.State == engine.JobPaused {
		r.Moved, r.Total = j.Update.Moved, j.Update.Total
	}
	r.urgency = jobUrgency[r.State]
	return r
}

// unwantedOpen returns how many of a job's open slots are not wanted: those that have neither a task nor a stall. Filters keep them from all of their nodes.
func unwantedOpen(s *engine.State, job string) int {
	unwanted := 0
	for key := range s.OpenSlots(job) {
		live := false
		for _, t := range s.SlotTasks(job, key) {
			live = live || !t.Dead()
		}
		if !live && len(s.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: job + "/" + string(key)})) == 0 {
			unwanted++
		}
	}
	return unwanted
}

// pending returns how many tasks of a job are wanted and not up.
func pending(s *engine.State, job string) int64 {
	n := int64(0)
	for t := range s.UnsettledOf(job) {
		if t.Desired.State.Wanted() && !t.Dead() {
			n++
		}
	}
	return n
}
