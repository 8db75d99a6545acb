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
}

// move carries out what is forced, and admits what is voluntary within the budget, in the order of causes.
func (d *decision) move(u *cluster.Update) {
	var wishes []move
	for _, s := range d.slots {
		if s.Slot == nil || s.status == unwanted {
			continue
		}
		wishes = append(wishes, d.wishes(s)...)
	}
	wishes = append(wishes, d.updateWishes(u)...)
	slices.SortStableFunc(wishes, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.cause, b.cause), cmp.Compare(orNever(a.deadline), orNever(b.deadline)),
			cmp.Compare(a.slot.keep.CreatedRev, b.slot.keep.CreatedRev))
	})
	b := d.budget()
	seen := make(map[*slot]bool, len(wishes))
	for _, m := range wishes {
		if seen[m.slot] || m.slot.keep.told {
			continue // one move serves all causes
		}
		seen[m.slot] = d.admit(m, &b, u)
	}
}

func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return 1<<63 - 1
	}
	return d
}

// wishes tells what is forced or concerns tasks that do not hold their slot up, and returns the wish about the task that does.
func (d *decision) wishes(s *slot) []move {
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
	if s.keep == t {
		s.keep, s.up = nil, false
	}
	if s.next == t {
		s.next = nil
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
			d.wakeIn(left)
		} else {
			best = cluster.Join(best, cluster.Transition{
				Task: t.ID, To: cluster.DesiredShutdown, Strength: cluster.Forced, Cause: cluster.CauseDrain,
				Reason: "the drain of " + n.Spec.Name + " reached its deadline", By: cluster.SourceCore, Grace: -1,
			})
		}
	}
	if drifts(d, d.job, t) {
		v := d.Verdict(d.job, t.Placement.Node)
		best = cluster.Join(best, cluster.Transition{
			Task: t.ID, To: cluster.DesiredShutdown, Strength: cluster.Voluntary, Cause: cluster.CauseDrift,
			Reason: "node " + t.node.Spec.Name + " no longer meets " + v.Detail, By: v.By, Grace: -1,
		})
	}
	return move{slot: s, cause: best.Cause, deadline: deadline, reason: best.Reason, by: best.By, grace: best.Grace}, best.Strength
}

// budget is how many wanted slots may be down at a time, and how many are.
type budget struct {
	wanted, limit int
	notUp         int // for all causes but updates
	notUpUpdate   int // for updates: without slots that were not up before it and have not been up since
}

func (d *decision) budget() budget {
	var b budget
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
		if s.EverUp || s.MovedBy == cluster.MovedByUpdate {
			b.notUpUpdate++
		}
	}
	b.limit = d.spec.MaxUnavailable.Of(b.wanted)
	return b
}

// admit lets a voluntary move go ahead, or says why it has to wait. It reports whether the slot is being moved.
func (d *decision) admit(m move, b *budget, u *cluster.Update) bool {
	s := m.slot
	if m.cause == cluster.CauseUpdate && !d.placeFree(s, u) {
		return false // its turn will come; the update says how far it is
	}
	if d.startsFirst(m) {
		if m.cause == cluster.CauseUpdate {
			d.takePlace(s, u)
			d.settleNext(s)
		}
		if t := stoppingTask(s); t != nil && s.next == nil {
			d.waitForStop(s, t) // a replacement may start only beside the slot's one task
			return true
		}
		last := lastEnded(s)
		switch {
		case s.next != nil:
			d.waitForReplacement(s, m.reason)
		case last != nil && last.CreatedRev > s.keep.CreatedRev && last.SpecVersion == s.SpecVersion:
			d.retry(s, last, 0) // a replacement that failed follows the restart rules as any task does
		default:
			d.create(s, "replacement before a "+m.cause.String()+" move", s.keep)
		}
		return true
	}
	notUp := b.notUp
	if m.cause == cluster.CauseUpdate {
		notUp = b.notUpUpdate
	}
	if notUp >= b.limit {
		d.stallSlot(s.ID(), cluster.Stall{
			Code:    cluster.CodeWaitingForBudget,
			Message: fmt.Sprintf("task %s is to move (%s), but %d of %d slots are not up and the job allows %d", s.keep.ID, m.reason, notUp, b.wanted, b.limit),
			Clears:  "a slot of the job comes up",
		})
		return true
	}
	b.notUp++
	b.notUpUpdate++
	d.tellBy(s.keep, cluster.DesiredShutdown, m.reason, m.by, m.grace)
	if m.cause == cluster.CauseUpdate {
		d.takePlace(s, u)
	} else {
		s.MovedBy = m.cause.String()
	}
	s.keep, s.up = nil, false
	return true
}

// waitForReplacement says that the task that leaves stays until the one that starts first is up.
func (d *decision) waitForReplacement(s *slot, reason string) {
	d.stallSlot(s.ID(), cluster.Stall{
		Code:    cluster.CodeWaitingForReplacement,
		Message: fmt.Sprintf("task %s stays until its replacement %s is up (%s)", s.keep.ID, s.next.ID, reason),
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
