package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Tick is the step of time. What happens within one tick has no order but the one in which the world goes round.
const Tick = 50 * time.Millisecond

// epoch is the wall clock when a world begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// World is a cluster under simulation.
type World struct {
	Engine *engine.Engine
	Agents []*Agent // in the order in which they joined

	// CommitFault is asked before each commit what becomes of it; nil: it succeeds.
	CommitFault func() Outcome

	// Ahead is asked before each turn whether another is to be decided before it is committed; nil: there is none. The other takes what an operator asks for, and
	// otherwise goes on where the first ended; inputs of one moment stay together, since what the checkers know is of that moment.
	Ahead func() bool

	behind   bool          // the turn that is delivered left something to be decided
	now      cluster.Time  // the engine's
	real     time.Duration // the world's, in which agents and plugins live; it goes on while the daemon is away
	away     time.Duration // the daemon is dead until then, in the world's time; 0: it runs
	inputs   []engine.Input
	wake     time.Duration // engine time at which the engine wants to step
	plugins  []*Plugin
	store    *journal
	cfg      engine.Config
	session  uint64
	calm     bool // processes end by themselves only where that is their purpose
	Steps    int
	Failures []string        // invariants that did not hold
	Caught   []engine.Caught // what only the net saw

	// Forgetful says that something is to be forgotten on purpose: then the net may catch it.
	Forgetful bool

	returned map[cluster.TaskID]bool // tasks whose node was down at some time
	books    books
	Trace    []string // what happened, for a failure's report; the last lines
	Digest   string   // of all changes that were committed, in their order
	Outline  string   // the same without times

	holdIn  *engine.State // of which holders is
	holders []holding
}

// Outcome is what becomes of a commit.
type Outcome uint8

// The outcomes of a commit.
const (
	Durable  Outcome = iota
	NotDone          // it failed and nothing was written
	NotKnown         // it was written, and the engine was told that it failed
)

// ErrCommit is returned for an operation whose commit failed: it may have been carried out or not.
var ErrCommit = errors.New("the commit failed")

// New returns a world with the given plugins and no nodes.
func New(plugins ...sdk.Plugin) *World { return NewWith(engine.Config{}, plugins...) }

// NewWith returns a world whose engine has the given limits.
func NewWith(cfg engine.Config, plugins ...sdk.Plugin) *World {
	w := &World{now: cluster.Time{Wall: epoch}, store: newJournal(), returned: map[cluster.TaskID]bool{}, books: newBooks()}
	w.cfg = cfg
	w.cfg.ClusterID, w.cfg.Heartbeat, w.cfg.Doubt = "sim", time.Second, true
	w.cfg.Sweep = cmp.Or(w.cfg.Sweep, netRound)
	for _, p := range plugins {
		w.cfg.Plugins = append(w.cfg.Plugins, p.Name)
		w.plugins = append(w.plugins, newPlugin(p))
	}
	w.Engine = engine.New(w.cfg, engine.NewState("sim"), w.now)
	for _, p := range w.plugins {
		w.StartPlugin(p.def.Name)
	}
	return w
}

// Now returns the engine's time.
func (w *World) Now() cluster.Time { return w.now }

// State returns the newest committed state.
func (w *World) State() *engine.State { return w.Engine.View() }

// Do carries out an operation at once and returns its result. Without a daemon, or if the commit fails, the error is ErrCommit.
func (w *World) Do(op engine.Op) (any, error) {
	if w.away > 0 {
		return nil, ErrCommit
	}
	w.tracef("do %T %+v", op, brief(op))
	out, ok := w.step(engine.Command("test", op))
	if !ok {
		return nil, ErrCommit
	}
	return out.Replies[len(out.Replies)-1].Result()
}

// brief leaves out of an operation what is too long to read.
func brief(op engine.Op) any {
	if r, ok := op.(engine.RunJob); ok {
		s := r.Spec
		return fmt.Sprintf("%s %s count %d cpu %d env %v ports %d per node %d budget %v %s", s.Name, s.Type, s.Count, s.Task.Resources.MilliCPU, s.Task.Env,
			len(s.Task.Ports), s.MaxPerNode, s.MaxUnavailable, s.Update.Order)
	}
	return op
}

// MustDo carries out an operation that is expected to be accepted.
func (w *World) MustDo(op engine.Op) any {
	v, err := w.Do(op)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", op, err))
	}
	return v
}

// Run lets time pass.
func (w *World) Run(d time.Duration) {
	for end := w.real + d; w.real < end; {
		w.Tick()
	}
}

