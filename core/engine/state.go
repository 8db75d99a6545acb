package engine

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// State is everything that was committed, at one revision. A published State never changes; taking a copy costs the same whatever it holds.
//
// The indexes hold ids, so that a new observation of a task touches none of them. Tasks and slots are kept packed (pack.go), and unpacked for
// whoever asks, who must not change them all the same: those that the turn changed are unpacked once.
type State struct {
	ClusterID string
	Revision  cluster.Revision
	Now       cluster.Time // of the turn that made the revision

	nodes  *btree.Map[cluster.NodeID, *cluster.Node]
	names  *btree.Map[string, cluster.NodeID] // of nodes that are not decommissioned
	jobs   *btree.Map[string, *cluster.Job]
	slots  *btree.Map[string, packedSlot] // by JOB/KEY
	tasks  *btree.Map[cluster.TaskID, packedTask]
	onNode nodeTasks
	stalls *btree.Map[string, *cluster.Stall]

	requests *btree.Map[string, *cluster.Request]
	notices  notices

	unsettled  unsettled
	slotCounts slotCounts

	fresh map[cluster.TaskID]*cluster.Task // of tasks that the turn changed, not packed: others are about to ask for them
	words words                            // while it is loaded
}

// NewState returns the state of a cluster in which nothing ever happened.
func NewState(clusterID string) *State {
	return &State{
		ClusterID: clusterID,
		nodes:     new(btree.Map[cluster.NodeID, *cluster.Node]),
		names:     new(btree.Map[string, cluster.NodeID]),
		jobs:      new(btree.Map[string, *cluster.Job]),
		slots:     new(btree.Map[string, packedSlot]),
		tasks:     new(btree.Map[cluster.TaskID, packedTask]),
		onNode:    newNodeTasks(),
		stalls:    new(btree.Map[string, *cluster.Stall]),
		requests:  new(btree.Map[string, *cluster.Request]),
		unsettled: newUnsettled(),

		slotCounts: newSlotCounts(),
	}
}

// fork returns a copy that can be changed without changing s.
func (s *State) fork() *State {
	s.onNode.copying.Lock()
	defer s.onNode.copying.Unlock()
	c := *s
	c.fresh = nil
	c.nodes, c.names, c.jobs, c.slots = s.nodes.Copy(), s.names.Copy(), s.jobs.Copy(), s.slots.Copy()
	c.tasks, c.onNode, c.stalls = s.tasks.Copy(), s.onNode.fork(), s.stalls.Copy()
	c.requests = s.requests.Copy()
	c.unsettled, c.slotCounts = s.unsettled.fork(), s.slotCounts.fork()
	return &c
}

// Node returns a node by id, or nil.
func (s *State) Node(id cluster.NodeID) *cluster.Node {
	n, _ := s.nodes.Get(id)
	return n
}

// NodeNamed returns the node that bears a name and is not decommissioned; failing that, the node with that id; failing that, the newest of the decommissioned
// nodes that bore the name; failing that, nil.
func (s *State) NodeNamed(name string) *cluster.Node {
	if id, ok := s.names.Get(name); ok {
		return s.Node(id)
	}
	if n := s.Node(cluster.NodeID(name)); n != nil {
		return n
	}
	var found *cluster.Node
	for n := range s.Nodes() {
		if n.Spec.Name == name && (found == nil || n.Created > found.Created) {
			found = n
		}
	}
	return found
}

// Nodes yields all nodes, decommissioned ones too, in the order of their ids.
func (s *State) Nodes() iter.Seq[*cluster.Node] { return values(s.nodes) }

// Job returns a job by name, or nil.
func (s *State) Job(name string) *cluster.Job {
	j, _ := s.jobs.Get(name)
	return j
}

// Jobs yields all jobs in the order of their names.
func (s *State) Jobs() iter.Seq[*cluster.Job] { return values(s.jobs) }

// Slot returns a slot, or nil.
func (s *State) Slot(job string, key cluster.SlotKey) *cluster.Slot {
	return s.slot(job + "/" + string(key))
}

func (s *State) slot(id string) *cluster.Slot {
	if v, ok := s.slots.Get(id); ok {
		return v.unpack(id)
	}
	return nil
}

// Slots returns the slots of a job, numbered ones in the order of their numbers, others by key.
func (s *State) Slots(job string) []*cluster.Slot {
	return s.slotsInto(job, func() *cluster.Slot { return new(cluster.Slot) })
}

