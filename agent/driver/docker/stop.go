package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// A stopOrder is the content of a file in stopsDir.
type stopOrder struct {
	// Deadline is when what has not ended is killed.
	Deadline time.Time `json:"deadline"`
}

func notFound(err error) bool { return cerrdefs.IsNotFound(err) }

// Stop sends the signal and has the task killed when its grace is over. The engine could do both, but counts grace in seconds, knows no other signal than the
// container's before API 1.42, and takes back nothing; so the driver keeps the time.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, req driver.StopRequest) error {
	if err := d.stop(ctx, h.TaskID, req); err != nil {
		return fmt.Errorf("stop task %s: %w", h.TaskID, err)
	}
	return nil
}

func (d *Driver) stop(ctx context.Context, taskID string, req driver.StopRequest) error {
	deadline := time.Now().Add(req.Grace)
	name := d.container(taskID)
	unlock, err := d.ending.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := d.look(ctx, taskID)
	if err != nil {
		return err
	}
	if statusOf(c).State != driver.StateRunning {
		return nil
	}
	before, stopping, err := d.readStop(name)
	switch {
	case err != nil:
		return err
	case req.Grace <= 0:
		return d.kill(ctx, name)
	case stopping && before.Deadline.Before(deadline):
		d.killAt(name, before.Deadline)
		return nil
	case !stopping:
		signal := req.Signal
		if signal == "" {
			signal = c.Config.StopSignal
		}
		if err := d.signal(ctx, name, signal); err != nil {
			return err
		}
	}
	data, err := json.Marshal(stopOrder{Deadline: deadline})
	if err == nil {
		err = writeFile(d.stopPath(name), append(data, '\n'))
	}
	d.killAt(name, deadline)
	return err
}

// signal sends a signal, TERM if there is no name. What does not run needs none.
func (d *Driver) signal(ctx context.Context, name, signal string) error {
	if signal == "" {
		signal = "TERM"
	}
	_, err := d.engine.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: signal})
	if notFound(err) || cerrdefs.IsConflict(err) { // gone, or not running
		return nil
	}
	return plain(err)
}

func (d *Driver) kill(ctx context.Context, name string) error { return d.signal(ctx, name, "KILL") }

// killAt has the task killed at that time, and no later than was said before.
func (d *Driver) killAt(name string, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if timer := d.kills[name]; timer != nil {
		timer.Stop()
	}
	d.kills[name] = time.AfterFunc(time.Until(at), func() { d.killDue(name) })
}

// killDue kills the task, if it is there. While the engine is away it is asked again.
func (d *Driver) killDue(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := d.kill(ctx, name); err != nil {
		d.killAt(name, time.Now().Add(retryPause))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kills, name)
}

// resume goes on with a stop that was ordered before the driver was made. What cannot be read here Stop says.
func (d *Driver) resume(taskID string) {
	name := d.container(taskID)
	d.mu.Lock()
	armed := d.kills[name] != nil
	d.mu.Unlock()
	if order, stopping, err := d.readStop(name); err == nil && stopping && !armed {
		d.killAt(name, order.Deadline)
	}
}

func (d *Driver) stopPath(name string) string { return filepath.Join(d.opts.Dir, stopsDir, name) }

func (d *Driver) readStop(name string) (order stopOrder, ok bool, err error) {
	data, err := os.ReadFile(d.stopPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return order, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &order)
	}
	if err != nil {
		return order, false, fmt.Errorf("read the order to stop: %w", err)
	}
	return order, true, nil
}

// forgetStop drops what is kept of an order to stop.
func (d *Driver) forgetStop(name string) error {
	d.mu.Lock()
	if timer := d.kills[name]; timer != nil {
		timer.Stop()
		delete(d.kills, name)
	}
	d.mu.Unlock()
	if err := os.Remove(d.stopPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
