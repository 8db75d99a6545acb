package engine

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// setStalls replaces what was said about something by what is said now. What is the same is not written; what goes on keeps the time at which it began, and
// the time of its last change unless code or counts are others.
func (e *Engine) setStalls(before []*cluster.Stall, now []cluster.Stall) {
	e.setStallsWithin(before, now, math.MaxInt)
}

// setStallsWithin is setStalls until the turn has touched that many records. It reports whether it came to the end: what is not said or ended yet follows when
// it is called again with the same.
func (e *Engine) setStallsWithin(before []*cluster.Stall, now []cluster.Stall, most int) (all bool) {
	keep := make(map[string]bool, len(now))
	for i := range now {
		keep[now[i].Key()] = true
	}
	for _, s := range before {
		switch key := s.Key(); {
		case keep[key]:
		case len(e.touched) >= most:
			return false
		default:
			e.apply(cluster.AuthorEngine, cluster.RemoveStall{Key: key})
		}
	}
	for _, s := range now {
		key := s.Key()
		if !keep[key] {
			continue // said before
		}
		delete(keep, key)
		if len(e.touched) >= most {
			return false
		}
		e.putStall(s)
	}
	return true
}

func (e *Engine) putStall(s cluster.Stall) {
	old, ok := e.work.stalls.Get(s.Key())
	if ok && old.Same(&s) {
		return
	}
	s.Since, s.Changed = e.work.Now, e.work.Now
	if ok {
		s.Since = old.Since
		if old.Code == s.Code && old.Facts.Nodes == s.Facts.Nodes && slices.Equal(old.Facts.Excluded, s.Facts.Excluded) {
			s.Changed = old.Changed
		}
	}
	e.apply(cluster.AuthorEngine, cluster.PutStall{Stall: &s})
}

// lookedStalls returns what reconcile said before about a job, its update and those of its slots that it has looked at now.
func (e *Engine) lookedStalls(job string, r *reconcile.Result) []*cluster.Stall {
	keys, all := r.Looked()
	if all {
		return e.jobStalls(job)
	}
	out := e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: job})
	out = append(out, e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectUpdate, ID: job})...)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		out = append(out, e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: job + "/" + string(key)})...)
	}
	return out
}

// jobStalls returns what reconcile said about a job, its slots and its update.
func (e *Engine) jobStalls(job string) []*cluster.Stall {
	out := e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectJob, ID: job})
	out = append(out, e.work.StallsOf(cluster.Subject{Kind: cluster.SubjectUpdate, ID: job})...)
	prefix := cluster.Subject{Kind: cluster.SubjectSlot, ID: job + "/"}.String()
	return append(out, e.work.stallsWithPrefix(prefix)...)
}

// noteStall puts or ends a stall of the cluster that somebody else knows of.
func (e *Engine) noteStall(op NoteStall) (any, error) {
	s := cluster.Stall{Subject: aboutCluster(op.About), Source: cluster.SourceCore, Code: op.Code, Message: op.Message, Clears: op.Clears}
	if !op.Over {
		e.putStall(s)
	} else if _, there := e.work.stalls.Get(s.Key()); there {
		e.apply(cluster.AuthorEngine, cluster.RemoveStall{Key: s.Key()})
	}
	return nil, nil
}

// forgetCopy ends what was noted of a node that has seen more than this state, since it is not waited for any more.
func (e *Engine) forgetCopy(id cluster.NodeID) {
	if stall := e.work.Noted(string(id), cluster.CodeOlderCopy); stall != nil {
		e.apply(cluster.AuthorEngine, cluster.RemoveStall{Key: stall.Key()})
	}
}

// IsOlderCopy reports whether a record's key is that of a note that a state is an older copy of what a node has seen.
func IsOlderCopy(key string) bool {
	return strings.HasPrefix(key, "stall/") && strings.HasSuffix(key, "|"+string(cluster.CodeOlderCopy))
}

func aboutCluster(what string) cluster.Subject {
	return cluster.Subject{Kind: cluster.SubjectCluster, ID: what}
}

// NotedOf yields about what a code was noted.
func (s *State) NotedOf(code cluster.Code) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, stall := range s.stallsWithPrefix(aboutCluster("").String()) {
			if stall.Code == code && stall.Source == cluster.SourceCore && !yield(stall.Subject.ID) {
				return
			}
		}
	}
}

// Noted returns a stall of the cluster that was noted, or nil.
func (s *State) Noted(about string, code cluster.Code) *cluster.Stall {
	stall, _ := s.stalls.Get((&cluster.Stall{Subject: aboutCluster(about), Source: cluster.SourceCore, Code: code}).Key())
	return stall
}
