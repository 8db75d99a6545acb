package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// beginUpdate takes up a newer version if there are slots to move to it, and what the operator said about pausing.
func (d *decision) beginUpdate() cluster.Update {
	u, c := d.job.Update, &d.job.Control
	stale := d.sums.of(restStale)
	for _, s := range d.slots {
		if s.status != unwanted && d.stale(s) {
			stale++
		}
	}
	if u.To != c.Version && (stale > 0 || u.State == cluster.Updating || u.State == cluster.UpdatePaused) {
		d.carryOver()
		u = cluster.Update{
			State: cluster.Updating, From: d.comesFrom(u), To: c.Version, Started: d.now, Since: d.now, LastUp: d.now, Total: stale, Resumes: c.Resumes,
		}
		if v := d.job.VersionOf(c.Version); v != nil {
			u.Rollback = strings.HasPrefix(v.Reason, cluster.AutoRollback)
		}
	}
	switch {
	case u.To == c.Version && c.Cancelled == c.Version:
		d.enter(&u, cluster.UpdateCancelled, "cancelled by an operator"+inBrackets(c.AskedBy))
	case u.State == cluster.Updating && c.UpdateHold:
		d.enter(&u, cluster.UpdatePaused, "paused by an operator"+inBrackets(c.AskedBy))
	case (u.State == cluster.UpdatePaused && !c.UpdateHold || u.State == cluster.UpdateCancelled && u.To == c.Version) && u.Resumes != c.Resumes:
		d.enter(&u, cluster.Updating, "")
		u.Failures, u.LastUp = 0, d.now
		for _, s := range d.slots {
			s.Counted = false
		}
	}
	u.Resumes = c.Resumes
	return u
}

func inBrackets(who string) string {
	if who == "" {
		return ""
	}
	return " (" + who + ")"
}

// carryOver prepares the slots for a new update: those that already moved to the content that it wants are its own.
func (d *decision) carryOver() {
	c := &d.job.Control
	for _, s := range d.slots {
		if s.SpecVersion == c.SpecVersion && s.holdsPlace() {
			s.MovedIn, s.Counted = c.Version, false
		}
	}
}

// comesFrom returns the version that was in force before: that of the last update that came to its end, or of the one that this one cuts short; or the newest
// since then with the same content, which was in force without an update.
func (d *decision) comesFrom(u cluster.Update) uint64 {
	switch u.State {
	case cluster.Updating, cluster.UpdatePaused, cluster.UpdateCancelled:
		return u.From
	case cluster.UpdateCompleted, cluster.UpdateRolledBack:
		return d.lastLike(u.To)
	case cluster.UpdateNone:
	}
	for _, s := range d.slots {
		if s.was != nil {
			return d.lastLike(s.Version)
		}
	}
	return 0
}

// lastLike returns the last of the versions that followed one, before the newest, as long as they had its content.
func (d *decision) lastLike(version uint64) uint64 {
	first := d.job.VersionOf(version)
	if first == nil {
		return version
	}
	for _, v := range d.job.Control.Versions {
		switch {
		case v.Version <= version || v.Version == d.job.Control.Version:
		case v.SpecVersion != first.SpecVersion:
			return version
		default:
			version = v.Version
		}
	}
	return version
}

func (d *decision) enter(u *cluster.Update, st cluster.UpdateState, message string) {
	if u.State != st {
		u.State, u.Since, u.Message = st, d.now, message
	}
}

// mayMove reports whether the update moves slots: also after it is complete, since slots that were held then follow at the same pace.
func mayMove(u *cluster.Update) bool {
	return u.State == cluster.Updating || u.State == cluster.UpdateCompleted || u.State == cluster.UpdateRolledBack
}

