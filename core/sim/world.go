package sim

import (
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

	now      cluster.Time
	inputs   []engine.Input
	wake     time.Duration // engine time at which the engine wants to step
	plugins  []*Plugin
	store    *journal
	cfg      engine.Config
	session  uint64
	Steps    int
	Failures []string                // invariants that did not hold
	returned map[cluster.TaskID]bool // tasks whose node was down at some time
	Trace    []string                // what happened, for a failure's report; the last lines
	Digest   string                  // of all changes that were committed, in their order
}

// New returns a world with the given plugins and no nodes.
func New(plugins ...sdk.Plugin) *World {
	w := &World{now: cluster.Time{Wall: epoch}, store: newJournal(), returned: map[cluster.TaskID]bool{}}
	w.cfg = engine.Config{ClusterID: "sim", Heartbeat: time.Second}
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

// Now returns the world's time.
func (w *World) Now() cluster.Time { return w.now }

// State returns the newest committed state.
func (w *World) State() *engine.State { return w.Engine.View() }

// Do carries out an operation at once and returns its result.
func (w *World) Do(op engine.Op) (any, error) {
	out := w.step(engine.Command("test", op))
	w.tracef("do %T", op)
	return out.Replies[len(out.Replies)-1].Result()
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
	for end := w.now.Engine + d; w.now.Engine < end; {
		w.Tick()
	}
}

// RunUntil lets time pass until ok, for at most limit. It reports whether ok came true.
func (w *World) RunUntil(limit time.Duration, ok func() bool) bool {
	for end := w.now.Engine + limit; w.now.Engine < end; {
		if ok() {
			return true
		}
		w.Tick()
	}
	return ok()
}

// Tick lets one step of time pass: agents act and speak, plugins answer, the engine decides.
func (w *World) Tick() {
	w.now = w.now.Add(Tick)
	for _, a := range w.Agents {
		a.act(w)
	}
	for _, p := range w.plugins {
		p.answer(w)
	}
	if len(w.inputs) > 0 || w.wake > 0 && w.now.Engine >= w.wake {
		w.step()
	}
}

func (w *World) send(in ...engine.Input) { w.inputs = append(w.inputs, in...) }

// step has the engine decide about what waits, commits and delivers.
func (w *World) step(more ...engine.Input) engine.Output {
	in := append(w.inputs, more...)
	w.inputs = nil
	w.Steps++
	out := w.Engine.Step(in, w.now)
	w.wake = 0
	if out.Wake > 0 {
		w.wake = w.now.Engine + out.Wake
	}
	if out.More {
		w.wake = w.now.Engine + 1
	}
	if len(out.Turn.Changes) > 0 {
		puts, deletes := w.Engine.Records(out.Turn)
		w.store.commit(out.Turn.State, puts, deletes)
		w.Engine.Publish(out.Turn)
		w.checkTurn(out.Turn)
		w.checkStalls(out.Turn)
		w.digest(out.Turn)
		for _, c := range out.Turn.Changes {
			w.tracef("r%d %s %s", out.Turn.State.Revision, c.By, describe(c.Change))
		}
		for _, a := range w.Agents {
			a.committed(w, out.Turn)
		}
	}
	for _, u := range out.Plugins {
		w.plugin(u.Plugin).tell(u)
	}
	for _, f := range out.Acks {
		f()
	}
	return out
}

// Restart ends the daemon and starts it again from what was committed. Agents and plugins begin new sessions.
func (w *World) Restart() {
	w.tracef("daemon restarts")
	w.inputs = nil
	w.Engine = engine.New(w.cfg, w.store.load("sim"), w.now)
	for _, a := range w.Agents {
		a.session = 0
	}
	for _, p := range w.plugins {
		w.StartPlugin(p.def.Name)
	}
	w.step()
}

func (w *World) plugin(name string) *Plugin {
	i := slices.IndexFunc(w.plugins, func(p *Plugin) bool { return p.def.Name == name })
	return w.plugins[i]
}

func (w *World) tracef(format string, args ...any) {
	w.Trace = append(w.Trace, fmt.Sprintf("%8s ", w.now.Engine)+fmt.Sprintf(format, args...))
	if len(w.Trace) > 4000 {
		w.Trace = w.Trace[1000:]
	}
}

func describe(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.AddTask:
		return fmt.Sprintf("AddTask %s (%s)", c.Task.ID, c.Task.Why)
	case cluster.PutSlot:
		s := c.Slot
		return fmt.Sprintf("PutSlot %s v%d up since %s moved by %q done %v unwanted %v", s.ID(), s.Version, s.UpSince.Engine, s.MovedBy, s.Done, s.Unwanted)
	case cluster.PutStall:
		return fmt.Sprintf("PutStall %s %s %v", c.Stall.Key(), c.Stall.Message, c.Stall.Facts)
	case cluster.SetObserved:
		return fmt.Sprintf("SetObserved %s %s", c.Task, c.Observed.State)
	case cluster.SetPlacement:
		return fmt.Sprintf("SetPlacement %s %s", c.Task, c.Placement.Node)
	case cluster.SetDesired:
		return fmt.Sprintf("SetDesired %s %s (%s)", c.Task, c.Desired.State, c.Desired.Reason)
	case cluster.PutJob:
		return fmt.Sprintf("PutJob %s v%d", c.Job.Name, c.Job.Control.Version)
	}
	return fmt.Sprintf("%T %+v", c, c)
}
