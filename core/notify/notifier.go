package notify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Engine is what a Notifier needs of the engine; *engine.Engine is one.
type Engine interface {
	Do(ctx context.Context, by string, op engine.Op) (any, error)
	Send(ctx context.Context, in engine.Input) error
	View() *engine.State
}

// Clock tells engine time.
type Clock interface{ Now() cluster.Time }

// Sink is one way to tell people. One of Alertmanager, Webhook and Exec is set.
type Sink struct {
	Name  string
	Rules Rules

	Alertmanager *Alertmanager
	Webhook      *Webhook
	Exec         *Exec
}

// Kind returns the word for the sink in the configuration.
func (s *Sink) Kind() string {
	switch {
	case s.Alertmanager != nil:
		return "alertmanager"
	case s.Webhook != nil:
		return "webhook"
	}
	return "exec"
}

// Options are what a Notifier is made of. All but Link and Dial are required.
type Options struct {
	Engine Engine
	Clock  Clock
	Sinks  []Sink // each name once
	Server string // its name
	Link   string // to the dashboard; "": there is none
	Log    hclog.Logger
	Seed   uint64 // of what is by chance

	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Notifier tells people of what waits for too long.
type Notifier struct {
	opts    Options
	every   time.Duration
	workers []*worker
}

// Bounds of how often the state is looked at.
const (
	looksPerAfter = 10
	minEvery      = 200 * time.Millisecond
	maxEvery      = 5 * time.Second
)

// New returns a notifier that has told nothing yet.
func New(opts Options) *Notifier {
	n := &Notifier{opts: opts, every: maxEvery}
	for i := range opts.Sinks {
		s := &opts.Sinks[i]
		s.Rules.Sink = s.Name
		n.every = min(n.every, s.Rules.After/looksPerAfter)
		for _, c := range s.Rules.Codes {
			n.every = min(n.every, c.After/looksPerAfter)
		}
		n.workers = append(n.workers, n.newWorker(s, uint64(i)))
	}
	n.every = max(n.every, minEvery)
	return n
}

func (n *Notifier) newWorker(s *Sink, i uint64) *worker {
	w := &worker{n: n, sink: s, looks: make(chan look, 1), retry: backoff{random: rand.New(rand.NewPCG(n.opts.Seed, i))}}
	switch {
	case s.Alertmanager != nil:
		w.to = &alertmanager{*s.Alertmanager, caller{s.Alertmanager.HTTP, n.opts.Dial}}
	case s.Webhook != nil:
		w.to = &webhook{*s.Webhook, caller{s.Webhook.HTTP, n.opts.Dial}, time.Now}
	default:
		w.to = &program{*s.Exec}
	}
	return w
}

// Run tells people until the context ends.
func (n *Notifier) Run(ctx context.Context) error {
	names := make([]string, len(n.workers))
	for i, w := range n.workers {
		names[i] = w.sink.Name
	}
	if err := n.opts.Engine.Send(ctx, engine.SinksKnown{Names: names}); err != nil {
		return fmt.Errorf("tell the engine which sinks there are: %w", err)
	}
	if len(n.workers) == 0 {
		<-ctx.Done()
		return nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, w := range n.workers {
		all.Go(func() { w.run(ctx) })
	}
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	for {
		now := n.opts.Clock.Now()
		seen := look{now: now, waiting: Look(n.opts.Engine.View(), now)}
		for _, w := range n.workers {
			select {
			case <-w.looks: // of an earlier one nothing is left to be said
			default:
			}
			w.looks <- seen
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Statuses returns how all sinks are, in the order of the configuration.
func (n *Notifier) Statuses() []SinkStatus {
	out := make([]SinkStatus, 0, len(n.workers))
	for _, w := range n.workers {
		out = append(out, w.current())
	}
	return out
}

// TrialResult is what came of a trial.
type TrialResult struct {
	Sink string
	Err  error
}

// Try has sinks tell that nothing is wrong: those of these names, or all. It returns an error if there is no sink of some name.
func (n *Notifier) Try(ctx context.Context, names []string) ([]TrialResult, error) {
	var chosen []*worker
	for _, name := range names {
		w := n.named(name)
		if w == nil {
			return nil, &UnknownSinkError{Name: name, Known: n.names()}
		}
		chosen = append(chosen, w)
	}
	if len(names) == 0 {
		chosen = n.workers
	}
	out := make([]TrialResult, len(chosen))
	var all sync.WaitGroup
	for i, w := range chosen {
		all.Go(func() {
			b := w.batch(time.Now())
			b.trial = true
			out[i] = TrialResult{Sink: w.sink.Name, Err: w.to.deliver(ctx, b)}
		})
	}
	all.Wait()
	return out, nil
}

func (n *Notifier) named(name string) *worker {
	for _, w := range n.workers {
		if w.sink.Name == name {
			return w
		}
	}
	return nil
}

func (n *Notifier) names() []string {
	out := make([]string, len(n.workers))
	for i, w := range n.workers {
		out[i] = w.sink.Name
	}
	return out
}

// UnknownSinkError says that no sink has a name.
type UnknownSinkError struct {
	Name  string
	Known []string
}

func (e *UnknownSinkError) Error() string {
	return fmt.Sprintf("no sink is called %q", e.Name)
}
