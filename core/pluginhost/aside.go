package pluginhost

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpointd/setpoint/core/engine"
)

// Converse begins a conversation with the process of a plugin beside the one in which it serves, as a session of the given number: with a mirror of its own,
// of a state that might be. It implements engine.Conversations, whose words hold. What goes wrong in it does not touch the session in which the plugin
// serves. It fails with ErrUnknownPlugin, with ErrAway, or with why the plugin does not take part.
func (h *Host) Converse(ctx context.Context, plugin string, session uint64, take func(engine.Input)) (engine.Conversation, error) {
	s := h.supervisor(plugin)
	if s == nil {
		return nil, fmt.Errorf("ask plugin %s aside: %w", plugin, ErrUnknownPlugin)
	}
	i, _ := s.current()
	if i == nil {
		return nil, fmt.Errorf("ask plugin %s aside: %w", plugin, ErrAway)
	}
	o, err := s.converse(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("ask plugin %s aside: %w", plugin, err)
	}
	talk, cancel := context.WithCancel(ctx)
	a := &aside{outbox: newOutbox(), cancel: cancel}
	a.outbox.begin(session)
	a.speaking.Go(func() {
		err := newSession(s.conversation(i, session, taker(take), a.outbox, &stats{})).run(talk, o.stream, o.hangUp)
		if err != nil && talk.Err() == nil {
			f := failureOf(i.why(err))
			take(engine.PluginDown{Name: s.name, Session: session, Code: f.code, Message: f.text, FailureOpen: i.plugin.FailureOpen})
		}
	})
	return a, nil
}

// aside is a conversation that nobody acts upon.
type aside struct {
	outbox   *outbox
	cancel   context.CancelFunc
	speaking sync.WaitGroup
}

// Tell gives the plugin an update.
func (a *aside) Tell(u engine.PluginUpdate) { a.outbox.merge(u) }

// Close ends the conversation and waits for that.
func (a *aside) Close() {
	a.cancel()
	a.speaking.Wait()
}

// taker is an engine for a session whose answers go elsewhere.
type taker func(engine.Input)

// Send hands on one answer.
func (t taker) Send(ctx context.Context, in engine.Input) error {
	t(in)
	return ctx.Err()
}
