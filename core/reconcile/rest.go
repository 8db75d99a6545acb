package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// restful reports whether slots of the job may be left at rest by what is asked of the job itself.
func (d *decision) restful() bool {
	return d.spec.Numbered() || !d.job.Rebalancing()
}

// sameCourse reports whether an update goes on as it went.
func sameCourse(a, b cluster.Update) bool {
	return a.State == b.State && a.To == b.To && a.Since == b.Since && a.Started == b.Started && a.Rollback == b.Rollback
}

// atRest reports whether a slot with that key is not looked at.
func (d *decision) atRest(key cluster.SlotKey) bool {
	if d.book == nil {
		return false
	}
	r, ok := d.book.slots[key]
	return ok && r != restAwake
}

// add and wakeIn do what those of Result do, and note that the slot that is looked at is not at rest. What is said of a slot depends on what wakes it alone;
// where it does not, mind is called as well.
func (d *decision) add(c ...cluster.Change) {
	d.mind()
	d.Result.add(c...)
}

func (d *decision) wakeIn(left time.Duration) {
	if left > 0 {
		d.mind()
	}
	d.Result.wakeIn(left)
}

func (d *decision) mind() {
	if d.cur != nil {
		d.cur.busy = true
	}
}

func (d *decision) compareKeys(a, b cluster.SlotKey) int { return compareKeys(a, b, d.spec.Numbered()) }

// nextWish returns the first of the wishes that are left, in their order. Slots at rest that the update is to move are looked at only once it is their turn and
// there is a place for them, and those that wait for the budget only while it allows something: before, nothing is decided about them.
func (d *decision) nextWish(wishes []move, b *budget, u *cluster.Update) (m move, left []move, ok bool) {
	if next, is := d.nextWaiting(b); is && (len(wishes) == 0 || d.waitsLonger(next, wishes[0])) {
		d.passed++
		all := d.wishes(d.rouse(next.Key))
		if len(all) != 1 { // it was not woken when it should have been
			d.needsAll = true
			return move{}, nil, false
		}
		return all[0], wishes, true
	}
	if next, is := d.nextAtRest(u); is && (len(wishes) == 0 || d.sooner(next, wishes[0])) {
		d.after++
		return d.updateWish(d.rouse(next.Key)), wishes, true
	}
	if len(wishes) == 0 {
		return move{}, nil, false
	}
	return wishes[0], wishes[1:], true
}

// nextAtRest returns the first of the slots at rest that the update may move now.
func (d *decision) nextAtRest(u *cluster.Update) (Entry, bool) {
	if d.book == nil || !mayMove(u) || !d.placeLeft() {
		return Entry{}, false
	}
	for ; d.after < len(d.book.movable); d.after++ {
		if e := d.book.movable[d.after]; d.book.moves(e) {
			return e, true
		}
	}
	return Entry{}, false
}

// nextWaiting returns the first of the slots at rest that wait for the budget, if that allows something. Their causes come before those of the update.
func (d *decision) nextWaiting(b *budget) (Entry, bool) {
	if d.book == nil || b.notUp >= b.limit {
		return Entry{}, false
	}
	return d.firstWaiting()
}

// firstWaiting returns the first of the slots at rest that wait for the budget.
func (d *decision) firstWaiting() (Entry, bool) {
	for ; d.passed < len(d.book.waiting); d.passed++ {
		if e := d.book.waiting[d.passed]; d.book.wants[e.Key] == e {
			return e, true
		}
	}
	return Entry{}, false
}

// waitsLonger reports whether the wish of a slot at rest comes before another.
func (d *decision) waitsLonger(e Entry, m move) bool {
	return cmp.Or(cmp.Compare(e.cause, m.cause), cmp.Compare(orNever(e.deadline), orNever(m.deadline)),
		cmp.Compare(e.created, m.slot.keep.CreatedRev), d.compareKeys(e.Key, m.slot.key)) < 0
}

// minded reports whether the deadlines of slots that wait at rest are yet to come, and sees to that nobody misses the first.
func (d *decision) minded() bool {
	e, ok := d.firstWaiting()
	if !ok || e.deadline == 0 {
		return true
	}
	d.Result.wakeIn(e.deadline - d.now.Engine)
	return e.deadline > d.now.Engine
}

// sooner reports whether the update's wish about a slot at rest comes before another wish.
func (d *decision) sooner(e Entry, m move) bool {
	return cmp.Or(cmp.Compare(cluster.CauseUpdate, m.cause), cmp.Compare(orNever(0), orNever(m.deadline)),
		cmp.Compare(e.created, m.slot.keep.CreatedRev), d.compareKeys(e.Key, m.slot.key)) < 0
}

// rouse has a slot looked at that was at rest. What was decided about others up to now would have changed nothing in it.
func (d *decision) rouse(key cluster.SlotKey) *slot {
	d.sums.add(d.book.slots[key], -1)
	if p := d.book.piles; p != nil && p.where[key] != "" {
		if d.wasRoused == nil {
			d.wasRoused, d.roused = map[cluster.SlotKey]bool{}, map[cluster.NodeID]int{}
		}
		d.wasRoused[key] = true
		d.roused[p.where[key]]++
	}
	s := d.known(d.View.Slot(d.job.Name, key))
	d.cur = s
	d.judge(s)
	s.busy = false
	d.slots = append(d.slots, s)
	return s
}

