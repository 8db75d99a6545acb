package daemon

import (
	"context"
	"errors"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// history has the turns that the store's log still has.
type history struct{ journal store.Journal }

// errEnough ends a read whose reader has what it wanted.
var errEnough = errors.New("enough")

// History calls yield with each turn from a revision on, until it returns false.
func (h history) History(ctx context.Context, from cluster.Revision, yield func(engine.Turn) bool) error {
	after := from
	if after > 0 {
		after--
	}
	err := h.journal.Read(ctx, after, func(rev cluster.Revision, now cluster.Time, puts []any, deleted []string) error {
		if !yield(engine.Rebuild(rev, now, puts, deleted)) {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, store.ErrCompacted):
		return api.ErrCompacted
	}
	return err
}
