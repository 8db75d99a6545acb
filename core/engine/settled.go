package engine

import (
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Settled returns the slots of a job about which nothing is to be decided, and the others, for reconcile. It reads slots and tasks as they are packed.
func (v view) Settled(job *cluster.Job) (settled, others []cluster.SlotKey, ok bool) {
	g := glance{v: v, job: job, said: map[string]bool{}, moves: job.Control.Spec.OnDrift != cluster.DriftKeep && v.mayRefuse(job)}
	prefix := job.Name + "/"
	for _, s := range v.stallsWithPrefix(cluster.Subject{Kind: cluster.SubjectSlot, ID: prefix}.String()) {
		g.said[s.Subject.ID] = true
	}
	v.slots.Ascend(prefix, func(id string, s packedSlot) bool {
		if !strings.HasPrefix(id, prefix) {
			return false
		}
		g.slots = append(g.slots, glanced{id: id, quiet: g.quiet(id, s)})
		delete(g.said, id)
		return !g.odd
	})
	g.tasks(prefix)
	if g.odd {
		return nil, nil, false
	}
	settled = make([]cluster.SlotKey, 0, len(g.slots))
	for i := range g.slots {
		s := &g.slots[i]
		if key := cluster.SlotKey(s.id[len(prefix):]); s.quiet && s.up == 1 && s.tasks == 1 {
			settled = append(settled, key)
		} else {
			others = append(others, key)
		}
	}
	for id := range g.said { // of slots that there are not: the order of what is awake makes no difference
		others = append(others, cluster.SlotKey(id[len(prefix):]))
	}
	return settled, others, true
}

// glance is one look at a job.
type glance struct {
	v     view
	job   *cluster.Job
	slots []glanced       // in the order of their ids
	said  map[string]bool // ids of slots of which something is said, and that were not seen yet
	odd   bool            // something is left of a removed job of this name
	moves bool            // some filter may want its tasks to leave some node
}

// glanced is a slot as it was seen.
type glanced struct {
	id    string
	quiet bool // nothing of its record asks for a decision
	tasks int
	up    int // of these, those that ask for none
}

// quiet reports whether nothing of a slot's record asks for a decision.
func (g *glance) quiet(id string, s packedSlot) bool {
	const never = slotEnds | slotUnwanted | slotDone | slotFailed | slotFresh | slotCounted | slotLimited | slotHeld | slotNotUp | slotKeeps
	if s.has(slotOdd) {
		g.odd = true
		return false
	}
	u := unpacker{s: string(s[slotHead:])}
	created, _, content := cluster.Revision(u.uint()), u.uint(), u.uint()
	g.odd = g.odd || created < g.job.CreatedRev
	if s.has(never) || !s.has(slotEverUp) || !s.has(slotUp) || content != g.job.Control.SpecVersion || g.said[id] {
		return false
	}
	return !s.has(slotMoves) || s.unpack(id).MovedBy == ""
}

// tasks looks at the job's tasks, which are in the order of their slots.
func (g *glance) tasks(prefix string) {
	at := 0
	g.v.State.tasks.Ascend(cluster.TaskID(prefix), func(id cluster.TaskID, packed packedTask) bool {
		if !strings.HasPrefix(string(id), prefix) {
			return false
		}
		for at < len(g.slots) && !g.slots[at].has(id) {
			at++
		}
		if at == len(g.slots) { // of a slot that there is not
			g.odd = true
			return false
		}
		g.slots[at].tasks++
		if g.up(task{id, packed}) {
			g.slots[at].up++
		}
		return !g.odd
	})
}

func (s *glanced) has(t cluster.TaskID) bool {
	return len(t) > len(s.id) && t[len(s.id)] == '/' && string(t[:len(s.id)]) == s.id
}

// up reports whether a task is up and nothing of it asks for a decision.
func (g *glance) up(t task) bool {
	if t.has(taskOdd) {
		g.odd = true
		return false
	}
	u, _, rev := t.open()
	g.odd = g.odd || rev < g.job.CreatedRev
	if t.has(taskGone|taskUnknown|taskLimited|taskJudged) || !t.has(taskPlaced) || !t.has(taskHealthy) || t.observed() != cluster.Running || !t.desired().Wanted() {
		return false
	}
	if _, content := u.uint(), u.uint(); content != g.job.Control.SpecVersion {
		return false
	}
	n := g.v.Node(cluster.NodeID(u.node))
	if n == nil || n.Down() || n.Spec.Decommissioned || n.Spec.Availability != cluster.Active {
		return false
	}
	if !g.moves {
		return true
	}
	w := g.v.Verdict(g.job, n.ID)
	return !w.Refused || !w.Evicts
}
