package engine

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// packedTask is a task without its id: its two states in a byte each, what else is true of it in two bytes, and its other fields as a packer writes them.
type packedTask string

// What is true of a task. Sections that it does not have are not written.
const (
	taskPlaced   = 1 << iota
	taskGone     // its condition
	taskHealthy  // as observed
	taskUnknown  // as observed
	taskOdd      // its job, slot and revision do not follow from its id
	taskRetried  // it has a node to avoid
	taskLimited  // to some nodes
	taskReserves // more than cpu and memory
	taskToldAt   // at another moment than it was made
	taskLocated  // it has a placement
	taskGranted  // ports or addresses
	taskObserved // at some moment
	taskSpoke    // it has a message, an error or an exit code
	taskJudged   // its condition is more than ok
	taskUnjudged // it has no condition

	taskHead = 4 // bytes before the first field
)

// splitID returns the parts of a task's id. Other than Parts it takes any number that it can read as the revision.
func splitID(id string) (job, slot string, rev cluster.Revision, ok bool) {
	i, j := strings.IndexByte(id, '/'), strings.LastIndexByte(id, '/')
	if i < 0 || i == j {
		return "", "", 0, false
	}
	n, err := strconv.ParseUint(id[j+1:], 10, 64)
	return id[:i], id[i+1 : j], cluster.Revision(n), err == nil
}

// packTask packs a task. The packer's bytes are used and left to it.
func packTask(p *packer, t *cluster.Task) packedTask {
	job, slot, rev, ok := splitID(string(t.ID))
	has := taskFlags(t)
	if !ok || job != t.Job || slot != string(t.Slot) || rev != t.CreatedRev {
		has |= taskOdd
	}
	p.b = append(p.b[:0], byte(t.Observed.State), byte(t.Desired.State))
	p.b = binary.LittleEndian.AppendUint16(p.b, has)
	p.slot, p.node = slot, ""
	if has&taskOdd != 0 {
		p.slot = ""
		p.text(t.Job)
		p.text(string(t.Slot))
		p.uint(uint64(t.CreatedRev))
	}
	if has&taskPlaced != 0 {
		p.text(string(t.Placement.Node))
		p.node = string(t.Placement.Node)
	}
	p.uint(t.JobVersion)
	p.uint(t.SpecVersion)
	p.time(t.Created, cluster.Time{})
	p.text(t.Why)
	p.reserve(&t.Reserve, has)
	if has&taskRetried != 0 {
		p.text(string(t.Avoid))
	}
	if has&taskLimited != 0 {
		p.nodes(t.Nodes)
	}
	p.desired(&t.Desired, t.Created, has)
	p.placement(&t.Placement, t.Created, has)
	p.observed(&t.Observed, t.Created, has)
	if has&taskJudged != 0 {
		p.text(string(t.Condition.State))
		p.time(t.Condition.Since, t.Created)
		p.text(t.Condition.Reason)
	}
	return packedTask(p.made(p.b))
}

func taskFlags(t *cluster.Task) uint16 {
	var has uint16
	set := func(flag uint16, is bool) {
		if is {
			has |= flag
		}
	}
	l, r, o := &t.Placement, &t.Reserve, &t.Observed
	set(taskPlaced, t.Placed())
	set(taskGone, t.Condition.State == cluster.Gone)
	set(taskHealthy, o.Healthy)
	set(taskUnknown, o.Unknown)
	set(taskRetried, t.Avoid != "")
	set(taskLimited, len(t.Nodes) > 0)
	set(taskReserves, len(r.Resources.Units)+len(r.Ports)+len(r.Addresses) > 0 || r.MaxPerNode != 0)
	set(taskToldAt, t.Desired.Since != t.Created)
	set(taskLocated, t.Placed() || !l.Since.IsZero() || l.Among != cluster.Among{})
	set(taskGranted, len(l.Ports)+len(l.Addresses) > 0)
	set(taskObserved, !o.At.IsZero())
	set(taskSpoke, o.Message != "" || o.Err != "" || o.ExitCode != 0)
	set(taskUnjudged, t.Condition == cluster.Condition{})
	set(taskJudged, t.Condition != cluster.Condition{} && t.Condition != cluster.Condition{State: cluster.OK})
	return has
}

func (p *packer) reserve(r *cluster.Reserve, has uint16) {
	p.int(r.Resources.MilliCPU)
	p.int(r.Resources.Memory)
	if has&taskReserves == 0 {
		return
	}
	p.uint(uint64(len(r.Resources.Units)))
	for _, name := range slices.Sorted(maps.Keys(r.Resources.Units)) {
		p.text(name)
		p.int(r.Resources.Units[name])
	}
	p.uint(uint64(len(r.Ports)))
	for _, x := range r.Ports {
		p.text(x.Name)
		p.uint(uint64(x.Static))
	}
	p.uint(uint64(len(r.Addresses)))
	for _, x := range r.Addresses {
		p.text(x.Name)
		p.text(x.Pool)
	}
	p.int(int64(r.MaxPerNode))
}

func (p *packer) desired(d *cluster.Desired, created cluster.Time, has uint16) {
	p.text(d.Reason)
	p.text(d.By)
	if has&taskToldAt != 0 {
		p.time(d.Since, created)
	}
	p.int(int64(d.Grace))
}