// inOrder brings the slots that are looked at into their order after some were roused: those beyond the first that many.
func (d *decision) inOrder(looked int) {
	d.cur = nil
	if len(d.slots) > looked {
		slices.SortStableFunc(d.slots, func(x, y *slot) int { return d.compareKeys(x.key, y.key) })
	}
}

// nextQueued returns the first of the slots at rest that wait for their turn.
func (d *decision) nextQueued() (cluster.SlotKey, bool) {
	if d.book == nil {
		return "", false
	}
	for ; d.behind < len(d.book.queue); d.behind++ {
		if key := d.book.queue[d.behind]; d.book.waits(key) {
			return key, true
		}
	}
	return "", false
}

// keep says what is kept of the slots that were looked at until the next decision.
func (d *decision) keep(u cluster.Update) {
	d.whole, d.numbered, d.rebalancing = d.book == nil, d.spec.Numbered(), d.job.Rebalancing()
	d.looked = slices.Grow(d.looked, len(d.entries)+len(d.slots))
	for _, e := range d.entries {
		d.looked = append(d.looked, e.Key)
	}
	for _, s := range d.slots {
		d.looked = append(d.looked, s.key)
	}
	d.restless = d.restless || !d.restful() || d.former || d.scaled || d.giveUp || d.Rollback != 0 || !sameCourse(u, d.job.Update)
	if d.restless {
		d.entries = nil
		return
	}
	d.entries = slices.Grow(d.entries, len(d.slots))
	for _, s := range d.slots {
		switch {
		case s.Slot == nil && s.was == nil && d.spec.Numbered(): // the next decision makes it
		case s.Slot == nil || s.busy || !d.rests(s):
			d.entries = append(d.entries, Entry{Key: s.key, Rest: restAwake})
		default:
			e := Entry{Key: s.key, Rest: d.restOf(s, u)}
			if s.keep != nil {
				e.created, e.node = s.keep.CreatedRev, s.keep.Placement.Node
			}
			if s.waits != nil {
				e.cause, e.deadline = s.waits.cause, s.waits.deadline
			}
			d.entries = append(d.entries, e)
		}
	}
}

// rests reports whether a slot about which nothing was decided stays as it is as long as nothing changes that it depends on, and those who wake slots know of all
// of that. Drainers may say something else of a task at any time.
func (d *decision) rests(s *slot) bool {
	alive := func(t *task) bool { return !t.dead }
	forgets := s.queued && len(s.Restarts) > 0 && d.spec.Restart.Window > 0 // as time goes by
	leaves := func(t *task) bool { return t.Placed() && !t.Dead() && !t.Desired.State.Wanted() }
	switch {
	case d.job.Rebalancing() && slices.ContainsFunc(s.tasks, leaves):
		return false // they are counted
	case s.waits != nil && d.stale(s):
		return false // the update wishes it as well
	case s.status == unwanted:
		return !s.unnamed && s.Claim == "" && s.Leaves == ""
	}
	return !s.unnamed && !forgets && s.next == nil && s.Claim == "" && s.Leaves == "" && s.MovedBy != cluster.MovedByMonitor &&
		(s.status != excluded || !slices.ContainsFunc(s.tasks, alive)) &&
		(s.waits != nil || !slices.ContainsFunc(s.tasks, func(t *task) bool { return alive(t) && t.node != nil && t.node.Spec.Availability == cluster.Drain }))
}

// restOf returns what a slot counts for.
func (d *decision) restOf(s *slot, u cluster.Update) Rest {
	var out Rest
	set := func(r Rest, is bool) {
		if is {
			out |= r
		}
	}
	stale, is := s.status != unwanted && d.stale(s), s.status == wanted
	left := is && !s.Done && (s.holdsPlace() || stale)
	set(restWanted, is)
	set(restCounts, s.counts())
	set(restDown, s.counts() && !s.up)
	set(restDownToo, s.counts() && !s.up && (s.FellIn(&u, d.now) || s.MovedBy == cluster.MovedByUpdate))
	set(restStale, stale)
	set(restHolds, is && s.holdsPlace())
	set(restLeft, left)
	set(restWaits, is && !s.Done && !left && !s.up)
	set(restHeldBack, s.status == held && !s.Done && stale)
	if i := heldBy(s.why); i >= 0 {
		set(restPaused<<i, s.status == held && !s.Done && stale)
	}
	set(restMovable, is && s.up && stale)
	set(restTask, s.status != unwanted && s.Ends && !s.Done && s.hasTask())
	set(restQueued, s.queued)
	set(restIs, true)
	set(restWaiting, s.waits != nil)
	set(restBalanced, d.rebalancing && d.mayBalance(s))
	return out
}