// updateWishes moves stale slots that are not up to the newest version at once, and returns a wish for each that is.
func (d *decision) updateWishes(u *cluster.Update) []move {
	d.each(func(s *slot) {
		if s.Slot != nil && s.status != unwanted {
			d.watch(s, u)
		}
	})
	d.checkFailures(u)
	if !mayMove(u) {
		return nil
	}
	var out []move
	renewed := 0
	for _, s := range d.slots {
		d.cur = s
		switch {
		case s.Slot == nil || s.status != wanted || !d.stale(s):
		case s.up:
			out = append(out, d.updateWish(s))
		case renewed >= maxChanges/2:
			s.later = true
			d.wakeIn(1)
		default:
			renewed++
			d.renew(s)
			u.Moved++
		}
	}
	d.cur = nil
	return out
}

// updateWish is the update's wish that the task of a slot that is up leave.
func (d *decision) updateWish(s *slot) move {
	return move{
		slot: s, cause: cluster.CauseUpdate, by: cluster.SourceCore, grace: -1, reason: fmt.Sprintf("update to version %d", d.job.Control.Version),
	}
}

// supersede has slots in which a start-first move to an earlier version is under way take the newest at once: the task that is kept may have it already.
func (d *decision) supersede(u *cluster.Update) {
	c := &d.job.Control
	for _, s := range d.slots {
		if s.status != wanted || s.Done || s.keep == nil || s.keep.SpecVersion == s.SpecVersion || s.SpecVersion == c.SpecVersion {
			continue
		}
		if mayMove(u) || s.keep.SpecVersion == c.SpecVersion {
			d.take(s)
		}
	}
}

// renew gives a slot that is not up the newest version, and ends what still comes up in it with an older one.
func (d *decision) renew(s *slot) {
	if s.Done {
		s.NotUpSince, s.NotUpWhy = d.now, cluster.NotUpNew
	}
	d.take(s)
	for _, t := range s.tasks {
		if t.live() && t.SpecVersion != d.job.Control.SpecVersion {
			d.tell(t, cluster.DesiredShutdown, fmt.Sprintf("update to version %d", d.job.Control.Version), -1)
			d.forget(s, t)
		}
	}
	s.Fresh = !s.hasLive()
}

// take sets what the slot is to run to the job's newest version, and forgets what was spent on restarts of another.
func (d *decision) take(s *slot) {
	c := &d.job.Control
	if s.SpecVersion != c.SpecVersion {
		s.Restarts, s.Backoff, s.SpentFor, s.AvoidNode = nil, 0, c.SpecVersion, ""
	}
	s.Version, s.SpecVersion, s.MovedIn = c.Version, c.SpecVersion, c.Version
	s.Counted, s.Done, s.Failed = false, false, false
}

// takePlace moves a slot that is up: it holds one of the update's places until its new task is up and was watched.
func (d *decision) takePlace(s *slot, u *cluster.Update) {
	if s.MovedBy == cluster.MovedByUpdate && s.SpecVersion == d.job.Control.SpecVersion {
		return
	}
	d.take(s)
	d.movedBy(s, cluster.MovedByUpdate)
	u.Moved++
}

// movedBy notes what moves a slot, and how many places of the update are held with that.
func (d *decision) movedBy(s *slot, by string) {
	if s.status == wanted && s.holdsPlace() {
		d.places--
	}
	if s.MovedBy = by; s.status == wanted && s.holdsPlace() {
		d.places++
	}
}

// heldPlaces returns how many places of the update are held.
func (d *decision) heldPlaces() int {
	held := d.sums.of(restHolds)
	for _, s := range d.slots {
		if s.Slot != nil && s.status == wanted && s.holdsPlace() {
			held++
		}
	}
	return held
}

// placeFree reports whether the slot may move: it holds a place already, or one is left.
func (d *decision) placeFree(me *slot, u *cluster.Update) bool {
	return mayMove(u) && (me.holdsPlace() || d.placeLeft())
}

// placeLeft reports whether one more slot may hold a place of the update.
func (d *decision) placeLeft() bool {
	return d.spec.Update.Parallelism == 0 || d.places < d.spec.Update.Parallelism
}

