package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// TaskHistory tells what became of a task: by whom, on what facts and at which revision.
func (v *service) TaskHistory(ctx context.Context, req *connect.Request[apiv1.TaskHistoryRequest]) (*connect.Response[apiv1.TaskHistoryResponse], error) {
	state := v.view()
	id := cluster.TaskID(req.Msg.GetTask())
	now, err := find(state, req.Msg.GetTask())
	if err == nil {
		id = now.ID
	}
	job, slot, born, bad := id.Parts()
	if bad != nil || err != nil && born > state.Revision {
		return nil, err
	}
	l := &life{
		state: state, id: id, job: job, slot: slot, prior: map[string]*cluster.Stall{}, open: map[string]*standing{},
		out: &apiv1.TaskHistoryResponse{Task: string(id), ReachesBackTo: uint64(born)},
	}
	if now != nil {
		l.group = engine.GroupKey(now)
		l.out.Now = taskView(state, now)
		if err := v.explain(ctx, l.out.GetNow().GetStalls(), id); err != nil {
			return nil, err
		}
	}
	if err := l.read(ctx, v.opts.History, born); err != nil {
		return nil, err
	}
	if now == nil && !slices.ContainsFunc(l.out.GetEntries(), func(e *apiv1.HistoryEntry) bool { return strings.HasPrefix(e.GetKind(), "task_") }) {
		return nil, notFound("task", string(id), "the log has nothing of it any more")
	}
	if now != nil {
		l.remember(now)
	}
	return connect.NewResponse(l.out), nil
}

// life gathers what became of one task.
type life struct {
	state *engine.State
	id    cluster.TaskID
	job   string
	slot  cluster.SlotKey

	group string         // with which it waits for a node
	node  cluster.NodeID // "" until it is placed
	dead  bool
	gone  bool                      // its record is
	asked *cluster.Job              // its job as it was written last, before the turn that is read
	prior map[string]*cluster.Stall // of its slot and of groups of its job, before it was made
	open  map[string]*standing      // by key
	out   *apiv1.TaskHistoryResponse
}

// lookBack is how many revisions before a task was made are read for what it found waiting already.
const lookBack = 2000

// read goes through the log from where the task was made, or from as far back as it reaches.
func (l *life) read(ctx context.Context, history History, born cluster.Revision) error {
	if history == nil {
		l.out.Cut, l.out.ReachesBackTo = "this server keeps no log: only what the task's record says is known", uint64(l.state.Revision)+1
		return nil
	}
	from, err := oldest(ctx, history, max(born, lookBack+1)-lookBack, l.state.Revision)
	if err != nil {
		return err
	}
	if from > born {
		l.out.Cut = fmt.Sprintf("the log reaches back to revision %d, and the task was made at revision %d: of what was before only its record tells", from, born)
		l.out.ReachesBackTo = uint64(from)
	}
	if from > l.state.Revision {
		return nil
	}
	err = history.History(ctx, from, func(turn engine.Turn) bool {
		if turn.State.Revision > l.state.Revision || l.gone || ctx.Err() != nil {
			return false
		}
		l.turn(turn)
		return true
	})
	return cmp.Or(err, ctx.Err())
}

// oldest returns the first revision from on up to head that the log still has; head+1 if it has none.
func oldest(ctx context.Context, history History, from, head cluster.Revision) (cluster.Revision, error) {
	has := func(r cluster.Revision) (bool, error) {
		err := history.History(ctx, r, func(engine.Turn) bool { return false })
		if errors.Is(err, ErrCompacted) {
			return false, nil
		}
		return err == nil, err
	}
	if ok, err := has(from); ok || err != nil {
		return from, err
	}
	lo, hi := from, head+1 // the log has not lo; it has hi, or hi is head+1
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		ok, err := has(mid)
		switch {
		case err != nil:
			return 0, err
		case ok:
			hi = mid
		default:
			lo = mid
		}
	}
	return hi, nil
}

// turn takes what one turn has to do with the task. The log's turns have what was written only, so names come from the newest state.
func (l *life) turn(t engine.Turn) {
	defer l.knowJob(t)
	named := *l.state
	named.Revision, named.Now = t.State.Revision, t.State.Now
	shown := engine.Turn{Before: l.beforeTurn(), State: &named}
	_, _, born, _ := l.id.Parts()
	if t.State.Revision < born {
		l.before(t)
		return
	}
	if t.State.Revision == born {
		l.found(t)
	}
	for _, a := range t.Changes {
		if s, ok := a.Change.(cluster.PutStall); ok {
			l.stalled(t.State, s.Stall)
			continue
		}
		if s, ok := a.Change.(cluster.RemoveStall); ok {
			l.cleared(t.State, s.Key)
			continue
		}
		if !l.concerns(t.State, a.Change) {
			continue
		}
		e := eventOf(shown, a.Change)
		if e == nil {
			continue
		}
		l.add(t.State, e, a)
	}
}

