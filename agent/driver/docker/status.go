package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/agent/driver"
)

// Recover tells in which state the task's container is.
func (d *Driver) Recover(ctx context.Context, h driver.Handle) (driver.Status, error) {
	c, err := d.look(ctx, h.TaskID)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return driver.Status{State: driver.StateAbsent}, nil
	case err != nil:
		return driver.Status{}, fmt.Errorf("recover task %s: %w", h.TaskID, err)
	}
	return statusOf(c), nil
}

// statusOf tells what a container's state means for its task.
func statusOf(c *container.InspectResponse) driver.Status {
	s := c.State
	switch {
	case s.Running || s.Paused || s.Restarting:
		out := driver.Status{State: driver.StateRunning, Started: wall(s.StartedAt)}
		if s.Paused {
			out.Message = "paused in the engine"
		}
		return out
	case wall(s.StartedAt).IsZero():
		return driver.Status{State: driver.StateNotStarted, Message: s.Error}
	}
	exit := exitOf(s)
	return driver.Status{State: driver.StateExited, Started: exit.Started, Exit: &exit}
}

// exitOf reads the exit record. The engine tells one number: what is above 128 is taken for the signal that it stands for, as shells do. Of a container that
// ended while the engine was away it says 255, and as its end the time when the engine was back.
func exitOf(s *container.State) driver.Exit {
	out := driver.Exit{Code: s.ExitCode, OOM: s.OOMKilled, Started: wall(s.StartedAt), Finished: wall(s.FinishedAt), Err: s.Error}
	if n := s.ExitCode - 128; n > 0 && n < 32 {
		out.Signal = strings.TrimPrefix(unix.SignalName(syscall.Signal(n)), "SIG")
	}
	switch {
	case out.Finished.IsZero():
		out.Finished, out.Code, out.Signal = out.Started, driver.ExitUnknown, ""
		out.Err = cmp.Or(out.Err, "the engine does not tell how it ended")
	case out.Finished.Before(out.Started): // the engine notes both by itself, and of what ends at once the end first
		out.Finished = out.Started
	}
	return out
}

// wall reads one of the engine's times; what never was is zero.
func wall(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// Wait asks the engine to say when the container has ended. While the engine is away it waits on: what becomes of its containers shows when it is back.
func (d *Driver) Wait(ctx context.Context, h driver.Handle) (driver.Exit, error) {
	exit, err := d.wait(ctx, h.TaskID)
	if err != nil {
		return driver.Exit{}, fmt.Errorf("wait for task %s: %w", h.TaskID, err)
	}
	return exit, nil
}

func (d *Driver) wait(ctx context.Context, taskID string) (driver.Exit, error) {
	for {
		c, err := d.look(ctx, taskID)
		switch {
		case ctx.Err() != nil:
			return driver.Exit{}, ctx.Err()
		case errors.Is(err, driver.ErrNotFound), errors.Is(err, errForeign):
			return driver.Exit{}, err
		case err == nil:
			switch status := statusOf(c); status.State {
			case driver.StateExited:
				return *status.Exit, nil
			case driver.StateNotStarted:
				return driver.Exit{}, driver.ErrNotStarted
			}
			d.resume(taskID)
			err = d.waitOnce(ctx, c.ID)
		}
		if err != nil && !pause(ctx, retryPause) {
			return driver.Exit{}, ctx.Err()
		}
	}
}

// waitOnce returns nil once the container does not run. Nothing is missed: the engine answers at once if it has ended already.
func (d *Driver) waitOnce(ctx context.Context, id string) error {
	answer := d.engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select { // one of them comes, also when the context ends
	case <-answer.Result:
		return nil
	case err := <-answer.Error:
		return err
	}
}

// List tells of all containers with the driver's mark.
func (d *Driver) List(ctx context.Context) ([]driver.Listed, error) {
	d.endForgotten()
	filters := client.Filters{}.Add("label", labelOwner+"="+d.owner)
	all, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", plain(err))
	}
	var out []driver.Listed
	for _, item := range all.Items {
		taskID, marked := item.Labels[labelTask]
		if !marked {
			continue
		}
		c, err := d.look(ctx, taskID)
		switch {
		case errors.Is(err, driver.ErrNotFound): // removed meanwhile
			continue
		case err != nil:
			return nil, fmt.Errorf("list containers: %w", err)
		}
		out = append(out, driver.Listed{Handle: handle(taskID, c), Status: statusOf(c)})
	}
	slices.SortFunc(out, func(a, b driver.Listed) int { return cmp.Compare(a.Handle.TaskID, b.Handle.TaskID) })
	return out, nil
}

// Remove has the engine remove the container, its output, and the volumes that only it had.
func (d *Driver) Remove(ctx context.Context, h driver.Handle) error {
	if err := d.remove(ctx, h.TaskID); err != nil {
		return fmt.Errorf("remove task %s: %w", h.TaskID, err)
	}
	return nil
}

func (d *Driver) remove(ctx context.Context, taskID string) error {
	name := d.container(taskID)
	unlock, err := d.busy.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := d.look(ctx, taskID)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return d.forgetStop(name)
	case err != nil:
		return err
	case statusOf(c).State == driver.StateRunning:
		return driver.ErrRunning
	}
	if err := d.drop(ctx, c.ID); err != nil {
		return err
	}
	return d.forgetStop(name)
}

// drop removes a container that does not run.
func (d *Driver) drop(ctx context.Context, id string) error {
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true})
	if notFound(err) {
		return nil
	}
	return plain(err)
}
