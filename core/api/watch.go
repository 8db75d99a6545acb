package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// progressEvery is after how many revisions without an event for it a watcher is told how far the watch has come.
const progressEvery = 1000

// forever is up to which revision a watch goes that follows. The newest revision of a state may be 0: a watch of its past has nothing to wait for.
const forever cluster.Revision = math.MaxUint64

// watch is one call of WatchEvents.
type watch struct {
	events  *Events
	history History // may be nil
	send    func(*apiv1.WatchEventsResponse) error
	match   func(*apiv1.Event) bool

	cursor cluster.Revision // the next that is wanted
	told   cluster.Revision // up to which the watcher knows
	passed bool             // some turn was looked at
}

// WatchEvents sends what happened, and what happens.
func (v *service) WatchEvents(ctx context.Context, req *connect.Request[apiv1.WatchEventsRequest], stream *connect.ServerStream[apiv1.WatchEventsResponse]) error {
	m := req.Msg
	state := v.view()
	match, err := matcher(state, m)
	if err != nil {
		return err
	}
	if err := notAhead(m, state.Revision); err != nil {
		return err
	}
	w := &watch{events: v.opts.Events, history: v.opts.History, send: stream.Send, match: match, cursor: max(1, cluster.Revision(m.GetFromRevision()))}
	if m.FromRevision == nil {
		w.cursor = w.events.recent(int(m.GetRecent()), match)
	}
	// The first message says that the watch stands.
	if err := w.progress(w.cursor - 1); err != nil {
		return err
	}
	if m.GetFollow() {
		return w.run(ctx, forever)
	}
	return w.run(ctx, state.Revision)
}

// notAhead refuses a watch from a revision behind the next one. No list has such a one, unless the cluster was restored from a backup since; what it does until it is
// there again would be missed.
func notAhead(m *apiv1.WatchEventsRequest, newest cluster.Revision) error {
	if from := m.GetFromRevision(); from > uint64(newest)+1 {
		return fmt.Errorf("watch from revision %d: the cluster is at revision %d, %w", from, newest, errAhead)
	}
	return nil
}

// matcher returns what a watcher wants to see.
func matcher(s *engine.State, m *apiv1.WatchEventsRequest) (func(*apiv1.Event) bool, error) {
	node := ""
	if m.GetNode() != "" {
		n := s.NodeNamed(m.GetNode())
		if n == nil {
			return nil, notFound("node", m.GetNode(), listNodes)
		}
		node = string(n.ID)
	}
	return func(e *apiv1.Event) bool {
		return (m.GetJob() == "" || e.GetJob() == m.GetJob()) && (m.GetTask() == "" || e.GetTask() == m.GetTask()) &&
			(node == "" || e.GetNodeId() == node) && (len(m.GetKinds()) == 0 || slices.Contains(m.GetKinds(), e.GetKind()))
	}, nil
}

// run sends turn by turn, up to a revision.
func (w *watch) run(ctx context.Context, last cluster.Revision) error {
	for w.cursor <= last {
		turns, more, ok := w.events.since(w.cursor)
		if !ok {
			if err := w.older(ctx, last); err != nil {
				return err
			}
			continue
		}
		if err := w.pass(turns, last); err != nil {
			return err
		}
		if len(turns) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
	if w.told < last {
		return w.progress(last)
	}
	return nil
}

// pass sends what is wanted of some turns in one message.
func (w *watch) pass(turns []turnEvents, last cluster.Revision) error {
	var out []*apiv1.Event
	for _, t := range turns {
		if t.revision > last {
			w.cursor = last + 1
			break
		}
		for _, e := range t.events {
			if w.match(e) {
				out = append(out, e)
			}
		}
		w.cursor, w.passed = t.revision+1, true
	}
	if len(out) == 0 && w.cursor-w.told < progressEvery {
		return nil
	}
	w.told = w.cursor - 1
	return w.send(&apiv1.WatchEventsResponse{Revision: uint64(w.told), Events: out})
}

func (w *watch) progress(to cluster.Revision) error {
	w.told = to
	return w.send(&apiv1.WatchEventsResponse{Revision: uint64(to)})
}

// older sends turns that are not among the recent ones any more.
func (w *watch) older(ctx context.Context, last cluster.Revision) error {
	if w.history == nil {
		return w.behind()
	}
	from := w.cursor
	var sent error
	err := w.history.History(ctx, from, func(turn engine.Turn) bool {
		if sent = ctx.Err(); sent == nil {
			sent = w.pass([]turnEvents{{turn.State.Revision, eventsOf(turn)}}, last)
		}
		return sent == nil && w.cursor <= last
	})
	switch {
	case sent != nil:
		return sent
	case errors.Is(err, ErrCompacted), err == nil && w.cursor == from:
		return w.compacted()
	}
	return err
}

// behind says why a watch that cannot go on ends.
func (w *watch) behind() error {
	if w.passed {
		return errSlow
	}
	return w.compacted()
}

// compacted says from where on events are missing.
func (w *watch) compacted() error {
	return fmt.Errorf("watch from revision %d: %w", w.cursor, ErrCompacted)
}