// knowJob keeps the record of the task's job as a turn wrote it, so that a later one can be told what it changed.
func (l *life) knowJob(t engine.Turn) {
	if j := t.State.Job(l.job); j != nil {
		l.asked = j
	}
}

// beforeTurn is the state before a turn, as far as it is known: what the log's turns wrote of the job.
func (l *life) beforeTurn() *engine.State {
	st := engine.NewState(l.state.ClusterID)
	if l.asked != nil {
		if err := st.Restore(l.asked); err != nil {
			panic(err) // a job is a record
		}
	}
	return st
}

// before notes what waits that the task might wait with.
func (l *life) before(t engine.Turn) {
	for _, a := range t.Changes {
		switch c := a.Change.(type) {
		case cluster.PutStall:
			if s := c.Stall.Subject; s.Kind == cluster.SubjectSlot || s.Kind == cluster.SubjectGroup && s.Job() == l.job {
				l.prior[c.Stall.Key()] = c.Stall
			}
		case cluster.RemoveStall:
			delete(l.prior, c.Key)
		}
	}
}

// found notes what waited already when the task was made.
func (l *life) found(t engine.Turn) {
	for _, a := range t.Changes {
		if c, ok := a.Change.(cluster.AddTask); ok && c.Task.ID == l.id {
			l.group = engine.GroupKey(c.Task)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.prior)) {
		l.stalled(t.State, l.prior[key])
	}
}

// concerns reports whether a change is about the task, or about its job or node while it lives.
func (l *life) concerns(s *engine.State, c cluster.Change) bool {
	switch c := c.(type) {
	case cluster.AddTask:
		if c.Task.ID == l.id {
			l.group = engine.GroupKey(c.Task)
		}
		return c.Task.ID == l.id
	case cluster.SetDesired:
		return c.Task == l.id
	case cluster.SetPlacement:
		if c.Task == l.id {
			l.node = c.Placement.Node
			l.end(s, cluster.SubjectGroup)
		}
		return c.Task == l.id
	case cluster.SetObserved:
		if c.Task == l.id && c.Observed.State.Terminal() {
			l.dead = true
			l.end(s, cluster.SubjectGroup, cluster.SubjectSlot)
		}
		return c.Task == l.id
	case cluster.SetCondition:
		return c.Task == l.id
	case cluster.RemoveTask:
		if c.Task == l.id {
			l.gone = true
			l.end(s, cluster.SubjectGroup, cluster.SubjectSlot, cluster.SubjectTask)
		}
		return c.Task == l.id
	case cluster.PutJob:
		return !l.dead && c.Job.Name == l.job
	case cluster.RemoveJob:
		return !l.dead && c.Job == l.job
	case cluster.SetNodeSpec:
		return !l.dead && c.Node == l.node
	case cluster.SetNodeStatus:
		return !l.dead && c.Node == l.node
	}
	return false
}

func (l *life) add(s *engine.State, e *apiv1.Event, a engine.Authored) {
	x := &apiv1.HistoryEntry{
		Revision: uint64(s.Revision), Time: timestamp(s.Now), Kind: e.GetKind(), Text: e.GetText(), Author: string(a.By), By: a.For, Node: e.GetNode(),
	}
	switch c := a.Change.(type) {
	case cluster.AddTask:
		x.Facts = l.askedFor(c.Task)
	case cluster.SetPlacement:
		x.Node, x.Facts = nodeName(l.state, c.Placement.Node), among(&c.Placement.Among)
	case cluster.SetDesired:
		if c.Desired.By != cluster.SourceCore {
			x.By = c.Desired.By
		}
		if c.Desired.Grace >= 0 && !c.Desired.State.Wanted() {
			x.Facts = append(x.Facts, fmt.Sprintf("it has %s to stop", c.Desired.Grace))
		}
	}
	l.out.Entries = append(l.out.Entries, x)
}

// askedFor says by which version of its job a task was made, and who asked for that.
func (l *life) askedFor(t *cluster.Task) []string {
	text := fmt.Sprintf("version %d of job %s", t.JobVersion, t.Job)
	j := l.state.Job(t.Job)
	if j == nil || j.CreatedRev > t.CreatedRev {
		return []string{text + ", which is not there any more"}
	}
	version := j.VersionOf(t.JobVersion)
	if version == nil {
		return []string{text + ", which is not kept any more"}
	}
	if version.By != "" {
		text += ", asked for by " + version.By
	}
	return []string{because(text, version.Reason)}
}

