package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
)

// Foresee tries operations on a copy of the engine and returns what would follow. The world stays as it is.
func (w *World) Foresee(ctx context.Context, ops ...engine.Op) (*engine.Forecast, error) {
	v, err := w.Do(engine.Foresee{})
	if err != nil {
		return nil, err
	}
	f, ok := v.(*engine.Foresight)
	if !ok {
		return nil, fmt.Errorf("foresee: the engine answered %T", v)
	}
	return f.Try(ctx, engine.Trying{By: "test", Ops: ops, Plugins: aside{w}})
}

// aside lets the world's plugins answer beside what they do in the world.
type aside struct{ w *World }

// Converse begins a conversation with a plugin's logic, which has a mirror of its own for that.
func (a aside) Converse(_ context.Context, plugin string, session uint64, take func(engine.Input)) (engine.Conversation, error) {
	p := a.w.plugin(plugin)
	if p.Dead {
		return nil, fmt.Errorf("plugin %s is dead", plugin)
	}
	own := newPlugin(p.def)
	t := &talk{plugin: own, ear: &World{plugins: []*Plugin{own}}, wake: make(chan struct{}, 1), over: make(chan struct{})}
	t.ear.StartPlugin(plugin)
	own.session, t.ear.inputs = session, nil
	t.speaking.Go(func() { t.speak(take) })
	return t, nil
}

// talk is a conversation in which everything is answered at once.
type talk struct {
	plugin   *Plugin
	ear      *World        // takes what the plugin says
	wake     chan struct{} // has room for one: something was said
	over     chan struct{}
	speaking sync.WaitGroup

	mu      sync.Mutex // guards waiting
	waiting []engine.Input
}

// Tell has the plugin answer.
func (t *talk) Tell(u engine.PluginUpdate) {
	t.plugin.take(u)
	t.plugin.say(t.ear, u)
	t.mu.Lock()
	t.waiting = append(t.waiting, t.ear.inputs...)
	t.mu.Unlock()
	t.ear.inputs = nil
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// speak hands on what the plugin said, in its order, without keeping it waiting.
func (t *talk) speak(take func(engine.Input)) {
	for {
		select {
		case <-t.over:
			return
		case <-t.wake:
		}
		t.mu.Lock()
		said := t.waiting
		t.waiting = nil
		t.mu.Unlock()
		for _, in := range said {
			take(in)
		}
	}
}

// Close ends the conversation.
func (t *talk) Close() {
	close(t.over)
	t.speaking.Wait()
}