func (s *State) slotsInto(job string, room func() *cluster.Slot) []*cluster.Slot {
	var out []*cluster.Slot
	prefix := job + "/"
	s.slots.Ascend(prefix, func(id string, v packedSlot) bool {
		if !strings.HasPrefix(id, prefix) {
			return false
		}
		x := room()
		v.into(id, x)
		out = append(out, x)
		return true
	})
	return inKeyOrder(out)
}

// inKeyOrder puts slots that are in the order of their ids into that of their keys. Numbers of as many digits are in order already.
func inKeyOrder(slots []*cluster.Slot) []*cluster.Slot {
	var digits [20]int // slots by the length of their numbers, then where those begin
	for _, s := range slots {
		if len(s.Key) >= len(digits) || !isNumber(s.Key) {
			slices.SortFunc(slots, func(a, b *cluster.Slot) int { return compareKeys(a.Key, b.Key) })
			return slots
		}
		digits[len(s.Key)]++
	}
	begin := 0
	for n, slots := range digits {
		digits[n], begin = begin, begin+slots
	}
	out := make([]*cluster.Slot, len(slots))
	for _, s := range slots {
		out[digits[len(s.Key)]] = s
		digits[len(s.Key)]++
	}
	return out
}

func compareKeys(a, b cluster.SlotKey) int {
	if d := cmp.Compare(len(a), len(b)); d != 0 && isNumber(a) && isNumber(b) {
		return d
	}
	return cmp.Compare(a, b)
}

func isNumber(k cluster.SlotKey) bool {
	_, err := strconv.ParseUint(string(k), 10, 63)
	return err == nil
}

// Task returns a task by id, or nil.
func (s *State) Task(id cluster.TaskID) *cluster.Task {
	if t, ok := s.fresh[id]; ok {
		return t
	}
	if t, ok := s.task(id); ok {
		return t.unpack()
	}
	return nil
}

// freshLimit is how many tasks are kept unpacked, about as many as one turn changes.
const freshLimit = 4096

// setTask keeps a task, which nobody changes any more.
func (s *State) setTask(p *packer, t *cluster.Task) {
	s.tasks.Set(t.ID, packTask(p, t))
	if _, ok := s.fresh[t.ID]; !ok && len(s.fresh) >= freshLimit {
		return
	}
	if s.fresh == nil {
		s.fresh = map[cluster.TaskID]*cluster.Task{}
	}
	s.fresh[t.ID] = t
}

func (s *State) dropTask(id cluster.TaskID) {
	s.tasks.Delete(id)
	delete(s.fresh, id)
}

// whole returns a task as it is, unpacked.
func (s *State) whole(t task) *cluster.Task {
	if len(s.fresh) > 0 {
		if known, ok := s.fresh[t.id]; ok {
			return known
		}
	}
	return t.unpack()
}

func (s *State) task(id cluster.TaskID) (task, bool) {
	v, ok := s.tasks.Get(id)
	return task{id, v}, ok
}

// Tasks yields all tasks in the order of their ids.
func (s *State) Tasks() iter.Seq[*cluster.Task] { return s.unpacked(s.allTasks()) }

func (s *State) allTasks() iter.Seq[task] {
	return func(yield func(task) bool) {
		s.tasks.Scan(func(id cluster.TaskID, v packedTask) bool { return yield(task{id, v}) })
	}
}

// TasksOf yields the tasks of a job in the order of their ids; also those left of a removed job of that name.
func (s *State) TasksOf(job string) iter.Seq[*cluster.Task] {
	return s.unpacked(s.withPrefix(job + "/"))
}

// SlotTasks returns the tasks of a slot, oldest first.
func (s *State) SlotTasks(job string, key cluster.SlotKey) []*cluster.Task {
	return oldestFirst(slices.Collect(s.unpacked(s.withPrefix(slotPrefix(job, key)))))
}

func slotPrefix(job string, key cluster.SlotKey) string { return job + "/" + string(key) + "/" }

func oldestFirst(tasks []*cluster.Task) []*cluster.Task {
	if len(tasks) > 1 {
		slices.SortFunc(tasks, func(a, b *cluster.Task) int { return cmp.Compare(a.CreatedRev, b.CreatedRev) })
	}
	return tasks
}

func (s *State) withPrefix(prefix string) iter.Seq[task] {
	return func(yield func(task) bool) {
		s.tasks.Ascend(cluster.TaskID(prefix), func(id cluster.TaskID, v packedTask) bool {
			return strings.HasPrefix(string(id), prefix) && yield(task{id, v})
		})
	}
}

// TasksOn yields the tasks that were placed on a node, whatever became of them, in the order of their ids.
func (s *State) TasksOn(node cluster.NodeID) iter.Seq[*cluster.Task] {
	return s.unpacked(s.tasksOn(node))
}

