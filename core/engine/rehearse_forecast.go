package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Trying is what is to be tried on a copy, and how far.
type Trying struct {
	By      string
	Ops     []Op          // carried out one after another at the beginning, in one turn
	Horizon time.Duration // how much made-up time passes at most; 0: an hour
	Turns   int           // how many turns are decided at most; 0: 20,000
	Plugins Conversations // nil: plugins are not asked, and what they have not judged stays so
}

// Conversations opens conversations with plugins beside those in which they serve.
type Conversations interface {
	// Converse begins a conversation with a plugin, which answers as in a session of that number and is acted upon by nobody else. What it says goes to
	// take, one call at a time, until the conversation is closed. It fails if the plugin does not serve.
	Converse(ctx context.Context, plugin string, session uint64, take func(Input)) (Conversation, error)
}

// Conversation is one with a plugin.
type Conversation interface {
	// Tell gives the plugin an update, the first of which is a reset. It does not block.
	Tell(u PluginUpdate)
	// Close ends the conversation. After it nothing is taken any more.
	Close()
}

// The nominal time that starting and stopping take, and how the rest is bounded.
const (
	nominalStart   = time.Second
	nominalStop    = time.Second
	usualHorizon   = time.Hour
	usualTurns     = 20_000
	idleTurns      = 200 // without a change: what still wakes up moves nothing any more
	pluginPatience = 10 * time.Second
)

// forecast is a copy of an engine in made-up time. Owner: the goroutine of Foresight.Try.
type forecast struct {
	Trying
	e       *Engine
	began   cluster.Time
	now     cluster.Time
	due     map[cluster.TaskID]deed // what agents are about to do
	answers chan Input
	talks   map[string]Conversation
	told    map[string]cluster.Revision // by plugin: the revision of its mirror
	lost    []Input                     // plugins that could not be asked, for the next turn
	out     Forecast
	before  map[string]cluster.Task // the task that each slot had at the beginning
	stalled map[string]*ForeseenStall
}