// RunUntil lets time pass until ok, for at most limit. It reports whether ok came true.
func (w *World) RunUntil(limit time.Duration, ok func() bool) bool {
	for end := w.real + limit; w.real < end; {
		if ok() {
			return true
		}
		w.Tick()
	}
	return ok()
}

// Tick lets one step of time pass: agents act and speak, plugins answer, the engine decides.
func (w *World) Tick() {
	w.real += Tick
	if w.away > 0 && w.real >= w.away {
		w.load()
	}
	if w.away == 0 {
		w.now = w.now.Add(Tick)
	}
	for _, a := range w.Agents {
		a.act(w)
	}
	if w.away > 0 {
		return
	}
	for _, p := range w.plugins {
		p.answer(w)
	}
	if len(w.inputs) > 0 || w.wake > 0 && w.now.Engine >= w.wake {
		w.step()
	}
}

// JumpClock moves the wall clock. Engine time goes on.
func (w *World) JumpClock(d time.Duration) {
	w.now.Wall += int64(d)
	w.tracef("the wall clock jumps by %s", d)
}

func (w *World) send(in ...engine.Input) {
	if w.away == 0 {
		w.inputs = append(w.inputs, in...)
	}
}

// step has the engine decide about what waits, commits and delivers. It reports whether the daemon survived that.
func (w *World) step(more ...engine.Input) (engine.Output, bool) {
	in := w.inputs
	w.inputs = nil
	if w.Ahead != nil && w.Ahead() {
		w.looked("turns decided ahead")
		one, two := w.decide(in), w.decide(more)
		return two, w.deliver(one) && w.deliver(two)
	}
	out := w.decide(append(in, more...))
	return out, w.deliver(out)
}

// decide has the engine decide one turn.
func (w *World) decide(in []engine.Input) engine.Output {
	w.Steps++
	w.books.stepping = true
	out := w.Engine.Step(in, w.now)
	w.books.stepping = false
	w.checkNet(out.Swept)
	w.wake = 0
	if out.Wake > 0 {
		w.wake = w.now.Engine + out.Wake
	}
	if out.More {
		w.wake = w.now.Engine + 1
	}
	return out
}

// deliver makes a turn durable and tells of it, unless the daemon dies of that.
func (w *World) deliver(out engine.Output) bool {
	w.behind = out.More
	if len(out.Turn.Changes) > 0 && !w.commit(out.Turn) {
		return false
	}
	for _, u := range out.Plugins {
		w.plugin(u.Plugin).tell(u)
	}
	for _, f := range out.Acks {
		f()
	}
	return true
}

// commit makes a turn durable and known, unless that fails: then the daemon dies and loads again what was written.
func (w *World) commit(t engine.Turn) bool {
	outcome := Durable
	if w.CommitFault != nil {
		outcome = w.CommitFault()
	}
	if outcome != NotDone {
		puts, deletes := w.Engine.Records(t)
		w.checkLimits(t, len(puts)+len(deletes))
		w.store.commit(t.State, puts, deletes)
		w.committed(t)
	}
	if outcome != Durable {
		w.tracef("the commit of r%d failed, written: %v", t.State.Revision, outcome == NotKnown)
		w.die(Tick)
		return false
	}
	w.Engine.Publish(t)
	touched := touchedNodes(t)
	for _, a := range w.Agents {
		if touched[a.Node] {
			a.tell(w, t.State)
		}
	}
	return true
}

// committed checks and records what a turn changed for ever.
func (w *World) committed(t engine.Turn) {
	for _, c := range t.Changes {
		w.tracef("r%d %s %s", t.State.Revision, c.By, describe(c.Change))
	}
	w.checkTurn(t)
	w.checkStalls(t)
	w.checkWriters(t)
	w.checkPace(t)
	w.checkGrants(t)
	w.checkRate(t)
	w.checkRebalances(t)
	w.seen(t)
	w.digest(t)
}

// touchedNodes returns the nodes whose agents are told of a turn.
func touchedNodes(t engine.Turn) map[cluster.NodeID]bool {
	out := map[cluster.NodeID]bool{}
	task := func(id cluster.TaskID) {
		for _, s := range [...]*engine.State{t.Before, t.State} {
			if x := s.Task(id); x != nil {
				out[x.Placement.Node] = true
			}
		}
	}
	for _, c := range t.Changes {
		switch c := c.Change.(type) {
		case cluster.SetDesired:
			task(c.Task)
		case cluster.SetPlacement:
			task(c.Task)
		case cluster.SetObserved:
			task(c.Task)
		case cluster.SetCondition:
			task(c.Task)
		case cluster.RemoveTask:
			task(c.Task)
		case cluster.SetNodeStatus:
			out[c.Node] = true
		case cluster.SetNodeSpec:
			out[c.Node] = true
		case cluster.RemoveNode:
			out[c.Node] = true
		}
	}
	return out
}

