package reconcile

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// rest are the slots that are not as an update wants them.
type rest struct {
	waiting int // for something that has nothing to do with the update
	held    int
	because [len(heldWords)]int // of those held, how many for which of the words; the others have none
	left    int                 // to move, or moved and not up
}

// heldWords say what keeps a slot that is limited to nodes from moving.
var heldWords = [...]struct {
	code cluster.Code
	word string
}{
	{cluster.CodeNodePaused, "paused"}, {cluster.CodeNodeDraining, "draining"}, {cluster.CodeNodeSilent, "silent"}, {cluster.CodeNodeDown, "down"},
}

func (d *decision) rest() rest {
	r := rest{waiting: d.sums.of(restWaits), held: d.sums.of(restHeldBack), left: d.sums.of(restLeft)}
	for i := range r.because {
		r.because[i] = d.sums.of(restPaused << i)
	}
	for _, s := range d.slots {
		switch {
		case s.Slot == nil || s.status == unwanted || s.status == excluded || s.Done:
		case s.status == held:
			if d.stale(s) {
				r.hold(s.why)
			}
		case s.holdsPlace() || d.stale(s):
			r.left++
		case !s.up:
			r.waiting++
		}
	}
	return r
}

func (r *rest) hold(why *cluster.Stall) {
	r.held++
	if i := heldBy(why); i >= 0 {
		r.because[i]++
	}
}

// heldBy returns which of heldWords says why a slot is held, or -1.
func heldBy(why *cluster.Stall) int {
	for i, w := range heldWords {
		if why != nil && why.Code == w.code {
			return i
		}
	}
	return -1
}

func (r rest) sum() int { return r.waiting + r.held + r.left }

// endUpdate sees whether anything is left to move, and says what stands in the way.
func (d *decision) endUpdate(u *cluster.Update) {
	r := d.rest()
	switch u.State {
	case cluster.Updating:
		u.Waiting = r.waiting + r.held
		if r.left > 0 && !d.giveUp {
			break
		}
		u.Waiting, u.NotUpdated = r.sum(), r.left
		done := cluster.UpdateCompleted
		if u.Rollback {
			done = cluster.UpdateRolledBack
		}
		d.enter(u, done, r.String())
	case cluster.UpdateCompleted, cluster.UpdateRolledBack: // what was left behind follows; what comes to wait later is no matter of the update
		if r.sum() < u.Waiting {
			u.Waiting, u.NotUpdated = r.sum(), min(u.NotUpdated, r.left)
			r.held, r.left = r.held+r.left-u.NotUpdated, u.NotUpdated
			u.Message = r.String()
		}
	case cluster.UpdatePaused:
		d.stall(cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectUpdate, ID: d.job.Name}, Code: cluster.CodeUpdatePaused,
			Message: fmt.Sprintf("update to version %d is paused: %s", u.To, u.Message),
			Clears:  "job resume, job rollback, or a new version",
		})
	case cluster.UpdateNone, cluster.UpdateCancelled:
	}
}

func (r rest) String() string {
	out := "completed"
	if r.waiting > 0 {
		out += fmt.Sprintf(", %d waiting", r.waiting)
	}
	held := r.held
	for i, w := range heldWords {
		if n := r.because[i]; n > 0 {
			out += fmt.Sprintf(", %d %s", n, w.word)
			held -= n
		}
	}
	if held > 0 {
		out += fmt.Sprintf(", %d held", held)
	}
	if r.left > 0 {
		out += fmt.Sprintf(", %d not updated", r.left)
	}
	return out
}
