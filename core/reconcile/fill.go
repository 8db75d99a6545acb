package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// finish marks a slot that needs no task any more. Such a slot holds no place of an update.
func (d *decision) finish(s *slot) {
	if s.status == unwanted {
		return
	}
	if !s.Done && d.done(s) {
		s.Done = true
		if last := lastEnded(s); last != nil && last.Observed.State != cluster.Complete {
			s.Failed = !slices.ContainsFunc(s.tasks, func(t *task) bool { return d.completes(s, t) })
		}
	}
	if s.Done {
		s.MovedBy = ""
	}
}

// done reports whether a slot's task completed, or ended by itself in a way after which the job wants no other.
func (d *decision) done(s *slot) bool {
	if s.Ends && slices.ContainsFunc(s.tasks, func(t *task) bool { return d.completes(s, t) }) {
		return true
	}
	last := lastEnded(s)
	if s.status != wanted || last == nil || last.SpecVersion != s.SpecVersion || s.Fresh || slices.ContainsFunc(s.tasks, func(t *task) bool { return !t.dead && !t.open }) {
		return false
	}
	return d.spec.Restart.Condition == cluster.RestartNone || d.spec.Restart.Condition == cluster.RestartOnFailure && last.Observed.State == cluster.Complete
}

// fill keeps the books of a slot's being up, and gives a wanted slot that has no task one, by the rules of loss and restart.
func (d *decision) fill(s *slot, u *cluster.Update) {
	if s.Slot == nil {
		return
	}
	last := lastEnded(s)
	stood := upFor(s, last)
	d.keepBooks(s, u)
	d.keepClaim(s)
	s.keepLeaves()
	if s.status == held && s.why != nil && s.was != nil && !s.Done && (!s.hasPlaced() || d.stale(s)) {
		d.stallSlot(s.ID(), *s.why)
	}
	if s.status != wanted || s.Done || s.later || s.made != "" || s.hasLive() || d.queue(s) {
		return
	}
	for _, t := range s.tasks {
		switch {
		case t.stopping() && t.lost:
			d.waitForLost(s, t)
			return
		case t.stopping():
			d.waitForStop(s, t)
			return
		case t.lost && !t.open:
			d.waitForLost(s, t)
			return
		}
	}
	if last == nil {
		why := d.whyNew(s)
		d.giveUpUnseen(s)
		d.create(s, why, nil)
		return
	}
	d.restart(s, last, stood)
}

// keepClaim gives room back that was kept for the slot's next task, once that has a node or the room can be of no use.
func (d *decision) keepClaim(s *slot) {
	if s.Claim == "" {
		return
	}
	if n := d.Node(s.Claim); s.status != wanted || s.up || s.hasPlaced() || n == nil || !n.Usable() {
		s.Claim = ""
	}
}

func (d *decision) waitForStop(s *slot, t *task) {
	d.stallSlot(s.ID(), cluster.Stall{
		Code: cluster.CodeWaitingForStop, Message: fmt.Sprintf("task %s was told to stop and has not been seen to stop", t.ID),
		Clears: "its agent reports the stop, or its node is declared gone",
	})
}

// giveUpUnseen tells lost tasks that no agent ever spoke of to stop, since there is nothing of them to be kept: they must not start beside their successor
// when their node returns.
func (d *decision) giveUpUnseen(s *slot) {
	for _, t := range s.tasks {
		if t.lost && t.Observed.State == cluster.ObservedNone && t.Desired.State.Wanted() {
			d.tell(t, cluster.DesiredShutdown, "its node went down before it started", -1)
		}
	}
}

// waitForLost says why a slot whose task is lost does not get another one.
func (d *decision) waitForLost(s *slot, t *task) {
	who, clears := "the job waits before it replaces it", "the node comes back, or is declared gone"
	switch {
	case d.spec.OnLost == cluster.LostWait:
	case d.now.Sub(t.node.Status.Since) >= d.spec.LostAfter:
		who, clears = "nodes that went down are replaced one after another", "the node comes back, or it is its turn"
	default:
		clears = fmt.Sprintf("the node comes back, or has been down for %s", d.spec.LostAfter)
	}
	d.stallSlot(s.ID(), cluster.Stall{
		Code: cluster.CodeNodeDown, Message: fmt.Sprintf("task %s is lost with node %s, and %s", t.ID, t.node.Spec.Name, who), Clears: clears,
	})
}

// whyNew says for what a task is made that follows no other, or one that was told to go or is lost.
func (d *decision) whyNew(s *slot) string {
	for _, t := range s.tasks {
		if t.lost {
			return "its predecessor is lost with its node"
		}
	}
	if t := newest(s); t != nil {
		switch {
		case t.Condition.State == cluster.Gone:
			return "its predecessor is gone with its node"
		case t.Desired.Reason != "":
			return t.Desired.Reason
		}
	}
	return "new slot"
}

