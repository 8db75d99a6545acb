package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// move is a wish that a slot's task leave.
type move struct {
	slot     *slot
	cause    cluster.Cause
	deadline time.Duration // engine time at which it is forced; 0: never
	reason   string
	by       string
	grace    time.Duration
	room     cluster.NodeID // where an update's replacement fits
}

// move admits what is voluntary within the budget, in the order of causes. The update's wishes are its own to add.
func (d *decision) move(wishes []move, u *cluster.Update) {
	wishes = append(wishes, d.updateWishes(u)...)
	d.turns()
	slices.SortStableFunc(wishes, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.cause, b.cause), cmp.Compare(orNever(a.deadline), orNever(b.deadline)),
			cmp.Compare(a.slot.keep.CreatedRev, b.slot.keep.CreatedRev))
	})
	b := d.budget(u)
	d.places = d.heldPlaces()
	seen := make(map[*slot]bool, len(wishes))
	var waiting []move
	looked := len(d.slots)
	for {
		for len(wishes) > 0 && (seen[wishes[0].slot] || wishes[0].slot.keep.told) {
			wishes = wishes[1:] // one move serves all causes
		}
		m, left, ok := d.nextWish(wishes, &b, u)
		if !ok {
			break
		}
		wishes = left
		d.cur = m.slot
		v := d.admit(m, &b, u)
		seen[m.slot] = v != notAsked
		switch v {
		case admitted:
			d.mind() // also while nothing but a stall comes of it
		case overBudget:
			waiting = append(waiting, m)
		case notAsked:
		}
	}
	d.cur = nil
	d.inOrder(looked)
	waiting = append(waiting, d.rebalance(seen, &b, u)...)
	for _, m := range waiting { // with the numbers as they are after all moves
		clears := "a slot of the job comes up"
		if m.deadline > 0 {
			clears += ", or the drain reaches its deadline"
		}
		d.cur = m.slot
		if m.slot.waits = &m; !m.lasts() {
			d.mind()
		}
		d.stallSlot(m.slot.ID(), cluster.Stall{
			Code:    cluster.CodeWaitingForBudget,
			Message: fmt.Sprintf("task %s is to move (%s), but %d of %d slots are not up and the job allows %d", m.slot.keep.ID, m.reason, b.down(m.cause), b.wanted, b.limit),
			Clears:  clears,
		})
	}
	d.cur = nil
	d.said = said{notUp: b.notUp, wanted: b.wanted, limit: b.limit}
	if d.sums.of(restWaiting) > 0 && d.said != d.book.said {
		d.needsAll = true // others wait as well, and the numbers are other ones now
	}
}

// said are the numbers with which it was said that slots wait for the budget.
type said struct{ notUp, wanted, limit int }

// lasts reports whether the slot may rest while it waits for the budget: nothing but the budget, and what wakes slots, makes a difference to the wish.
func (m *move) lasts() bool {
	return m.cause != cluster.CauseUpdate && m.cause != cluster.CauseRebalance && (m.deadline == 0 || m.cause == cluster.CauseDrain)
}

// admission is what came of a wish.
type admission uint8

const (
	notAsked   admission = iota // it is not its turn
	admitted                    // the slot is being moved, or waits for something that says so itself
	overBudget                  // too many slots are not up
)

func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return 1<<63 - 1
	}
	return d
}

// wishes tells what is forced or concerns tasks that do not hold their slot up, and returns the wish about the task that does.
func (d *decision) wishes(s *slot) []move {
	if s.status == unwanted {
		return nil
	}
	var out []move
	for _, t := range s.tasks {
		if t.dead || t.told || !t.Placed() || !t.Desired.State.Wanted() {
			continue
		}
		m, strength := d.wish(s, t)
		switch {
		case strength == cluster.Forced:
			d.tellBy(t, cluster.DesiredShutdown, m.reason, m.by, m.grace)
			d.forget(s, t)
		case strength != cluster.Voluntary || !t.live():
		case t == s.keep && t.up && s.status != held:
			out = append(out, m)
		default:
			d.tellBy(t, cluster.DesiredShutdown, m.reason, m.by, m.grace)
			d.forget(s, t)
		}
	}
	return out
}

// forget takes a task that was told to stop out of its role in the slot.
func (d *decision) forget(s *slot, t *task) {
	if s.keep == t || s.next == t {
		d.choose(s)
	}
}