// watch counts a failure of the slot's new task, and gives the slot's place back once it was up for long enough.
func (d *decision) watch(s *slot, u *cluster.Update) {
	if t := newest(s); t != nil && u.State == cluster.Updating && s.MovedIn == u.To && !s.Counted && !s.Fresh && !t.Observed.At.Before(u.Since) && d.failedEarly(s, t) {
		s.Counted = true
		u.Failures++
		u.Message = fmt.Sprintf("task %s %s: %s", t.ID, t.Observed.State, t.Observed.Err)
	}
	if s.MovedBy != cluster.MovedByMonitor {
		return
	}
	if !s.up {
		s.MovedBy = cluster.MovedByUpdate
		return
	}
	left := d.spec.Update.Monitor + d.spec.Update.Delay - d.now.Sub(s.UpSince)
	if left <= 0 {
		s.MovedBy = ""
	}
	d.wakeIn(left)
}

// failedEarly reports whether a task ended by itself before it was up for as long as the update watches.
func (d *decision) failedEarly(s *slot, t *task) bool {
	switch t.Observed.State {
	case cluster.Failed, cluster.Rejected:
	case cluster.Complete:
		if s.Ends {
			return false
		}
	case cluster.ObservedNone, cluster.Accepted, cluster.Preparing, cluster.Starting, cluster.Running, cluster.Stopped:
		return false
	}
	if !t.Desired.State.Wanted() || t.Observed.Unknown || t.SpecVersion != d.job.Control.SpecVersion {
		return false
	}
	if s.keep != nil && s.keep != t && s.keep.CreatedRev < t.CreatedRev {
		return true // it was to come up beside the one that it replaces, and never did
	}
	if s.UpSince.IsZero() { // the slot was not up when this was last looked at: since before the task was made?
		return !t.Created.Before(s.NotUpSince)
	}
	return t.Observed.At.Sub(s.UpSince) < d.spec.Update.Monitor
}

// newest returns the slot's youngest task that was not dropped just now, or nil.
func newest(s *slot) *task {
	for _, t := range slices.Backward(s.tasks) {
		if !t.cut {
			return t
		}
	}
	return nil
}

// checkFailures does what the job says once too many new tasks failed, or none came up for too long.
func (d *decision) checkFailures(u *cluster.Update) {
	if u.State != cluster.Updating {
		return
	}
	failed := u.Failures > 0 && float64(u.Failures) > d.spec.Update.MaxFailureRatio*float64(max(u.Total, 1))
	why := fmt.Sprintf("%d of %d slots failed: %s", u.Failures, u.Total, u.Message)
	late := false
	if !failed && d.spec.Update.ProgressDeadline > 0 && d.progressing() {
		left := d.spec.Update.ProgressDeadline - d.now.Sub(u.LastUp)
		d.wakeIn(left)
		if late = left <= 0; late {
			why = d.late()
		}
		failed = late
	}
	if !failed {
		return
	}
	switch {
	case d.spec.Update.OnFailure == cluster.FailureContinue:
		d.giveUp = late
	case d.spec.Update.OnFailure == cluster.FailureRollback && !u.Rollback && d.job.VersionOf(u.From) != nil:
		d.Rollback, d.Why = u.From, why
		d.enter(u, cluster.UpdatePaused, "rolling back: "+why)
	default:
		d.enter(u, cluster.UpdatePaused, why)
	}
}

// progressing reports whether the update waits for something to come up or to make room. While a new task is watched, it does not.
func (d *decision) progressing() bool {
	left := d.sums.of(restLeft) > 0
	for _, s := range d.slots {
		if s.Slot == nil || s.status != wanted {
			continue
		}
		if s.MovedBy == cluster.MovedByMonitor {
			return false
		}
		left = left || s.MovedBy == cluster.MovedByUpdate || d.stale(s)
	}
	return left
}
