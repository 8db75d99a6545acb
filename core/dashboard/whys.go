package dashboard

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// whyAge is how long the amounts of an explanation are shown before they are asked for again, if nothing of the stall has changed.
const whyAge = 10 * time.Second

// whys keeps what placement says of groups that wait. To ask costs a look at every node.
type whys struct {
	board *board

	mu    sync.Mutex // guards known
	known map[string]whyKnown
}

type whyKnown struct {
	sentence, nearest, clears string
	stamp                     cluster.Time
	at                        time.Time
}

// explain adds amounts, the nearest node and what would clear it to the cause of a group's waiting. What cannot be asked now stays as it is stored.
func (w *whys) explain(ctx context.Context, c *cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.board.opts.Now()
	k, ok := w.known[c.group]
	if !ok || k.stamp != c.stamp || now.Sub(k.at) > whyAge {
		r, err := w.board.opts.Why(ctx, c.task)
		if err != nil {
			return
		}
		sentence, _, _ := strings.Cut(r.Sentence, " Clears when:") // that has a line of its own
		k = whyKnown{sentence, r.Nearest, r.Clears, c.stamp, now}
		w.keep(c.group, k, now)
	}
	if k.sentence != "" {
		c.Message = k.sentence
	}
	c.Nearest, c.Clears = k.nearest, k.clears
}

// keep keeps an answer and forgets old ones.
func (w *whys) keep(group string, k whyKnown, now time.Time) {
	if w.known == nil || len(w.known) > 10*maxExplained {
		kept := map[string]whyKnown{}
		for g, old := range w.known {
			if now.Sub(old.at) <= whyAge {
				kept[g] = old
			}
		}
		w.known = kept
	}
	w.known[group] = k
}
