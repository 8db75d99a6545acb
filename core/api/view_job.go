package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// slotFacts are what is derived about a slot.
type slotFacts struct {
	slot    *cluster.Slot
	newest  *cluster.Task
	upTask  *cluster.Task // the newest that is up, or nil
	held    string        // why it starts nothing and keeps what is there; "" if it is not held
	up      bool
	live    bool // has a task that is not dead
	stale   bool
	failed  bool // done, by a task that did not end well
	stalls  []*apiv1.Stall
	running int
	leaving int
	lost    int // of leaving: on nodes that are down
}

// wanted reports whether the job wants a task in the slot. A slot that is limited to nodes all of which are refused is not wanted and says
// nothing; any other that has no task carries a stall.
func (f *slotFacts) wanted() bool {
	return !f.slot.Unwanted && (len(f.slot.Nodes) == 0 || f.live || f.slot.Done || len(f.stalls) > 0)
}

// queued reports whether the slot waits for its turn, if slots of its job do.
func (f *slotFacts) queued() bool {
	return f.wanted() && !f.slot.Done && !f.live && len(f.stalls) == 0
}

// waitsForTurn reports whether a stall says that a job works its slots off in turn, with which nothing is wrong.
func waitsForTurn(stall *apiv1.Stall) bool {
	return stall.GetCode() == string(cluster.CodeWaitingForTurn)
}

// slotFactsOf looks at one slot, its tasks and its stalls.
func slotFactsOf(s *engine.State, j *cluster.Job, slot *cluster.Slot, stalls []*apiv1.Stall) slotFacts {
	f := slotFacts{slot: slot, stalls: stalls, held: cmp.Or(slot.Held, heldBy(slot, stalls))}
	content := slot.SpecVersion
	for _, t := range s.SlotTasks(slot.Job, slot.Key) {
		f.newest = t
		n := s.Node(t.Placement.Node)
		f.live = f.live || !t.Dead()
		if t.Up(n) {
			f.up, f.upTask = true, t
		}
		if t.Observed.State == cluster.Running && t.ConditionOn(n).State == cluster.OK {
			f.running++
		}
		if t.Desired.State.Wanted() && !t.Dead() {
			content = t.SpecVersion
		}
		if !t.Desired.State.Wanted() && !t.Dead() {
			f.leaving++
			if t.ConditionOn(n).State == cluster.Lost {
				f.lost++
			}
		}
		for _, stall := range s.TaskStalls(t) {
			f.stalls = append(f.stalls, stallView(s, &stall))
		}
	}
	f.stale = content != j.Control.SpecVersion && !slot.Done
	f.failed = slot.Failed
	return f
}

// heldBy returns why a slot that is limited to nodes is held: none of these can be used or judged now. The slot's stall says so.
func heldBy(slot *cluster.Slot, stalls []*apiv1.Stall) string {
	if len(slot.Nodes) == 0 {
		return ""
	}
	for _, stall := range stalls {
		switch cluster.Code(stall.GetCode()) {
		case cluster.CodeNodePaused, cluster.CodeNodeDraining, cluster.CodeNodeSilent, cluster.CodeNodeDown, cluster.CodePluginPending:
			return stall.GetMessage()
		}
	}
	return ""
}

// slotStalls are the stalls of slots, by slot; also of slots that there will be.
type slotStalls map[string][]*apiv1.Stall

// slotStallsOf returns those of one job, "": of all jobs.
func slotStallsOf(s *engine.State, job string) slotStalls {
	out := make(slotStalls)
	for _, stall := range s.SlotStalls(job) {
		out[stall.Subject.ID] = append(out[stall.Subject.ID], stallView(s, stall))
	}
	return out
}