func (p *packer) placement(l *cluster.Placement, created cluster.Time, has uint16) {
	if has&taskLocated != 0 {
		p.time(l.Since, created)
		p.int(int64(l.Among.Nodes))
		p.int(int64(l.Among.Nodes - l.Among.Allowed))
		p.int(int64(l.Among.Rank))
		p.int(int64(l.Among.Beside))
	}
	if has&taskGranted == 0 {
		return
	}
	p.uint(uint64(len(l.Ports)))
	for _, x := range l.Ports {
		p.text(x.Name)
		p.uint(uint64(x.Number))
	}
	p.uint(uint64(len(l.Addresses)))
	for _, x := range l.Addresses {
		p.text(x.Name)
		p.text(x.Pool)
		p.text(x.Address)
	}
}

func (p *packer) observed(o *cluster.Observed, created cluster.Time, has uint16) {
	if has&taskObserved != 0 {
		p.time(o.At, created)
	}
	if has&taskSpoke != 0 {
		p.text(o.Message)
		p.text(o.Err)
		p.int(int64(o.ExitCode))
	}
}

// task is a packed task with its id: enough to ask what nearly everybody asks without unpacking the rest.
type task struct {
	id     cluster.TaskID
	packed packedTask
}

func (t task) has(flag uint16) bool {
	return (uint16(t.packed[2])|uint16(t.packed[3])<<8)&flag != 0
}

func (t task) observed() cluster.ObservedState { return cluster.ObservedState(t.packed[0]) }

func (t task) desired() cluster.DesiredState { return cluster.DesiredState(t.packed[1]) }

// dead is what Task.Dead returns.
func (t task) dead() bool {
	return t.observed().Terminal() || t.has(taskGone) || !t.has(taskPlaced) && !t.desired().Wanted()
}

// place returns the task's job, slot and node; "" where it was not placed.
func (t task) place() (job string, slot cluster.SlotKey, node cluster.NodeID) {
	u, job, _ := t.open()
	return job, cluster.SlotKey(u.slot), cluster.NodeID(u.node)
}

// open reads up to where the task was placed.
func (t task) open() (u unpacker, job string, rev cluster.Revision) {
	u.s = string(t.packed[taskHead:])
	if t.has(taskOdd) {
		job, u.slot, rev = u.text(), u.text(), cluster.Revision(u.uint())
	} else {
		job, u.slot, rev, _ = splitID(string(t.id))
	}
	if t.has(taskPlaced) {
		u.node = u.text()
	}
	return u, job, rev
}

// unpack returns the task.
func (t task) unpack() *cluster.Task {
	out := new(cluster.Task)
	t.into(out)
	return out
}

// into overwrites a task.
func (t task) into(out *cluster.Task) {
	u, job, rev := t.open()
	*out = cluster.Task{ID: t.id, Job: job, Slot: cluster.SlotKey(u.slot), CreatedRev: rev, JobVersion: u.uint(), SpecVersion: u.uint()}
	out.Created = u.time(cluster.Time{})
	out.Why = u.text()
	t.reserve(&u, &out.Reserve)
	if t.has(taskRetried) {
		out.Avoid = cluster.NodeID(u.text())
	}
	if t.has(taskLimited) {
		out.Nodes = u.nodes()
	}
	out.Desired = cluster.Desired{State: t.desired(), Reason: u.text(), By: u.text(), Since: out.Created}
	if t.has(taskToldAt) {
		out.Desired.Since = u.time(out.Created)
	}
	out.Desired.Grace = time.Duration(u.int())
	t.placement(&u, &out.Placement, out.Created)
	out.Observed = cluster.Observed{State: t.observed(), Healthy: t.has(taskHealthy), Unknown: t.has(taskUnknown)}
	if t.has(taskObserved) {
		out.Observed.At = u.time(out.Created)
	}
	if t.has(taskSpoke) {
		out.Observed.Message, out.Observed.Err, out.Observed.ExitCode = u.text(), u.text(), int(u.int())
	}
	switch {
	case t.has(taskJudged):
		out.Condition = cluster.Condition{State: cluster.ConditionState(u.text()), Since: u.time(out.Created), Reason: u.text()}
	case !t.has(taskUnjudged):
		out.Condition.State = cluster.OK
	}
}

func (t task) reserve(u *unpacker, r *cluster.Reserve) {
	r.Resources.MilliCPU, r.Resources.Memory = u.int(), u.int()
	if !t.has(taskReserves) {
		return
	}
	if n := u.uint(); n > 0 {
		r.Resources.Units = make(map[string]int64, n)
		for range n {
			name := u.text()
			r.Resources.Units[name] = u.int()
		}
	}
	r.Ports = list(u, func() cluster.Port { return cluster.Port{Name: u.text(), Static: uint16(u.uint())} })
	r.Addresses = list(u, func() cluster.Address { return cluster.Address{Name: u.text(), Pool: u.text()} })
	r.MaxPerNode = int(u.int())
}

func (t task) placement(u *unpacker, l *cluster.Placement, created cluster.Time) {
	l.Node = cluster.NodeID(u.node)
	if t.has(taskLocated) {
		l.Since = u.time(created)
		l.Among.Nodes = int(u.int())
		l.Among.Allowed = l.Among.Nodes - int(u.int())
		l.Among.Rank, l.Among.Beside = int(u.int()), int(u.int())
	}
	if t.has(taskGranted) {
		l.Ports = list(u, func() cluster.PortGrant { return cluster.PortGrant{Name: u.text(), Number: uint16(u.uint())} })
		l.Addresses = list(u, func() cluster.AddressGrant {
			return cluster.AddressGrant{Name: u.text(), Pool: u.text(), Address: u.text()}
		})
	}
}

// list reads a length and as many values; nil if there are none.
func list[T any](u *unpacker, read func() T) []T {
	n := u.uint()
	if n == 0 {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = read()
	}
	return out
}