// among says from how many nodes a task's was chosen, and what spoke for it.
func among(a *cluster.Among) []string {
	if a.Nodes == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("%d of %d nodes were ready, active and allowed by filters and slot", a.Allowed, a.Nodes)}
	if a.Rank != 0 {
		out = append(out, fmt.Sprintf("plugins rank it %d", a.Rank))
	}
	return append(out, fmt.Sprintf("%d of the job's tasks were there already", a.Beside))
}

// remember adds what the task's record says of times that the log does not reach.
func (l *life) remember(t *cluster.Task) {
	has := func(kind string) bool {
		return slices.ContainsFunc(l.out.GetEntries(), func(e *apiv1.HistoryEntry) bool { return e.GetKind() == kind })
	}
	shown := engine.Turn{Before: engine.NewState(l.state.ClusterID), State: l.state}
	var changes []cluster.Change
	if !has(TaskCreated) {
		changes = append(changes, cluster.AddTask{Task: t})
	}
	if !has(TaskPlaced) && t.Placed() {
		changes = append(changes, cluster.SetPlacement{Task: t.ID, Placement: t.Placement})
	}
	if !has(TaskDesired) && !t.Desired.State.Wanted() {
		changes = append(changes, cluster.SetDesired{Task: t.ID, Desired: t.Desired})
	}
	if !has(TaskObserved) && t.Observed.State != cluster.ObservedNone {
		changes = append(changes, cluster.SetObserved{Task: t.ID, Observed: t.Observed})
	}
	for _, c := range changes {
		at, rev := t.Created, t.CreatedRev
		switch c := c.(type) {
		case cluster.SetPlacement:
			at, rev = c.Placement.Since, 0
		case cluster.SetDesired:
			at, rev = c.Desired.Since, 0
		case cluster.SetObserved:
			at, rev = c.Observed.At, 0
		}
		then := engine.State{Revision: rev, Now: at}
		l.add(&then, eventOf(shown, c), engine.Authored{By: c.Owner(), Change: c})
	}
	slices.SortStableFunc(l.out.GetEntries(), func(a, b *apiv1.HistoryEntry) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	for _, s := range l.out.GetNow().GetStalls() { // those that the log does not know stand since longer than it reaches
		if !slices.ContainsFunc(l.out.GetStalls(), func(p *apiv1.PastStall) bool {
			return p.GetToRevision() == 0 && p.GetStall().GetSource() == s.GetSource()
		}) {
			l.out.Stalls = append(l.out.Stalls, &apiv1.PastStall{Stall: s})
		}
	}
}

// waitsWith reports whether a stall's subject is what the task is, fills, or waits with.
func (l *life) waitsWith(s cluster.Subject) bool {
	switch s.Kind {
	case cluster.SubjectTask:
		return s.ID == string(l.id)
	case cluster.SubjectSlot:
		return s.ID == l.job+"/"+string(l.slot) && !l.dead
	case cluster.SubjectGroup:
		return s.ID == l.group && l.node == ""
	default:
		return false
	}
}

func (l *life) stalled(s *engine.State, stall *cluster.Stall) {
	if !l.waitsWith(stall.Subject) {
		return
	}
	x := l.open[stall.Key()]
	if x == nil {
		x = &standing{past: &apiv1.PastStall{FromRevision: uint64(s.Revision)}}
		l.open[stall.Key()] = x
		l.out.Stalls = append(l.out.Stalls, x.past)
	} else {
		x.past.Changes++
		x.note(s.Now)
	}
	x.past.Stall, x.since = stallView(l.state, stall), s.Now
}

func (l *life) cleared(s *engine.State, key string) {
	if x := l.open[key]; x != nil {
		x.note(s.Now)
		x.past.Stall, x.past.ToRevision, x.past.Until = x.most, uint64(s.Revision), timestamp(s.Now)
		delete(l.open, key)
	}
}

// standing is a stall that stands, as it was read so far.
type standing struct {
	past    *apiv1.PastStall
	since   cluster.Time // when it became as it is now
	most    *apiv1.Stall // as it was for longest
	longest time.Duration
}

// note notes how it was up to a moment. Of one that is over, what is told is how it was for longest, not how it was in the moment in which it went.
func (x *standing) note(now cluster.Time) {
	if d := now.Sub(x.since); x.most == nil || d > x.longest {
		x.most, x.longest = x.past.GetStall(), d
	}
}

// end ends the task's part in what waits of some kinds: it waits for that no longer, whatever else does.
func (l *life) end(s *engine.State, kinds ...cluster.SubjectKind) {
	for _, key := range slices.Sorted(maps.Keys(l.open)) {
		if slices.Contains(kinds, cluster.SubjectKind(l.open[key].past.GetStall().GetSubject().GetKind())) {
			l.cleared(s, key)
		}
	}
}
