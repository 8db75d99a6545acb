package reconcile

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// gather finds the slots that the job has and should have, and what is wanted of each, except for the choice of numbered slots (see mark).
// It reports false if it is not enough to look at those that are not at rest.
func (d *decision) gather() bool {
	var all []*cluster.Slot
	var keys []cluster.SlotKey
	if d.book == nil {
		all = d.View.Slots(d.job.Name)
	} else {
		all, keys = d.awake()
	}
	have := make([]*cluster.Slot, 0, len(all))
	d.scratch.expect(len(all))
	for _, s := range all {
		if s.Created < d.job.CreatedRev { // of a removed job of this name
			d.former = true
			if len(d.Changes) >= maxChanges {
				d.wakeIn(1)
				continue
			}
			d.add(cluster.RemoveSlot{Job: s.Job, Key: s.Key})
			continue
		}
		have = append(have, s)
	}
	if d.spec.Numbered() {
		d.slots = slices.Grow(d.slots, len(have))
		for _, s := range have {
			d.slots = append(d.slots, d.known(s))
		}
	} else if !d.gatherAnswered(have, keys) {
		return false
	}
	if d.job.Control.Stopped {
		for _, s := range d.slots {
			s.status, s.why = unwanted, nil
		}
	}
	return true
}

// awake returns the slots that are not at rest, and the keys of those that are to be looked at, in order.
func (d *decision) awake() (all []*cluster.Slot, keys []cluster.SlotKey) {
	keys = append([]cluster.SlotKey{}, d.book.awake...)
	slices.SortFunc(keys, d.compareKeys)
	keys = slices.Compact(keys)
	for _, key := range keys {
		if s := d.View.Slot(d.job.Name, key); s != nil {
			all = append(all, s)
		} else if d.spec.Numbered() {
			d.entries = append(d.entries, Entry{Key: key, Rest: restGone})
		}
	}
	return all, keys
}

func (d *decision) known(s *cluster.Slot) *slot {
	out := d.scratch.slot(s)
	if s.Unwanted {
		out.status = unwanted
	}
	return out
}

func (d *decision) fresh(key cluster.SlotKey, nodes []cluster.NodeID, ends bool) *slot {
	return &slot{key: key, Slot: &cluster.Slot{
		Job: d.job.Name, Key: key, Created: d.rev, Nodes: nodes, Ends: ends,
		Version: d.job.Control.Version, SpecVersion: d.job.Control.SpecVersion, SpentFor: d.job.Control.SpecVersion,
		NotUpSince: d.now, NotUpWhy: cluster.NotUpNew,
	}}
}

// gatherAnswered takes the slots from what the job's type said; those with the given keys, nil: all. While that says nothing of use, or holds the whole job, every
// slot has to be looked at.
func (d *decision) gatherAnswered(have []*cluster.Slot, keys []cluster.SlotKey) bool {
	a := d.View.Answer(d.job, keys)
	if !a.Known || a.Stall != nil {
		if d.restless = true; d.book != nil {
			return false
		}
	}
	if a.Stall != nil {
		st := *a.Stall
		st.Subject = cluster.Subject{Kind: cluster.SubjectJob, ID: d.job.Name}
		d.stall(st)
	}
	named := make(map[cluster.SlotKey]bool, len(a.Slots))
	old := make(map[cluster.SlotKey]*cluster.Slot, len(have))
	for _, s := range have {
		old[s.Key] = s
	}
	for _, w := range a.Slots {
		named[w.Key] = true
		d.takeAnswered(w, old[w.Key], a.Stall)
	}
	for _, s := range have {
		if named[s.Key] {
			continue
		}
		out := d.known(s)
		out.unnamed = true
		switch {
		case !a.Known || !a.Fresh || a.Stall != nil:
			out.status = held
		default:
			out.Unwanted, out.status = true, unwanted
		}
		d.slots = append(d.slots, out)
	}
	for _, key := range keys {
		if !named[key] && old[key] == nil {
			d.entries = append(d.entries, Entry{Key: key, Rest: restGone})
		}
	}
	slices.SortStableFunc(d.slots, func(x, y *slot) int { return cmp.Compare(x.Key, y.Key) })
	return true
}

func (d *decision) takeAnswered(w WantedSlot, old *cluster.Slot, whole *cluster.Stall) {
	st, why := d.limit(w)
	if w.Stall != nil {
		st, why = held, w.Stall
	}
	if whole != nil {
		st, why = held, nil
	}
	if old == nil {
		switch {
		case st == wanted:
			d.slots = append(d.slots, d.fresh(w.Key, w.Nodes, w.Ends))
		case w.Stall != nil:
			d.stallSlot(d.job.Name+"/"+string(w.Key), *w.Stall)
			d.entries = append(d.entries, Entry{Key: w.Key, Rest: restAwake})
		default:
			d.entries = append(d.entries, Entry{Key: w.Key})
		}
		return
	}
	out := d.known(old)
	out.Unwanted, out.Nodes, out.Ends = false, w.Nodes, w.Ends
	out.status, out.why = st, why
	if whole == nil {
		out.Held = ""
		if why != nil {
			out.Held = string(why.Code)
		}
	}
	d.slots = append(d.slots, out)
}

