package place

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Standing keeps the first reason of each node that cannot take a group's tasks, so that a changed node is looked at alone. It is a value: what returns a
// changed one leaves the old as it is.
type Standing struct {
	nodes    []int    // ascending, if the group is limited; nil: all
	first    []uint32 // parallel to nodes, or by index: see the marks
	table    []reason
	counts   []int // nodes under each reason of the table
	fitting  int   // nodes that can take a task
	nodesOut int   // nodes considered
}

// Marks of a node in Standing.first; from markReason on, the number of its reason in the table.
const (
	markAbsent uint32 = iota // does not count
	markFits
	markReason
)

// stand looks at every node that counts for n.
func stand(v *view, n *need) Standing {
	s := Standing{nodes: n.limited, first: make([]uint32, len(v.c.Nodes))}
	if n.limited != nil {
		s.first = make([]uint32, len(n.limited))
	}
	find := finder{s: &s}
	for k := range s.first {
		i := k
		if n.limited != nil {
			i = n.limited[k]
		}
		if v.c.present(i) {
			find.set(k, n.first(i, v.at(i)))
		}
	}
	return s
}

// Stand looks at every node that counts for g, as Recheck of all nodes would.
func Stand(c Cluster, g Group) Standing {
	v := newView(&c, g.Job)
	return stand(v, v.need(&g))
}

// Recheck looks again at the nodes with the given indexes, and at them only. The group must be the one that s is about: same nodes, same needs. If s.Fits
// then, the group should be placed.
func Recheck(c Cluster, g Group, s Standing, changed []int) Standing {
	if s.first == nil {
		return Stand(c, g)
	}
	v := newView(&c, g.Job)
	n := v.need(&g)
	out, copied := s, false
	find := finder{s: &out}
	var st state
	for _, i := range changed {
		k, ok := s.position(i)
		if !ok {
			continue
		}
		r, present := reason{}, c.present(i)
		if present {
			v.fill(i, &st)
			r = n.first(i, &st)
		}
		if out.same(k, r, present) {
			continue
		}
		if !copied {
			out, copied = s.clone(), true
		}
		out.grow(k)
		find.unset(k)
		if present {
			find.set(k, r)
		}
	}
	if copied {
		out.compact()
	}
	return out
}

// position returns where node i is kept.
func (s *Standing) position(i int) (int, bool) {
	if s.nodes == nil {
		return i, i >= 0
	}
	return slices.BinarySearch(s.nodes, i)
}

func (s *Standing) mark(k int) uint32 {
	if k < len(s.first) {
		return s.first[k]
	}
	return markAbsent
}

// same reports whether r is what is kept at k already.
func (s *Standing) same(k int, r reason, present bool) bool {
	switch m := s.mark(k); {
	case !present || m == markAbsent:
		return !present && m == markAbsent
	case r.stage == stageNone || m == markFits:
		return r.stage == stageNone && m == markFits
	default:
		return s.table[m-markReason] == r
	}
}

func (s *Standing) clone() Standing {
	out := *s
	out.first, out.table, out.counts = slices.Clone(s.first), slices.Clone(s.table), slices.Clone(s.counts)
	return out
}

func (s *Standing) grow(k int) {
	if k >= len(s.first) {
		s.first = append(s.first, make([]uint32, k+1-len(s.first))...)
	}
}

// compact drops reasons that no node has any more, once they are the larger part of the table.
func (s *Standing) compact() {
	live := 0
	for _, c := range s.counts {
		if c > 0 {
			live++
		}
	}
	if len(s.table) < 16 || live > len(s.table)/2 {
		return
	}
	number := make([]uint32, len(s.table))
	table, counts := make([]reason, 0, live), make([]int, 0, live)
	for k, c := range s.counts {
		if c > 0 {
			number[k] = uint32(len(table)) + markReason
			table, counts = append(table, s.table[k]), append(counts, c)
		}
	}
	for k, m := range s.first {
		if m >= markReason {
			s.first[k] = number[m-markReason]
		}
	}
	s.table, s.counts = table, counts
}

// finder finds the numbers of reasons in a standing's table.
type finder struct {
	s      *Standing
	number map[reason]uint32
	last   uint32
}

func (f *finder) set(k int, r reason) {
	f.s.nodesOut++
	if r.stage == stageNone {
		f.s.fitting++
		f.s.first[k] = markFits
		return
	}
	at := f.find(r)
	f.s.first[k] = at + markReason
	f.s.counts[at]++
}

func (f *finder) unset(k int) {
	switch m := f.s.first[k]; m {
	case markAbsent:
		return
	case markFits:
		f.s.fitting--
	default:
		f.s.counts[m-markReason]--
	}
	f.s.nodesOut--
	f.s.first[k] = markAbsent
}

// few is how many reasons are looked through one by one.
const few = 8

func (f *finder) find(r reason) uint32 {
	table := f.s.table
	if int(f.last) < len(table) && table[f.last] == r {
		return f.last
	}
	if len(table) <= few {
		for k := range table {
			if table[k] == r {
				f.last = uint32(k)
				return f.last
			}
		}
	} else if len(f.number) == 0 {
		f.number = make(map[reason]uint32, 2*len(table))
		for k := range table {
			f.number[table[k]] = uint32(k)
		}
	}
	at, ok := f.number[r]
	if !ok {
		at = uint32(len(table))
		f.s.table, f.s.counts = append(table, r), append(f.s.counts, 0)
		if f.number != nil {
			f.number[r] = at
		}
	}
	f.last = at
	return at
}

// Refused reports whether it is a filter's verdict that keeps tasks from node i, or what the node can do. As long as the node may take something new, and the filters say the same, what
// else becomes of it changes nothing.
func (s *Standing) Refused(i int) bool {
	r, ok := s.reason(i)
	return ok && (r.stage == stageAbility || r.stage == stageFilter && !r.pending)
}

// Pending reports whether a filter had not judged node i when it was looked at.
func (s *Standing) Pending(i int) bool {
	r, ok := s.reason(i)
	return ok && r.pending
}

// reason returns why node i is refused; ok is false if it is not.
func (s *Standing) reason(i int) (r *reason, ok bool) {
	k, ok := s.position(i)
	if !ok {
		return nil, false
	}
	m := s.mark(k)
	if m < markReason {
		return nil, false
	}
	return &s.table[m-markReason], true
}

// Fits reports whether some node can take a task of the group.
func (s *Standing) Fits() bool { return s.fitting > 0 }

// Facts returns how many nodes were looked at and what excludes how many of them, in the fixed order. Counts sum to Nodes unless s.Fits.
func (s *Standing) Facts() cluster.Facts {
	out := cluster.Facts{Nodes: s.nodesOut}
	for _, k := range s.sorted() {
		r := &s.table[k]
		out.Excluded = append(out.Excluded, cluster.Exclusion{Source: r.source, Code: r.code, Detail: r.detail, Count: s.counts[k]})
	}
	return out
}

// sorted returns the numbers of the reasons that count, in the fixed order.
func (s *Standing) sorted() []int {
	var out []int
	for k, c := range s.counts {
		if c > 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b int) int { return compareReasons(s.table[a], s.table[b]) })
	return out
}

// Code returns the first reason of the node that is nearest to being placed on: the one that got furthest in the order in which nodes are looked at. It is
// no_nodes if no node counts, and "" if some node fits.
func (s *Standing) Code() cluster.Code {
	switch order := s.sorted(); {
	case s.nodesOut == 0:
		return cluster.CodeNoNodes
	case s.fitting > 0:
		return ""
	default:
		return s.table[order[len(order)-1]].code
	}
}
