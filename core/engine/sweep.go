package engine

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// sweep is the net below the marks that say what changed: it looks at everything again, slowly, a little at a time and in a fixed order. What it catches somebody
// forgot to mark. It follows engine time and is not stored: a server that starts looks at everything anyway.
//
// Owner: the engine's goroutine.
type sweep struct {
	began time.Duration // engine time at which the round began
	next  time.Duration // engine time of the next look; 0: no round has begun
	every time.Duration // from one look to the next
	most  int           // things that are looked at together, about
	round uint64

	part   sweepPart
	node   uint32 // the next one to be looked at, by index
	job    string // that is looked at, or was last
	slot   string // of it, JOB/KEY, that was looked at last; "": none yet
	counts recount

	found  Swept // in this look
	caught int   // in this round
	latest Caught

	read  *jobTasks // memory for decisions that change nothing
	slots []string  // memory for ids of slots
	keys  []cluster.SlotKey
	use   place.Node     // memory for what the tasks of a node take
	task  cluster.Task   // memory for one task
	nodes []int          // all indexes of nodes
	among *place.Cluster // in this look, once it was asked for
}

// sweepPart is what is looked at in one stretch. What is counted and listed comes first, since the rest goes by it.
type sweepPart uint8

const (
	sweepCounts sweepPart = iota
	sweepNodes
	sweepJobs
	sweepEnd
)

// A round has so many looks at most, which is one a second where a round takes ten minutes, and as few as there can be with so many things in each: a server
// with little to look at is left alone. A look at more than the last would keep others waiting; with more than 600 times as much a round takes longer.
const (
	sweepLooks = 600
	sweepFew   = 64
	sweepMost  = 4096
)

// perLook says how many of what is looked at more cheaply count as much as one slot.
const (
	tasksPerLook  = 4  // of a node, summed up
	nodesPerLook  = 16 // asked whether a group fits
	countsPerLook = 32 // records that are counted
)

// look has the net look at a little more once it is time to, and returns how long it is to the next time. It looks only when nothing is left to be decided: what
// was marked is not missed.
func (e *Engine) look(now cluster.Time) time.Duration {
	s := &e.sweep
	s.found = Swept{}
	nodes, jobs, tasks, _ := e.work.Counts()
	if e.cfg.Sweep <= 0 || e.still || nodes+jobs+tasks == 0 {
		return 0
	}
	if s.next == 0 {
		e.beginRound(now)
	}
	switch {
	case now.Engine < s.next:
		return s.next - now.Engine
	case e.more || len(e.dirtyJobs) > 0 || len(e.changedNodes) > 0:
		return s.every
	}
	s.among = nil
	if s.read == nil {
		s.read = &jobTasks{}
	}
	for left := s.most; left > 0 && s.part < sweepEnd; {
		switch s.part {
		case sweepCounts:
			left -= e.sweepCounts(left)
		case sweepNodes:
			left -= e.sweepNode(now)
		case sweepJobs:
			left -= e.sweepJob(left, now)
		case sweepEnd:
		}
	}
	s.next = now.Engine + s.every
	if s.part == sweepEnd {
		s.found.Round = true
		e.sayCaught()
		e.beginRound(now)
		return s.next - now.Engine
	}
	if len(s.found.Caught) > 0 {
		e.sayCaught()
	}
	return s.every
}

// beginRound begins to look at everything once more, as slowly as what there is allows.
func (e *Engine) beginRound(now cluster.Time) {
	s := &e.sweep
	size := len(e.byIndex) + e.work.jobs.Len() + e.work.slots.Len() + e.work.tasks.Len()/tasksPerLook
	size += (e.work.slots.Len() + e.work.tasks.Len()) / countsPerLook
	size += len(e.groups) * (len(e.byIndex)/nodesPerLook + 1)
	looks := min(max(size/sweepFew, 1), sweepLooks)
	s.every = max(e.cfg.Sweep/time.Duration(looks), 1)
	s.most = min(size/looks+sweepFew, sweepMost) // rather too much, so that no round needs another look
	due := s.began + e.cfg.Sweep
	s.began = now.Engine
	if s.round++; s.round > 1 && due > now.Engine {
		s.began = due // the round before was over early
	}
	s.next = s.began + s.every
	s.part, s.node, s.job, s.slot, s.counts, s.caught = sweepCounts, 0, "", "", recount{}, 0
}

// catch notes what the net caught.
func (e *Engine) catch(what Missed, about, format string, args ...any) {
	s := &e.sweep
	s.latest = Caught{What: what, About: about, Detail: fmt.Sprintf(format, args...)}
	s.found.Caught = append(s.found.Caught, s.latest)
	s.caught++
	e.more = true
}

// sayCaught has a stall of the cluster say that the net caught something, until a whole round catches nothing.
func (e *Engine) sayCaught() {
	s := &e.sweep
	subject := aboutCluster("net")
	before := e.work.StallsOf(subject)
	switch {
	case s.caught > 0:
		e.setStalls(before, []cluster.Stall{{
			Subject: subject, Source: cluster.SourceCore, Code: cluster.CodeNetCaught,
			Message: fmt.Sprintf("the engine had missed something, which its slow look at everything found and put right: %s of %s: %s; this is a fault of Setpoint: please report it",
				s.latest.What, s.latest.About, s.latest.Detail),
			Clears: "a whole look at everything finds nothing",
		}})
	case s.found.Round && len(before) > 0:
		e.setStalls(before, nil)
	}
}

// cluster returns the nodes as place sees them, which is found out once in a look.
func (s *sweep) cluster(e *Engine) place.Cluster {
	if s.among == nil {
		c := e.cluster()
		s.among = &c
	}
	return *s.among
}