// Try carries operations out on the copy and lets made-up time pass until nothing moves any more. A refused operation is an *OpError; ctx ends the trying.
func (f *Foresight) Try(ctx context.Context, t Trying) (*Forecast, error) {
	if t.Horizon <= 0 {
		t.Horizon = usualHorizon
	}
	if t.Turns <= 0 {
		t.Turns = usualTurns
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &forecast{
		Trying: t, e: f.engine(), began: f.now, now: f.now, due: map[cluster.TaskID]deed{}, answers: make(chan Input, 64),
		talks: map[string]Conversation{}, told: map[string]cluster.Revision{}, stalled: map[string]*ForeseenStall{},
	}
	defer func() {
		cancel()
		for _, talk := range c.talks {
			talk.Close()
		}
	}()
	c.begin()
	if err := c.carryOut(ctx); err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	c.finish()
	return &c.out, nil
}

// carryOut has the operations carried out in the first turn.
func (c *forecast) carryOut(ctx context.Context) error {
	var in []Input
	for _, op := range c.Ops {
		in = append(in, command{op: op, by: c.By})
	}
	out, err := c.step(ctx, in)
	if err != nil {
		return err
	}
	for _, r := range out.Replies {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// run lets time pass.
func (c *forecast) run(ctx context.Context) error {
	idle := 0
	var in []Input
	for ; ; c.out.Turns++ {
		if c.out.Turns >= c.Turns {
			return nil
		}
		out, err := c.step(ctx, in)
		if err != nil {
			return err
		}
		if idle++; len(out.Turn.Changes) > 0 {
			idle = 0
		}
		wake := out.Wake
		if out.More {
			wake = 1
		}
		at, any := c.next(wake)
		if !any || idle > idleTurns && len(c.due) == 0 {
			c.out.Settled = true
			return nil
		}
		if at > c.began.Engine+c.Horizon {
			return nil
		}
		c.now = c.now.Add(at - c.now.Engine)
		in = c.reports()
	}
}

// next returns the engine time at which something happens next; false: nothing does.
func (c *forecast) next(wake time.Duration) (time.Duration, bool) {
	at, any := c.now.Engine+wake, wake > 0
	for _, d := range c.due {
		if !any || d.at < at {
			at, any = d.at, true
		}
	}
	return at, any
}

// step decides a turn, and those that follow from what plugins say to it, before any time passes.
func (c *forecast) step(ctx context.Context, in []Input) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, err // nobody waits for it any more
	}
	out := c.turn(in)
	first := out
	for {
		c.tell(ctx, out)
		in, err := c.listen(ctx)
		if err != nil {
			return out, err
		}
		if len(in) == 0 {
			first.Wake, first.More = out.Wake, out.More
			return first, nil
		}
		out = c.turn(in)
		first.Turn.Changes = append(first.Turn.Changes[:len(first.Turn.Changes):len(first.Turn.Changes)], out.Turn.Changes...)
	}
}

// turn decides one turn and notes what it does.
func (c *forecast) turn(in []Input) Output {
	out := c.e.Step(in, c.now)
	c.e.Publish(out.Turn)
	c.note(out.Turn)
	c.instruct(out.Turn)
	return out
}

// tell gives plugins what they are to be told. A conversation begins once there is something to say, with all that the plugin has to know.
func (c *forecast) tell(ctx context.Context, out Output) {
	updates := map[string]PluginUpdate{}
	for _, u := range out.Plugins {
		updates[u.Plugin] = u
	}
	for _, name := range c.e.pluginNames {
		p := c.e.plugins[name]
		u, changed := updates[name]
		if !p.up || !changed && (c.talks[name] != nil || !p.awaits()) {
			continue
		}
		if c.talks[name] == nil {
			if !c.open(ctx, p) {
				continue
			}
			all := c.e.whole(p)
			all.Drains, all.Cancel = u.Drains, nil
			u = all
		}
		c.told[name] = max(c.told[name], u.Revision)
		c.talks[name].Tell(u)
	}
}

// open begins a conversation with a plugin. One that cannot be asked counts as away from now on.
func (c *forecast) open(ctx context.Context, p *pluginState) bool {
	why := "nobody asks plugins here"
	if c.Plugins != nil {
		talk, err := c.Plugins.Converse(ctx, p.name, p.info.Session, func(in Input) {
			select {
			case c.answers <- in:
			case <-ctx.Done():
			}
		})
		if err == nil {
			c.talks[p.name] = talk
			return true
		}
		why = err.Error()
	}
	c.lose(p, why)
	return false
}

// lose lets a plugin count as away.
func (c *forecast) lose(p *pluginState, why string) {
	c.assume("plugin %s could not be asked (%s): what it has not judged yet stays unjudged", p.name, why)
	c.lost = append(c.lost, PluginDown{Name: p.name, Session: p.info.Session, Code: cluster.CodePluginUnavailable, Message: why, FailureOpen: p.info.FailureOpen})
}

// owes reports whether the plugin has not answered all that it was told.
func (c *forecast) owes(p *pluginState) bool {
	return p.up && c.talks[p.name] != nil && (p.applied < c.told[p.name] || p.awaits())
}

// debtors returns the plugins that owe an answer.
func (c *forecast) debtors() []*pluginState {
	var out []*pluginState
	for _, name := range c.e.pluginNames {
		if p := c.e.plugins[name]; c.owes(p) {
			out = append(out, p)
		}
	}
	return out
}

// listen waits for what plugins say, as long as one owes something; none: nobody says anything more. One that is silent for long counts as away.
func (c *forecast) listen(ctx context.Context) ([]Input, error) {
	in := c.lost
	c.lost = nil
	owing := c.debtors()
	if len(in) == 0 && len(owing) > 0 {
		timer := time.NewTimer(pluginPatience)
		defer timer.Stop()
		select {
		case a := <-c.answers:
			in = append(in, a)
		case <-timer.C:
			for _, p := range owing {
				c.lose(p, fmt.Sprintf("no answer within %s", pluginPatience))
			}
			in, c.lost = c.lost, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for {
		select {
		case a := <-c.answers:
			in = append(in, a)
		default:
			return in, nil
		}
	}
}

func (c *forecast) assume(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(c.out.Assumptions, text) {
		c.out.Assumptions = append(c.out.Assumptions, text)
	}
}

// deed is what an agent is about to do.
type deed struct {
	node  cluster.NodeID
	at    time.Duration
	state cluster.ObservedState
}

// instruct lets agents take up what a turn changed.
func (c *forecast) instruct(t Turn) {
	for _, a := range t.Changes {
		switch x := a.Change.(type) {
		case cluster.SetPlacement:
			c.assign(t.State, x.Task)
		case cluster.SetDesired:
			c.assign(t.State, x.Task)
		case cluster.RemoveTask:
			delete(c.due, x.Task)
		case cluster.SetNodeSpec:
			for task := range t.State.TasksOn(x.Node) {
				c.assign(t.State, task.ID)
			}
		}
	}
}

// assign lets the agent of a task's node do what is wanted of the task, as far as it can be reached.
func (c *forecast) assign(s *State, id cluster.TaskID) {
	t := s.Task(id)
	if t == nil || !t.Placed() || t.Observed.State.Terminal() {
		return
	}
	n := s.Node(t.Placement.Node)
	if n == nil || n.Status.State != cluster.NodeReady || n.Spec.Decommissioned {
		return
	}
	d := deed{node: n.ID, at: c.now.Engine + nominalStart, state: cluster.Running}
	switch {
	case !t.Desired.State.Wanted():
		d.state, d.at = cluster.Stopped, c.now.Engine+nominalStop
		if g := t.Desired.Grace; g >= 0 && g < nominalStop {
			d.at = c.now.Engine + max(g, 1)
		}
		if old, ok := c.due[id]; ok && old.state == cluster.Stopped && old.at < d.at {
			return
		}
	case t.Observed.State == cluster.Running || t.Observed.State == cluster.ObservedNone && !n.Usable():
		return
	}
	if old, ok := c.due[id]; ok && old.state == d.state && d.state == cluster.Running {
		return
	}
	c.due[id] = d
}

// reports returns what agents have done by now.
func (c *forecast) reports() []Input {
	var in []Input
	for _, id := range slices.Sorted(maps.Keys(c.due)) {
		d := c.due[id]
		if d.at > c.now.Engine {
			continue
		}
		delete(c.due, id)
		in = append(in, AgentReports{Node: d.node, Session: c.e.agents[d.node].session, Tasks: []TaskReport{{
			Task: id, State: d.state, Healthy: d.state == cluster.Running,
		}}})
	}
	return in
}