// limit says what the nodes to which a slot is limited make of it: excluded if filters refuse them all, held by the core if none of the others can be used or
// judged now.
func (d *decision) limit(w WantedSlot) (status, *cluster.Stall) {
	if len(w.Nodes) == 0 {
		return wanted, nil
	}
	var hold *cluster.Stall
	refused := 0
	for _, id := range w.Nodes {
		n := d.Node(id)
		if n == nil || n.Spec.Decommissioned {
			refused++
			continue
		}
		v := d.Verdict(d.job, id)
		switch {
		case v.Refused:
			refused++
		case !n.Usable():
			hold = unusable(n)
		case v.Pending:
			hold = &cluster.Stall{Code: cluster.CodePluginPending, Message: "a filter has not judged node " + n.Spec.Name + " yet", Clears: "the filter answers"}
		default:
			return wanted, nil
		}
	}
	if refused == len(w.Nodes) {
		return excluded, nil
	}
	return held, hold
}

func unusable(n *cluster.Node) *cluster.Stall {
	name := n.Spec.Name
	switch {
	case n.Status.State == cluster.NodeDown:
		return &cluster.Stall{Code: cluster.CodeNodeDown, Message: "node " + name + " is down", Clears: name + " comes back"}
	case n.Status.State == cluster.NodeSilent:
		return &cluster.Stall{Code: cluster.CodeNodeSilent, Message: "node " + name + " is silent", Clears: name + " speaks again"}
	case n.Spec.Availability == cluster.Drain:
		return &cluster.Stall{Code: cluster.CodeNodeDraining, Message: "node " + name + " is drained", Clears: name + " is activated"}
	}
	return &cluster.Stall{Code: cluster.CodeNodePaused, Message: "node " + name + " is paused", Clears: name + " is activated"}
}

// mark chooses which numbered slots are wanted. Scaling down marks slots once, those not up first, then the highest; only scaling up takes a mark back. What
// is too much for one decision is held until its turn comes.
// It reports false if it is not enough to look at the slots that are not at rest.
func (d *decision) mark() bool {
	if !d.spec.Numbered() || d.job.Control.Stopped {
		return true
	}
	var in []*slot
	for _, s := range d.slots {
		if s.status == wanted {
			in = append(in, s)
		}
	}
	surplus := len(in) + d.sums.of(restWanted) - d.spec.Count
	d.scaled = surplus > 0
	if d.scaled && d.book != nil {
		return false
	}
	if d.scaled {
		slices.SortStableFunc(in, func(a, b *slot) int {
			return cmp.Or(cmp.Compare(worth(a), worth(b)), -compareNumbers(a.Key, b.Key))
		})
		for i, s := range in[:surplus] {
			if i >= maxChanges {
				s.status = held
				d.wakeIn(1)
				continue
			}
			s.Unwanted, s.status = true, unwanted
		}
		return true
	}
	d.scaleUp(-surplus)
	return true
}

// worth says how much would be lost with a slot: what is done most, then what is up.
func worth(s *slot) int {
	switch {
	case s.Done && !s.Failed:
		return 2
	case s.up:
		return 1
	}
	return 0
}

// scaleUp makes n more slots wanted: the lowest numbers that are free. What is too much for one decision follows in the next.
func (d *decision) scaleUp(n int) {
	if n <= 0 {
		return
	}
	have := make(map[cluster.SlotKey]*slot, len(d.slots))
	for _, s := range d.slots {
		have[s.Key] = s
	}
	made := 0
	for i := 1; n > 0; i++ {
		key := cluster.SlotKey(strconv.Itoa(i))
		s := have[key]
		switch {
		case s == nil && d.atRest(key) && d.book.slots[key]&restWanted != 0:
			continue
		case s == nil && d.atRest(key):
			s = d.rouse(key)
			s.Unwanted, s.status, d.cur = false, wanted, nil
		case s == nil && made > maxChanges+d.spec.Parallelism: // all that have a turn before those that are left are there
			d.unmade, n = n, 1
			d.wakeIn(1)
		case s == nil:
			made++
			s = d.fresh(key, nil, d.spec.Ends())
			d.cur = s
			d.judge(s) // tasks of a removed job of this name may still stop there
			d.cur = nil
			d.slots = append(d.slots, s)
		case s.status == unwanted:
			s.Unwanted, s.status = false, wanted
		default:
			continue
		}
		n--
	}
	slices.SortStableFunc(d.slots, func(a, b *slot) int { return compareNumbers(a.Key, b.Key) })
}

// compareKeys orders a job's slots, by their numbers if they are numbered.
func compareKeys(a, b cluster.SlotKey, numbered bool) int {
	if numbered {
		return compareNumbers(a, b)
	}
	return cmp.Compare(a, b)
}

func compareNumbers(a, b cluster.SlotKey) int {
	if d := cmp.Compare(len(a), len(b)); d != 0 {
		return d
	}
	return cmp.Compare(a, b)
}

func (d *decision) stallSlot(id string, s cluster.Stall) {
	s.Subject = cluster.Subject{Kind: cluster.SubjectSlot, ID: id}
	d.stall(s)
}

// sameSlot reports whether nothing of a slot changed.
func sameSlot(a, b *cluster.Slot) bool {
	return slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Restarts, b.Restarts) &&
		a.Job == b.Job && a.Key == b.Key && a.Created == b.Created && a.Ends == b.Ends && a.Unwanted == b.Unwanted && a.Held == b.Held &&
		a.Version == b.Version && a.SpecVersion == b.SpecVersion && a.Backoff == b.Backoff && a.SpentFor == b.SpentFor && a.AvoidNode == b.AvoidNode &&
		a.NotUpSince == b.NotUpSince && a.NotUpWhy == b.NotUpWhy && a.UpSince == b.UpSince && a.EverUp == b.EverUp && a.Done == b.Done && a.Failed == b.Failed && a.Fresh == b.Fresh &&
		a.MovedBy == b.MovedBy && a.MovedIn == b.MovedIn && a.Counted == b.Counted && a.Claim == b.Claim && a.Leaves == b.Leaves
}
