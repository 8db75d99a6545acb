package client

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// pollEvery is how often something that is waited for is looked at.
const pollEvery = 200 * time.Millisecond

// WaitJob looks at a job again and again, and returns it once done says so. It ends with the context's error, and with what done or the
// server says; the job as last seen is returned with an error too.
func (c *Client) WaitJob(ctx context.Context, name string, done func(*apiv1.Job) (bool, error)) (*apiv1.Job, error) {
	var job *apiv1.Job
	err := poll(ctx, func() (bool, error) {
		res, err := c.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: name}))
		if err != nil {
			return false, err
		}
		job = res.Msg.GetJob()
		return done(job)
	})
	if err != nil {
		return job, fmt.Errorf("wait for job %s: %w", name, err)
	}
	return job, nil
}

// WaitNode looks at a node and returns it once done says so; see WaitJob.
func (c *Client) WaitNode(ctx context.Context, name string, done func(*apiv1.Node) (bool, error)) (*apiv1.Node, error) {
	var node *apiv1.Node
	err := poll(ctx, func() (bool, error) {
		res, err := c.GetNode(ctx, connect.NewRequest(&apiv1.GetNodeRequest{Node: name}))
		if err != nil {
			return false, err
		}
		node = res.Msg.GetNode()
		return done(node)
	})
	if err != nil {
		return node, fmt.Errorf("wait for node %s: %w", name, err)
	}
	return node, nil
}

// WaitReady returns once the server answers and is ready. While it cannot be reached it is asked again.
func (c *Client) WaitReady(ctx context.Context) (*apiv1.GetStatusResponse, error) {
	var status *apiv1.GetStatusResponse
	var last error
	err := poll(ctx, func() (bool, error) {
		res, err := c.GetStatus(ctx, connect.NewRequest(&apiv1.GetStatusRequest{}))
		switch {
		case connect.CodeOf(err) == connect.CodeUnavailable, ctx.Err() != nil:
			last = err
			return false, nil
		case err != nil:
			return false, err
		}
		status, last = res.Msg, nil
		return status.GetReady(), nil
	})
	switch {
	case err != nil && last != nil:
		return status, fmt.Errorf("wait for the server at %s: %w: %w", c.addr, err, last)
	case err != nil:
		return status, fmt.Errorf("wait for the server at %s: %w", c.addr, err)
	}
	return status, nil
}

// poll calls look until it reports true or fails, or the context ends.
func poll(ctx context.Context, look func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := look()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