// lastEnded returns the task by whose end the slot lacks one, if it ended by itself while it was wanted; nil if it was told to go, was lost or is gone, or
// was stopped by its agent, which happens when that is told to end with its tasks.
func lastEnded(s *slot) *task {
	last := lastGone(s)
	if last == nil || !last.Observed.State.Terminal() || !last.Desired.State.Wanted() || last.told || last.Observed.Unknown || last.Observed.State == cluster.Stopped {
		return nil
	}
	return last
}

// lastGone returns the task by whose end the slot lacks one, however it ended.
func lastGone(s *slot) *task {
	var last *task
	for _, t := range s.tasks {
		if (t.dead || t.lost) && !t.cut && (last == nil || !endOf(t).Before(endOf(last))) {
			last = t
		}
	}
	return last
}

// endOf returns since when a task that is dead or lost is not what its slot needs: the first moment at which it was told to go, ended, was lost or was declared
// gone. One that was told to go while another was up, or was lost before another was made, and stops only after that one has failed, is not the one by whose end
// the slot lacks a task.
func endOf(t *task) cluster.Time {
	var first cluster.Time
	at := func(is bool, since cluster.Time) {
		if is && (first.IsZero() || since.Before(first)) {
			first = since
		}
	}
	at(!t.Desired.State.Wanted(), t.Desired.Since)
	at(t.Observed.State.Terminal(), t.Observed.At)
	if t.node != nil {
		at(t.node.Status.State == cluster.NodeDown, t.node.Status.Since)
	}
	at(t.Condition.State == cluster.Gone, t.Condition.Since)
	return first
}

// restart makes a task after one that ended by itself.
func (d *decision) restart(s *slot, last *task, upFor time.Duration) {
	if last.SpecVersion != s.SpecVersion || s.Fresh { // the first task of another version is no restart
		d.create(s, d.whyNew(s), nil)
		return
	}
	d.forgive(s, upFor)
	if s.Ends && !d.attemptLeft(s) { // what is to end is not tried for ever
		s.Done, s.Failed, s.MovedBy = true, true, ""
		if d.queued > 0 {
			d.wakeIn(1) // it was its turn: the next one's now
		}
		return
	}
	d.retry(s, last)
}

// forgive forgets what was spent on restarts of another version, those outside the window, and the back-off once the slot was up for long enough.
func (d *decision) forgive(s *slot, upFor time.Duration) {
	r := &d.spec.Restart
	if s.SpentFor != s.SpecVersion {
		s.Restarts, s.Backoff, s.SpentFor = nil, 0, s.SpecVersion
	}
	if upFor >= max(r.MaxDelay, r.Delay) && upFor > 0 {
		s.Backoff = 0
	}
	for r.Window > 0 && len(s.Restarts) > 0 && d.now.Sub(s.Restarts[0]) >= r.Window {
		s.Restarts = s.Restarts[1:]
	}
}

// retry makes a task after one that ended by itself, once its delay is over and if an attempt is left.
func (d *decision) retry(s *slot, last *task) {
	r := &d.spec.Restart
	ended := last.Observed
	if !d.attemptLeft(s) {
		d.sayUsedUp(s, last)
		return
	}
	due := r.Backoff(s.Backoff) - d.now.Sub(ended.At)
	if due > 0 {
		d.wakeIn(due)
		d.stallSlot(s.ID(), cluster.Stall{
			Code:    cluster.CodeRestartDelay,
			Message: fmt.Sprintf("task %s %s%s; the next one starts after a delay of %s", last.ID, ended.State, because(ended.Err), r.Backoff(s.Backoff)),
			Clears:  "the delay ends",
		})
		return
	}
	s.Restarts = append(s.Restarts[:len(s.Restarts):len(s.Restarts)], d.now)
	if r.Attempts == 0 {
		s.Restarts = nil
	}
	s.Backoff++
	d.create(s, fmt.Sprintf("restart after %s %s", last.ID, ended.State), last)
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return " (" + err + ")"
}

// delayed reports whether the slot's next task waits for the delay after one that ended by itself.
func (d *decision) delayed(s *slot) bool {
	last := lastEnded(s)
	if last == nil || last.SpecVersion != s.SpecVersion || s.Fresh {
		return false
	}
	d.forgive(s, upFor(s, last))
	return d.spec.Restart.Backoff(s.Backoff) > d.now.Sub(last.Observed.At)
}

// upFor returns how long the slot was up when the last of its tasks ended.
func upFor(s *slot, last *task) time.Duration {
	if last == nil || s.UpSince.IsZero() {
		return 0
	}
	return last.Observed.At.Sub(s.UpSince)
}

// attemptLeft reports whether one more restart is allowed.
func (d *decision) attemptLeft(s *slot) bool {
	return d.spec.Restart.Attempts == 0 || len(s.Restarts) < d.spec.Restart.Attempts
}

