package sdk

import (
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	allowed    uint16 = 0
	unjudged   uint16 = 1<<16 - 1 // no node at this index
	maxReasons        = 4096      // distinct rejections of a class; further ones lose their detail
	maxCodes          = maxReasons + 256
)

// verdicts is what a matcher said of every node. Owner: the session's loop once it is part of a class; before that, the computation that makes it.
type verdicts struct {
	reasons []uint16 // by node index: allowed, unjudged, or number into table, plus 1
	ranks   []int8   // by node index; nil: all 0
	table   []*pluginv1.Rejection
	numbers map[rejection]uint16
	last    *Stall // and its number, because one stall is often returned for many nodes in a row
	lastIs  uint16
}

// rejection is a refusal as its author wrote it.
type rejection struct {
	code           cluster.Code
	detail, clears string
	evicts         bool
}

func newVerdicts(size int) *verdicts {
	v := &verdicts{reasons: make([]uint16, size), numbers: make(map[rejection]uint16)}
	for i := range v.reasons {
		v.reasons[i] = unjudged
	}
	return v
}

// number returns the reason for a stall, nil being allowed, and adds it to the table if it is new.
func (v *verdicts) number(plugin string, s *Stall) uint16 {
	if s == nil {
		return allowed
	}
	if s == v.last {
		return v.lastIs
	}
	r := rejection{code: s.Code, detail: s.Detail, clears: s.Clears, evicts: s.Evicts}
	if r.detail == "" {
		r.detail = s.Message
	}
	n, ok := v.numbers[r]
	switch {
	case ok:
	case len(v.table) < maxReasons:
		n = v.add(plugin, r)
	default:
		n = v.fold(plugin, r)
	}
	v.last, v.lastIs = s, n
	return n
}

// fold returns a reason for a rejection that the table has no room for: its code alone, or a word for all codes.
func (v *verdicts) fold(plugin string, r rejection) uint16 {
	r.detail, r.clears = "", ""
	if n, ok := v.numbers[r]; ok {
		return n
	}
	if len(v.table) >= maxCodes {
		r.code = "too_many_reasons"
		if n, ok := v.numbers[r]; ok {
			return n
		}
	}
	return v.add(plugin, r)
}

func (v *verdicts) add(plugin string, r rejection) uint16 {
	v.table = append(v.table, &pluginv1.Rejection{
		Code: cut(qualified(plugin, r.code)), Detail: cut(r.detail), Clears: cut(r.clears), Evicts: r.evicts,
	})
	n := uint16(len(v.table))
	v.numbers[r] = n
	return n
}

// crowded reports whether the table is full and should be made anew, without what no node has any more.
func (v *verdicts) crowded() bool { return len(v.table) >= maxReasons }

// set records what is said of one node.
func (v *verdicts) set(index uint32, reason uint16, rank int8) {
	for int(index) >= len(v.reasons) {
		v.reasons = append(v.reasons, unjudged)
	}
	v.reasons[index] = reason
	if rank != 0 && v.ranks == nil {
		v.ranks = make([]int8, len(v.reasons))
	}
	if v.ranks == nil {
		return
	}
	for len(v.ranks) < len(v.reasons) {
		v.ranks = append(v.ranks, 0)
	}
	v.ranks[index] = rank
}

// reason returns what was said of a node.
func (v *verdicts) reason(index uint32) uint16 {
	if int(index) >= len(v.reasons) {
		return unjudged
	}
	return v.reasons[index]
}

func (v *verdicts) rank(index uint32) int8 {
	if int(index) >= len(v.ranks) {
		return 0
	}
	return v.ranks[index]
}

// same reports whether both say the same of every node, in the same numbers.
func (v *verdicts) same(w *verdicts) bool {
	return slices.Equal(v.reasons, w.reasons) && slices.Equal(v.ranks, w.ranks) &&
		slices.EqualFunc(v.table, w.table, func(a, b *pluginv1.Rejection) bool {
			return a.Code == b.Code && a.Detail == b.Detail && a.Clears == b.Clears && a.Evicts == b.Evicts
		})
}
