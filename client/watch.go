package client

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// watchAgain is how long is waited before a watch whose connection broke is made again.
const watchAgain = 500 * time.Millisecond

// Watch calls yield with each event that a request asks for, and goes on where it was when the connection breaks or the server is started again. It ends with nil once
// yield returns false or, if the request does not follow, once all that had happened was given; with the context's error; and with what the server refuses: IsCompacted
// says that events are missing, so that the caller has to list again and watch from there.
func (c *Client) Watch(ctx context.Context, req *apiv1.WatchEventsRequest, yield func(*apiv1.Event) bool) error {
	w := watch{client: c, req: proto.CloneOf(req), yield: yield}
	for {
		err := w.once(ctx)
		switch {
		case w.enough, err == nil && !req.GetFollow():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !IsLost(err):
			return err
		}
		timer := time.NewTimer(watchAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// watch is one call of Watch.
type watch struct {
	client *Client
	req    *apiv1.WatchEventsRequest
	yield  func(*apiv1.Event) bool
	enough bool
}

// once watches until the connection ends, and notes from where to go on.
func (w *watch) once(ctx context.Context) error {
	stream, err := w.client.WatchEvents(ctx, connect.NewRequest(w.req))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // what it has to say was said by Err
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			if w.enough = !w.yield(e); w.enough {
				return nil
			}
		}
		next := stream.Msg().GetRevision() + 1
		w.req.FromRevision = &next
	}
	return stream.Err()
}