// jobView returns a job as people look at it, with its slots and versions if they are asked for. Of a job at rest it looks at the slots only if they are.
func jobView(s *engine.State, j *cluster.Job, stalls slotStalls, rest *engine.Rest, all bool) *apiv1.Job {
	c := &j.Control
	v := &apiv1.Job{
		Name: j.Name, Type: c.Spec.Type, Version: c.Version, SpecVersion: c.SpecVersion, Spec: wire.JobSpecToProto(&c.Spec),
		Created: timestamp(j.Created), Changed: timestamp(c.Changed), Stopped: c.Stopped, Counts: &apiv1.JobCounts{}, Update: updateView(&j.Update), Rebalance: rebalanceView(j),
	}
	for _, kind := range []cluster.SubjectKind{cluster.SubjectJob, cluster.SubjectUpdate} {
		for _, stall := range s.StallsOf(cluster.Subject{Kind: kind, ID: j.Name}) {
			v.Stalls = append(v.Stalls, stallView(s, stall))
		}
	}
	inTurn := slices.ContainsFunc(v.GetStalls(), waitsForTurn)
	stalled := false
	for _, stall := range v.GetStalls() {
		stalled = stalled || !waitsForTurn(stall)
	}
	if !all && rest.Of(j.Name) {
		v.Counts = countsAtRest(s, j)
	} else {
		for slot := range s.EachSlot(j.Name) {
			f := slotFactsOf(s, j, slot, stalls[slot.ID()])
			count(v.Counts, &f)
			addIf(&v.Counts.Queued, inTurn && f.queued())
			v.Stalls = append(v.Stalls, f.stalls...)
			stalled = stalled || len(f.stalls) > 0
			if all {
				v.Slots = append(v.Slots, slotView(s, &f))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(stalls)) {
			if job, key, _ := strings.Cut(id, "/"); job == j.Name && s.Slot(job, cluster.SlotKey(key)) == nil {
				v.Stalls, stalled = append(v.Stalls, stalls[id]...), true
			}
		}
	}
	eligible(v.Counts, s, j)
	v.State = engine.JobState(j, engine.JobCounts{
		Wanted: v.Counts.GetWanted(), Up: v.Counts.GetUp(), Done: v.Counts.GetDone(), Failed: v.Counts.GetFailed(), Queued: v.Counts.GetQueued(),
		Left: v.Counts.GetRunning() + v.Counts.GetStopping(),
	}, stalled)
	if all {
		v.Versions = versionViews(c.Versions)
	}
	return v
}

// count adds a slot to a job's counts.
func count(c *apiv1.JobCounts, f *slotFacts) {
	c.Running += int64(f.running)
	c.Stopping += int64(f.leaving)
	c.StoppingLost += int64(f.lost)
	if !f.wanted() {
		return
	}
	c.Wanted++
	addIf(&c.Eligible, len(f.slot.Nodes) > 0)
	addIf(&c.Up, f.up)
	addIf(&c.Done, f.slot.Done)
	addIf(&c.Failed, f.failed)
	addIf(&c.Held, f.held != "")
	addIf(&c.Stale, f.stale)
	addIf(&c.Stalled, len(f.stalls) > 0)
}

// countsAtRest are the counts of a job at rest: a slot that is up has one task, which runs, and no other task of the job is alive.
func countsAtRest(s *engine.State, j *cluster.Job) *apiv1.JobCounts {
	n := s.SlotCounts(j.Name)
	return &apiv1.JobCounts{
		Wanted: int64(n.Wanted), Up: int64(n.Up), Done: int64(n.Done), Failed: int64(n.Failed), Running: int64(n.Up), Eligible: int64(n.WantedLimited),
	}
}

// eligible says of how many the slots are that filters leave to a job whose slots are limited to nodes.
func eligible(c *apiv1.JobCounts, s *engine.State, j *cluster.Job) {
	n := s.SlotCounts(j.Name)
	c.EligibleOf = int64(n.Limited)
	c.Limited = n.Limited > 0 || j.Control.Spec.Type == cluster.TypeGlobal || j.Control.Spec.Type == cluster.TypeGlobalBatch
	if !c.GetLimited() || n.Pinned < n.Slots {
		return
	}
	c.EligibleOf = 0
	for n := range s.Nodes() {
		addIf(&c.EligibleOf, !n.Spec.Decommissioned)
	}
}

func addIf(n *int64, yes bool) {
	if yes {
		*n++
	}
}

func slotView(s *engine.State, f *slotFacts) *apiv1.Slot {
	v := &apiv1.Slot{
		Key: string(f.slot.Key), Ends: f.slot.Ends, Unwanted: f.slot.Unwanted, Held: f.held, Version: f.slot.Version, Up: f.up,
		Done: f.slot.Done, Failed: f.slot.Failed, NotUpSince: timestamp(f.slot.NotUpSince), NotUpWhy: string(f.slot.NotUpWhy), UpSince: timestamp(f.slot.UpSince),
		Restarts: int64(len(f.slot.Restarts)), Backoff: int64(f.slot.Backoff),
	}
	for _, id := range f.slot.Nodes {
		v.Nodes = append(v.Nodes, nodeName(s, id))
	}
	slices.Sort(v.GetNodes())
	if shown := cmp.Or(f.upTask, f.newest); shown != nil {
		v.Task = string(shown.ID)
	}
	if f.upTask != nil {
		v.Runs = f.upTask.JobVersion
	}
	return v
}

func updateView(u *cluster.Update) *apiv1.Update {
	if u.State == cluster.UpdateNone {
		return nil
	}
	return &apiv1.Update{
		State: string(u.State), From: u.From, To: u.To, Rollback: u.Rollback, Started: timestamp(u.Started), Since: timestamp(u.Since),
		Message: u.Message, Total: int64(u.Total), Moved: int64(u.Moved), Failures: int64(u.Failures), Waiting: int64(u.Waiting), NotUpdated: int64(u.NotUpdated),
	}
}

func rebalanceView(j *cluster.Job) *apiv1.Rebalance {
	if j.Control.Rebalances == 0 {
		return nil
	}
	return &apiv1.Rebalance{Active: j.Rebalancing(), Moved: int64(j.Rebalance.Moved), Since: timestamp(j.Rebalance.Since), Cancelled: j.Control.RebalancesEnded == j.Control.Rebalances}
}

func versionViews(versions []cluster.JobVersion) []*apiv1.JobVersion {
	out := make([]*apiv1.JobVersion, len(versions))
	for i := range versions {
		v := &versions[i]
		out[i] = &apiv1.JobVersion{
			Version: v.Version, SpecVersion: v.SpecVersion, Created: timestamp(v.Created), Reason: v.Reason, Spec: wire.JobSpecToProto(&v.Spec), By: v.By,
		}
	}
	return out
}