// Restart ends the daemon and starts it again from what was committed. Agents and plugins begin new sessions.
func (w *World) Restart() {
	w.checkJournal()
	w.die(0)
	w.load()
	w.step()
}

// Stop ends the daemon for a while. Agents go on.
func (w *World) Stop(d time.Duration) {
	w.checkJournal()
	w.die(max(d, Tick))
}

func (w *World) die(d time.Duration) {
	w.tracef("the daemon ends")
	w.inputs, w.wake = nil, 0
	w.away = w.real + d
	for _, a := range w.Agents {
		a.HangUp()
		a.strays, a.spoke = 0, false
	}
	for _, p := range w.plugins {
		p.Dead = true
	}
}

// load starts a daemon from what was committed. Engine time goes on where it stood at the last commit.
func (w *World) load() {
	w.away = 0
	w.tracef("the daemon starts")
	st := w.store.load("sim")
	w.now.Engine = st.Now.Engine
	w.books.loaded(st)
	w.Engine = engine.New(w.cfg, st, w.now)
	for _, p := range w.plugins {
		w.StartPlugin(p.def.Name)
	}
}

func (w *World) plugin(name string) *Plugin {
	i := slices.IndexFunc(w.plugins, func(p *Plugin) bool { return p.def.Name == name })
	return w.plugins[i]
}

func (w *World) tracef(format string, args ...any) {
	w.Trace = append(w.Trace, fmt.Sprintf("%8s %8s ", w.real, w.now.Engine)+fmt.Sprintf(format, args...))
	if len(w.Trace) > 8000 {
		w.Trace = w.Trace[4000:]
	}
}

func (w *World) failf(format string, args ...any) {
	w.Failures = append(w.Failures, fmt.Sprintf("%s: ", w.real)+fmt.Sprintf(format, args...))
	w.tracef("FAILURE "+format, args...)
}

func describe(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.AddTask:
		return fmt.Sprintf("AddTask %s (%s)", c.Task.ID, c.Task.Why)
	case cluster.PutSlot:
		s := c.Slot
		return fmt.Sprintf("PutSlot %s v%d moved by %q done %v unwanted %v held %q claim %q spent %d", s.ID(), s.Version, s.MovedBy, s.Done, s.Unwanted, s.Held, s.Claim, len(s.Restarts))
	case cluster.PutStall:
		return fmt.Sprintf("PutStall %s %s %s %v", c.Stall.Key(), c.Stall.Code, c.Stall.Message, c.Stall.Facts)
	case cluster.SetObserved:
		return fmt.Sprintf("SetObserved %s %s healthy %v", c.Task, c.Observed.State, c.Observed.Healthy)
	case cluster.SetPlacement:
		return fmt.Sprintf("SetPlacement %s %s %v", c.Task, c.Placement.Node, c.Placement.Ports)
	case cluster.SetDesired:
		return fmt.Sprintf("SetDesired %s %s (%s) by %s grace %s", c.Task, c.Desired.State, c.Desired.Reason, c.Desired.By, c.Desired.Grace)
	case cluster.SetCondition:
		return fmt.Sprintf("SetCondition %s %s", c.Task, c.Condition.State)
	case cluster.SetNodeStatus:
		return fmt.Sprintf("SetNodeStatus %s %s", c.Node, c.Status.State)
	case cluster.SetNodeSpec:
		return fmt.Sprintf("SetNodeSpec %s %s %v %v", c.Node, c.Spec.Availability, c.Spec.Labels, c.Spec.Decommissioned)
	case cluster.SetDrain:
		return fmt.Sprintf("SetDrain %s %s left %d lost %d", c.Node, c.Drain.State, c.Drain.Left, c.Drain.Lost)
	case cluster.AddNode:
		return fmt.Sprintf("AddNode %s", c.Node.ID)
	case cluster.SetUpdate:
		u := c.Update
		return fmt.Sprintf("SetUpdate %s %s %d->%d moved %d of %d failures %d (%s)", c.Job, u.State, u.From, u.To, u.Moved, u.Total, u.Failures, u.Message)
	case cluster.SetRebalance:
		return fmt.Sprintf("SetRebalance %s ask %d moved %d ended %v", c.Job, c.Rebalance.Ask, c.Rebalance.Moved, c.Rebalance.Ended)
	case cluster.PutJob:
		return fmt.Sprintf("PutJob %s v%d stopped %v hold %v", c.Job.Name, c.Job.Control.Version, c.Job.Control.Stopped, c.Job.Control.UpdateHold)
	}
	return fmt.Sprintf("%T %+v", c, c)
}