func (d *decision) sayUsedUp(s *slot, last *task) {
	r := &d.spec.Restart
	clears := "a new version of the job, or job restart"
	within := ""
	if r.Window > 0 {
		left := r.Window - d.now.Sub(s.Restarts[0])
		d.wakeIn(left)
		clears = fmt.Sprintf("the oldest restart leaves the window of %s at %s; or %s", r.Window, clockTime(d.now, left), clears)
		within = fmt.Sprintf(" in %s", r.Window)
	}
	d.stallSlot(s.ID(), cluster.Stall{
		Code: cluster.CodeRestartBudgetUsed, Clears: clears,
		Message: fmt.Sprintf("restart budget used, %d%s; task %s %s%s", len(s.Restarts), within, last.ID, last.Observed.State, because(last.Observed.Err)),
	})
}

// clockTime tells people when a time from now on is over, with the day if that is not at hand.
func clockTime(now cluster.Time, left time.Duration) string {
	layout := time.TimeOnly
	if left > 12*time.Hour {
		layout = time.DateTime
	}
	return now.Add(left).WallTime().Round(time.Second).Format(layout) + " UTC"
}

// create makes a task in the slot. A task that failed by itself keeps its successor off its node if another can run it.
func (d *decision) create(s *slot, why string, after *task) {
	if t := newest(s); t != nil && t.CreatedRev == d.rev {
		d.wakeIn(1) // the id is taken: the next turn makes it
		return
	}
	if len(d.Changes) >= maxChanges {
		d.wakeIn(1) // the next turn goes on
		if s.was == nil {
			s.Slot = nil // the slot is made together with its task
		}
		return
	}
	c := &d.job.Control
	if s.SpecVersion == c.SpecVersion {
		s.Version = c.Version
	}
	v := d.job.VersionOf(s.Version)
	if v == nil { // history lost it: the newest is all there is to run
		d.take(s)
		v = d.job.VersionOf(s.Version)
	}
	want := cluster.DesiredRunning
	if s.Ends {
		want = cluster.DesiredComplete
	}
	t := &cluster.Task{
		ID: cluster.NewTaskID(s.Job, s.Key, d.rev), Job: s.Job, Slot: s.Key, JobVersion: s.Version, SpecVersion: s.SpecVersion,
		Created: d.now, CreatedRev: d.rev, Why: why, Nodes: s.Nodes,
		Reserve: cluster.Reserve{
			Resources: v.Spec.Task.Resources, Ports: v.Spec.Task.Ports, Addresses: v.Spec.Task.Addresses, MaxPerNode: v.Spec.MaxPerNode,
		},
		Desired:   cluster.Desired{State: want, By: cluster.SourceCore, Since: d.now, Grace: -1},
		Condition: cluster.Condition{State: cluster.OK},
	}
	if after != nil && after.Observed.State != cluster.Running && after.Observed.State != cluster.Complete {
		t.Avoid = after.Placement.Node
		s.AvoidNode = after.Placement.Node
	}
	s.made, s.Fresh = t.ID, false
	d.add(cluster.AddTask{Task: t})
}

// keepBooks records since when the slot is up or not, and what that means for its move.
func (d *decision) keepBooks(s *slot, u *cluster.Update) {
	if s.status == unwanted {
		s.UpSince = cluster.Time{} // its tasks are told to stop; of a job that is stopped it stays, and is not up
		return
	}
	if s.up {
		if s.UpSince.IsZero() {
			s.UpSince = d.now
			u.LastUp = d.lastUp(u)
		}
		s.NotUpSince, s.NotUpWhy = cluster.Time{}, ""
		if s.keep.SpecVersion != s.SpecVersion {
			return // a start-first move is under way
		}
		s.EverUp = true
		switch s.MovedBy {
		case cluster.MovedByUpdate:
			s.MovedBy, s.UpSince = cluster.MovedByMonitor, d.now
			u.LastUp = d.lastUp(u)
			d.wakeIn(max(d.spec.Update.Monitor+d.spec.Update.Delay, 1))
		case cluster.MovedByMonitor:
		default:
			s.MovedBy = ""
		}
		return
	}
	if s.NotUpSince.IsZero() {
		s.NotUpSince, s.NotUpWhy = d.now, whyNotUp(s)
	}
	s.UpSince = cluster.Time{}
}

// lastUp returns when a slot last came up in the running update; without one, what was recorded.
func (d *decision) lastUp(u *cluster.Update) cluster.Time {
	if u.State == cluster.Updating {
		return d.now
	}
	return u.LastUp
}

func whyNotUp(s *slot) cluster.NotUpWhy {
	t := newest(s)
	switch {
	case t == nil:
		return cluster.NotUpNew
	case t.lost:
		return cluster.NotUpLost
	case s.MovedBy != "" || !t.Desired.State.Wanted() || t.told:
		return cluster.NotUpMoved
	case t.dead:
		return cluster.NotUpFailed
	}
	return cluster.NotUpWaiting
}