// wish joins what drainers, the drain's deadline and the filters want of a task.
func (d *decision) wish(s *slot, t *task) (move, cluster.Strength) {
	say := d.Says(t.Task)
	for _, st := range say.Stalls {
		if t.live() { // of a lost task nothing would leave
			d.stallSlot(s.ID(), st)
		}
	}
	best := say.Transition
	best.Task = t.ID
	if best.Strength == cluster.Nothing {
		best.Grace = -1
	}
	deadline := time.Duration(0)
	if n := t.node; n != nil && n.Spec.Availability == cluster.Drain && n.Spec.DrainDeadline > 0 {
		deadline = n.Spec.DrainSince.Engine + n.Spec.DrainDeadline
		if left := deadline - d.now.Engine; left > 0 {
			d.Result.wakeIn(left) // a slot that rests while it waits to leave is kept with its deadline
		} else {
			best = cluster.Join(best, cluster.Transition{
				Task: t.ID, To: cluster.DesiredShutdown, Strength: cluster.Forced, Cause: cluster.CauseDrain,
				Reason: "the drain of " + n.Spec.Name + " reached its deadline", By: cluster.SourceCore, Grace: -1,
			})
		}
	}
	leaves := best.Strength == cluster.Voluntary || best.Strength == cluster.Forced // anyway
	if drifts(d, d.job, t) && (leaves || d.still(s, t)) {
		v := d.Verdict(d.job, t.Placement.Node)
		best = cluster.Join(best, cluster.Transition{
			Task: t.ID, To: cluster.DesiredShutdown, Strength: cluster.Voluntary, Cause: cluster.CauseDrift,
			Reason: "node " + t.node.Spec.Name + " no longer meets " + v.Detail, By: v.By, Grace: -1,
		})
	}
	return move{slot: s, cause: best.Cause, deadline: deadline, reason: best.Reason, by: best.By, grace: best.Grace}, best.Strength
}

// stillness is for how long after a task of a slot was placed no drift moves the slot's tasks. A label that comes and goes, or a filter that cannot make up its
// mind, would otherwise stop and start a task as often as that.
const stillness = 5 * time.Second

// still reports whether the slot has kept still for long enough that a drift may move its task; if not, it says so. A move that has begun goes on, and what
// another task of the slot has replaced goes.
func (d *decision) still(s *slot, t *task) bool {
	if s.next != nil || s.up && t != s.keep {
		return true
	}
	var last cluster.Time
	for _, x := range s.tasks {
		if x.Placed() && (x.live() || !x.Desired.State.Wanted()) && last.Before(x.Placement.Since) {
			last = x.Placement.Since
		}
	}
	left := stillness - d.now.Sub(last)
	if left <= 0 || last.IsZero() {
		return true
	}
	d.wakeIn(left)
	if t.live() {
		d.stallSlot(s.ID(), cluster.Stall{
			Code:    cluster.CodePlacedRecently,
			Message: fmt.Sprintf("task %s is to move (node %s no longer meets %s), and keeps still for %s after a placement", t.ID, t.node.Spec.Name, d.Verdict(d.job, t.Placement.Node).Detail, stillness),
			Clears:  fmt.Sprintf("%s have passed since a task of the slot was placed, or the node meets the requirement again", stillness),
		})
	}
	return false
}

// budget is how many wanted slots may be down at a time, and how many are.
type budget struct {
	wanted, limit int
	notUp         int // for all causes but updates
	notUpUpdate   int // for updates: without slots that were not up before it and have not been up since
}

func (d *decision) budget(u *cluster.Update) budget {
	b := budget{wanted: d.sums.of(restCounts), notUp: d.sums.of(restDown), notUpUpdate: d.sums.of(restDownToo)}
	if d.spec.Parallelism == 0 { // otherwise they wait for their turn
		b.wanted, b.notUp = b.wanted+d.unmade, b.notUp+d.unmade
	}
	for _, s := range d.slots {
		if s.Slot == nil {
			continue
		}
		if s.status == excluded { // not wanted, but what leaves it does so by the budget
			switch {
			case s.up:
				b.wanted++
			case stoppingTask(s) != nil:
				b.wanted++
				b.notUp++
				b.notUpUpdate++
			}
		}
		if !s.counts() {
			continue
		}
		b.wanted++
		if s.up {
			continue
		}
		b.notUp++
		if d.fellIn(s, u) || s.MovedBy == cluster.MovedByUpdate {
			b.notUpUpdate++
		}
	}
	b.limit = d.spec.MaxUnavailable.Of(b.wanted)
	return b
}

// fellIn is Slot.FellIn of the slot as it will be noted: what told its task to go in this very decision moved it.
func (d *decision) fellIn(s *slot, u *cluster.Update) bool {
	noted := *s.Slot
	if noted.NotUpSince.IsZero() {
		noted.NotUpSince, noted.NotUpWhy = d.now, whyNotUp(s)
	}
	return noted.FellIn(u, d.now)
}

// down returns how many slots are not up, as far as they count for a cause.
func (b *budget) down(c cluster.Cause) int {
	if c == cluster.CauseUpdate {
		return b.notUpUpdate
	}
	return b.notUp
}

