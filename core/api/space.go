package api

import (
	"context"
	"errors"
	"time"

	"github.com/setpointd/setpoint/core/engine"
)

// ErrFull says that the store has no space: what there is can be read, and nothing changes until there is some.
var ErrFull = errors.New("no space left for the store; nothing changes until there is")

// lookForSpace is how often a command that waits for its commit looks whether the store is full.
const lookForSpace = 200 * time.Millisecond

// commands is an engine that keeps nobody waiting while the store is full: such a command ends with ErrFull. One that was given before the store was full may be
// carried out once there is space.
type commands struct {
	Engine
	full func() bool
}

// Do implements Engine.
func (c commands) Do(ctx context.Context, by string, op engine.Op) (any, error) {
	if c.full() {
		return nil, ErrFull
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	look := time.NewTicker(lookForSpace)
	defer look.Stop()
	type reply struct {
		value any
		err   error
	}
	done := make(chan reply, 1)
	go func() {
		value, err := c.Engine.Do(ctx, by, op)
		done <- reply{value, err}
	}()
	for {
		select {
		case r := <-done:
			if r.err != nil && errors.Is(context.Cause(ctx), ErrFull) {
				return nil, ErrFull
			}
			return r.value, r.err
		case <-look.C:
			if c.full() {
				cancel(ErrFull)
			}
		}
	}
}