func (s *State) tasksOn(node cluster.NodeID) iter.Seq[task] {
	return func(yield func(task) bool) {
		s.onNode.on(node, func(id cluster.TaskID) bool {
			t, ok := s.task(id)
			if !ok {
				panic("state: node " + string(node) + " has a task " + string(id) + " that there is not")
			}
			return yield(t)
		})
	}
}

func (s *State) unpacked(all iter.Seq[task]) iter.Seq[*cluster.Task] {
	return func(yield func(*cluster.Task) bool) {
		for t := range all {
			if !yield(s.whole(t)) {
				return
			}
		}
	}
}

// Counts returns how many nodes, jobs, tasks and stalls there are.
func (s *State) Counts() (nodes, jobs, tasks, stalls int) {
	return s.nodes.Len(), s.jobs.Len(), s.tasks.Len(), s.stalls.Len()
}

// Stalls yields all stalls in the order of their keys.
func (s *State) Stalls() iter.Seq[*cluster.Stall] { return values(s.stalls) }

// StallsOf returns the stalls of one subject in the order of their keys.
func (s *State) StallsOf(subject cluster.Subject) []*cluster.Stall {
	return s.stallsWithPrefix(subject.String() + "|")
}

func (s *State) stallsWithPrefix(prefix string) []*cluster.Stall {
	var out []*cluster.Stall
	s.stalls.Ascend(prefix, func(key string, v *cluster.Stall) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		out = append(out, v)
		return true
	})
	return out
}

// TaskStalls returns why a task waits: its own stalls, those of the group with which it is placed, beginning no earlier than the task itself, and what follows
// from how long its last step was ago.
func (s *State) TaskStalls(t *cluster.Task) []cluster.Stall {
	var out []cluster.Stall
	for _, v := range s.StallsOf(cluster.Subject{Kind: cluster.SubjectTask, ID: string(t.ID)}) {
		out = append(out, *v)
	}
	if o := cluster.Overdue(t, s.Node(t.Placement.Node), s.Now); o != nil {
		out = append(out, *o)
	}
	if t.Placed() || !t.Desired.State.Wanted() {
		return out
	}
	if slot := s.Slot(t.Job, t.Slot); slot != nil && slot.Held != "" {
		for _, v := range s.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: slot.ID()}) {
			if string(v.Code) == slot.Held {
				out = append(out, shownOn(t, v)) // it takes no part in placing before that ends
			}
		}
		return out
	}
	for _, v := range s.StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: GroupKey(t)}) {
		out = append(out, shownOn(t, v))
	}
	return out
}

// shownOn is a stall of what a waiting task belongs to, as one of its own.
func shownOn(t *cluster.Task, v *cluster.Stall) cluster.Stall {
	c := *v
	c.Subject = cluster.Subject{Kind: cluster.SubjectTask, ID: string(t.ID)}
	if c.Since.Before(t.Created) {
		c.Since = t.Created
	}
	if c.Changed.Before(c.Since) {
		c.Changed = c.Since
	}
	return c
}

// At returns the state as it is seen at a later moment of the wall clock: records are the same, and what is derived from how long something takes is derived
// for that moment. An earlier moment changes nothing.
func (s *State) At(wall time.Time) *State {
	c := *s
	if d := wall.UnixNano() - s.Now.Wall; d > 0 && s.Now.Wall > 0 {
		c.Now = s.Now.Add(time.Duration(d))
	}
	return &c
}

// GroupKey names the group with which a waiting task is placed: its job, the content that it runs and the nodes that its slot is limited to.
func GroupKey(t *cluster.Task) string {
	key := t.Job + "@" + strconv.FormatUint(t.SpecVersion, 10)
	if len(t.Nodes) == 0 {
		return key
	}
	ids := make([]string, len(t.Nodes))
	for i, id := range t.Nodes {
		ids[i] = string(id)
	}
	return key + "@" + strings.Join(ids, ",")
}

// compact makes the trees of a state that was loaded as small as they can be: those that grow at one end leave their leaves half empty. A tree that is copied has
// no more room than it needs.
func (s *State) compact() {
	var group sync.WaitGroup
	group.Go(func() { s.slots = compacted(s.slots) })
	group.Go(func() { s.tasks = compacted(s.tasks) })
	s.onNode.compact()
	group.Wait()
}

func compacted[K cmp.Ordered, V any](m *btree.Map[K, V]) *btree.Map[K, V] {
	out := m.Copy()
	out.ScanMut(func(K, V) bool { return true })
	return out
}

func values[K cmp.Ordered, V any](m *btree.Map[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		m.Scan(func(_ K, v V) bool { return yield(v) })
	}
}
