package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// changesRetry is after how long a server that went away is tried again.
const changesRetry = time.Second

// Changes calls tell whenever something has happened at the server, and when it can be reached again, until the context ends. It tells not what: ask for what matters.
func (c *Client) Changes(ctx context.Context, tell func()) {
	for ctx.Err() == nil {
		c.followChanges(ctx, tell)
		select {
		case <-ctx.Done():
		case <-time.After(changesRetry):
		}
	}
}

// followChanges follows events from now on until the stream ends. Why it ended does not matter: what is asked for next says it.
func (c *Client) followChanges(ctx context.Context, tell func()) {
	status, err := c.GetStatus(ctx, connect.NewRequest(&apiv1.GetStatusRequest{}))
	if err != nil {
		return
	}
	from := status.Msg.GetRevision() + 1
	stream, err := c.WatchEvents(ctx, connect.NewRequest(&apiv1.WatchEventsRequest{Follow: true, FromRevision: &from}))
	if err != nil {
		return
	}
	defer stream.Close() //nolint:errcheck // what it says does not matter either
	for stream.Receive() {
		tell()
	}
}
