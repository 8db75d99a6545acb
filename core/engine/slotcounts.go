package engine

import (
	"encoding/binary"
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// SlotCounts is how many slots a job has, by how they are.
type SlotCounts struct {
	Slots   int // that there are, wanted or not
	Limited int // of these, to some nodes
	Pinned  int // of these, to one

	Wanted int // the others of these counts are of wanted ones
	Up     int // have a task that is up
	Done   int // have had one that ended well, or as its restart rules let it
	Failed int // are done by one that did not end well
	Open   int // are limited to nodes and neither up nor done: filters may have left them no node, and then they are not wanted after all
	Held   int // are held by what a job type answered

	WantedLimited int // to some nodes
}

func (n SlotCounts) plus(m SlotCounts) SlotCounts {
	return SlotCounts{
		Slots: n.Slots + m.Slots, Limited: n.Limited + m.Limited, Pinned: n.Pinned + m.Pinned,
		Wanted: n.Wanted + m.Wanted, Up: n.Up + m.Up, Done: n.Done + m.Done, Failed: n.Failed + m.Failed, Open: n.Open + m.Open, Held: n.Held + m.Held,
		WantedLimited: n.WantedLimited + m.WantedLimited,
	}
}

func (n SlotCounts) less(m SlotCounts) SlotCounts {
	return n.plus(SlotCounts{
		Slots: -m.Slots, Limited: -m.Limited, Pinned: -m.Pinned,
		Wanted: -m.Wanted, Up: -m.Up, Done: -m.Done, Failed: -m.Failed, Open: -m.Open, Held: -m.Held,
		WantedLimited: -m.WantedLimited,
	})
}

// slotCounts are kept so that nobody has to look at every slot to know.
type slotCounts struct {
	jobs *btree.Map[string, *SlotCounts] // a fork has what these point to, too: only a load changes it
	open *btree.Map[string, struct{}]    // by JOB/KEY
	runs *btree.Map[string, *int]        // by contentKey: slots that are wanted and not done; likewise

	loaded *lastLoaded // nil once the counts are anybody else's, too
}

// lastLoaded is where the slot that was loaded last was counted. The next one is nearly always of the same job and runs the same.
type lastLoaded struct {
	prefix  string // JOB/
	job     *SlotCounts
	content uint64
	runs    *int // nil: none of the job was counted
}

func newSlotCounts() slotCounts {
	return slotCounts{new(btree.Map[string, *SlotCounts]), new(btree.Map[string, struct{}]), new(btree.Map[string, *int]), new(lastLoaded)}
}

func (c slotCounts) fork() slotCounts {
	return slotCounts{c.jobs.Copy(), c.open.Copy(), c.runs.Copy(), nil}
}

// load counts a slot that was not there, in counts of which nobody else knows.
func (c slotCounts) load(id string, s packedSlot) {
	last := c.loaded
	if last == nil || s.has(slotOdd) {
		c.change(id, "", s)
		return
	}
	if last.job == nil || !strings.HasPrefix(id, last.prefix) {
		job := s.job(id)
		*last = lastLoaded{prefix: job + "/", job: at(c.jobs, job)}
	}
	is := s.count()
	if *last.job = last.job.plus(is); is.Open > 0 {
		c.open.Set(id, struct{}{})
	}
	if content, ok := s.content(); ok {
		if last.runs == nil || last.content != content {
			last.content, last.runs = content, at(c.runs, contentKey(last.prefix[:len(last.prefix)-1], content))
		}
		*last.runs++
	}
}

// at returns where the value at a key is, a new one if there is none.
func at[V any](m *btree.Map[string, *V], key string) *V {
	v, ok := m.Get(key)
	if !ok {
		v = new(V)
		m.Set(key, v)
	}
	return v
}

// known returns the value at a key, the zero one if there is none.
func known[V any](m *btree.Map[string, *V], key string) (v V) {
	if at, ok := m.Get(key); ok {
		v = *at
	}
	return v
}

// contentKey names what slots of a job run: a spec version.
func contentKey(job string, content uint64) string {
	return string(binary.BigEndian.AppendUint64(append([]byte(job), '/'), content))
}

// change keeps up with a slot that was before and is after; "": it did not or does not exist.
func (c slotCounts) change(id string, before, after packedSlot) {
	if c.loaded != nil {
		*c.loaded = lastLoaded{} // what it points to may be replaced
	}
	c.changeContent(id, before, after)
	was, is := before.count(), after.count()
	if was == is {
		return
	}
	switch {
	case is.Open > was.Open:
		c.open.Set(id, struct{}{})
	case is.Open < was.Open:
		c.open.Delete(id)
	}
	one := after
	if after == "" {
		one = before
	}
	job := one.job(id)
	n := known(c.jobs, job).plus(is).less(was)
	if n == (SlotCounts{}) {
		c.jobs.Delete(job)
		return
	}
	c.jobs.Set(job, &n)
}

// changeContent keeps up with what a slot runs.
func (c slotCounts) changeContent(id string, before, after packedSlot) {
	was, counted := before.content()
	is, counts := after.content()
	if counted == counts && was == is {
		return
	}
	add := func(s packedSlot, content uint64, by int) {
		key := contentKey(s.job(id), content)
		if n := known(c.runs, key) + by; n == 0 {
			c.runs.Delete(key)
		} else {
			c.runs.Set(key, &n)
		}
	}
	if counted {
		add(before, was, -1)
	}
	if counts {
		add(after, is, 1)
	}
}

// content returns which content a slot is to run, if it is wanted and not done.
func (s packedSlot) content() (content uint64, ok bool) {
	if s == "" || s.has(slotUnwanted|slotDone) {
		return 0, false
	}
	u := unpacker{s: string(s[slotHead:])}
	if s.has(slotOdd) {
		u.uint()
	}
	_, _, content = u.uint(), u.uint(), u.uint()
	return content, true
}

// count is what one slot counts for.
func (s packedSlot) count() SlotCounts {
	if s == "" {
		return SlotCounts{}
	}
	n := SlotCounts{Slots: 1}
	if s.has(slotLimited) {
		n.Limited = 1
		if s.nodes() == 1 {
			n.Pinned = 1
		}
	}
	if s.has(slotUnwanted) {
		return n
	}
	n.Wanted, n.WantedLimited = 1, n.Limited
	if s.has(slotHeld) {
		n.Held = 1
	}
	switch {
	case s.has(slotDone):
		if n.Done = 1; s.has(slotFailed) {
			n.Failed = 1
		}
	case s.has(slotUp):
		n.Up = 1
	case s.has(slotLimited):
		n.Open = 1
	}
	return n
}

// nodes returns to how many nodes a slot is limited that is.
func (s packedSlot) nodes() uint64 {
	u := unpacker{s: string(s[slotHead:])}
	if s.has(slotOdd) {
		u.uint()
	}
	_, _, _, _ = u.uint(), u.uint(), u.uint(), u.uint()
	return u.uint()
}

// job returns the name of the job of a slot with an id.
func (s packedSlot) job(id string) string {
	if s.has(slotOdd) {
		u := unpacker{s: string(s[slotHead:])}
		return id[:u.uint()]
	}
	job, _, _ := strings.Cut(id, "/")
	return job
}

// SlotCounts returns how many slots of a job there are, by how they are.
func (s *State) SlotCounts(job string) SlotCounts {
	return known(s.slotCounts.jobs, job)
}

// StaleSlots returns how many of a job's slots are wanted and not done, and are to run other than the given content.
func (s *State) StaleSlots(job string, content uint64) int {
	prefix, current, stale := job+"/", contentKey(job, content), 0
	s.slotCounts.runs.Ascend(prefix, func(key string, n *int) bool {
		if len(key) != len(current) || !strings.HasPrefix(key, prefix) {
			return strings.HasPrefix(key, prefix)
		}
		if key != current {
			stale += *n
		}
		return true
	})
	return stale
}

// OpenSlots yields the slots of a job that SlotCounts counts as open.
func (s *State) OpenSlots(job string) iter.Seq[cluster.SlotKey] {
	return func(yield func(cluster.SlotKey) bool) {
		prefix := job + "/"
		s.slotCounts.open.Ascend(prefix, func(id string, _ struct{}) bool {
			key, of := strings.CutPrefix(id, prefix)
			return of && yield(cluster.SlotKey(key))
		})
	}
}