// admit lets a voluntary move go ahead if it may.
func (d *decision) admit(m move, b *budget, u *cluster.Update) admission {
	s := m.slot
	if m.cause == cluster.CauseUpdate && !d.placeFree(s, u) {
		return notAsked // its turn will come; the update says how far it is
	}
	first := d.startsFirst(m)
	if m.cause == cluster.CauseUpdate && s.next == nil {
		var room bool
		if first, room = d.room(&m, first); !room {
			return notAsked
		}
	}
	if first {
		if d.startFirst(m, u); m.cause == cluster.CauseRebalance {
			d.leave(s, s.keep, m.room)
			s.Leaves = s.keep.Placement.Node
		}
		return admitted
	}
	if b.down(m.cause) >= b.limit {
		return overBudget
	}
	b.notUp++
	b.notUpUpdate++
	leaves := s.keep
	s.EverUp = true // it was up, if only in this decision
	d.tellBy(leaves, cluster.DesiredShutdown, m.reason, m.by, m.grace)
	switch {
	case m.cause == cluster.CauseUpdate:
		d.takePlace(s, u)
		s.Claim = m.room
		d.claims = append(d.claims, Claim{Slot: s.Slot, Node: m.room, Leaving: leaves.Task})
	case m.cause == cluster.CauseRebalance:
		d.leave(s, leaves, m.room)
		d.movedBy(s, m.cause.String())
		s.Claim = m.room
	case !s.Done:
		d.movedBy(s, m.cause.String())
	}
	d.forget(s, leaves)
	if s.status == wanted && !s.up && d.stale(s) && mayMove(u) {
		d.renew(s) // what leaves for another cause comes back with the newest version
		u.Moved++
	}
	return admitted
}

// room finds out whether the replacement of a task that is up would fit, and where; no healthy task is stopped whose replacement would not. Where it fits only
// without the task that it replaces, that stops first, also if the job starts first. It reports whether to start first, and whether there is room at all.
func (d *decision) room(m *move, first bool) (startFirst, room bool) {
	s := m.slot
	if first {
		if d.Fits(d.job, s.Slot, nil, d.claims).Node != "" {
			return true, true
		}
		m.reason += "; stops first, since its replacement fits only without it"
	}
	fit := d.Fits(d.job, s.Slot, s.keep.Task, d.claims)
	if m.room = fit.Node; fit.Node != "" {
		return false, true
	}
	d.NoRoom = true
	d.mind() // of room, slots at rest are not told
	d.stallSlot(s.ID(), cluster.Stall{
		Code: fit.Code, Message: fmt.Sprintf("task %s stays (%s), for its replacement would not fit in its place: %s", s.keep.ID, m.reason, fit.Why),
		Clears: cmp.Or(fit.Clears, "room becomes free"),
	})
	return false, false
}

// startFirst sees to a replacement, beside which the task that leaves stays until it is up.
func (d *decision) startFirst(m move, u *cluster.Update) {
	s := m.slot
	if m.cause == cluster.CauseUpdate {
		d.takePlace(s, u)
		d.settleNext(s)
	}
	if t := stoppingTask(s); t != nil && s.next == nil {
		d.waitForStop(s, t) // a replacement may start only beside the slot's one task
		return
	}
	last := lastEnded(s)
	switch {
	case s.next != nil:
		d.waitForReplacement(s, s.next.ID, m.reason)
	case last != nil && last.CreatedRev > s.keep.CreatedRev && last.SpecVersion == s.SpecVersion:
		d.forgive(s, 0)
		d.retry(s, last) // a replacement that failed follows the restart rules as any task does
	default:
		d.create(s, "replacement before a "+m.cause.String()+" move", s.keep)
	}
	if s.next == nil && s.made != "" {
		d.waitForReplacement(s, s.made, m.reason)
	}
}

// waitForReplacement says that the task that leaves stays until the one that starts first is up.
func (d *decision) waitForReplacement(s *slot, next cluster.TaskID, reason string) {
	d.stallSlot(s.ID(), cluster.Stall{
		Code:    cluster.CodeWaitingForReplacement,
		Message: fmt.Sprintf("task %s stays until its replacement %s is up (%s)", s.keep.ID, next, reason),
		Clears:  "the replacement comes up",
	})
}

func stoppingTask(s *slot) *task {
	for _, t := range s.tasks {
		if t.stopping() {
			return t
		}
	}
	return nil
}

// startsFirst reports whether the replacement is to be up before the old task stops. A slot that is limited to one node cannot do so when it has to leave it.
func (d *decision) startsFirst(m move) bool {
	return d.spec.Update.Order == cluster.StartFirst && m.slot.status == wanted && (m.cause == cluster.CauseUpdate || !m.slot.pinned())
}
