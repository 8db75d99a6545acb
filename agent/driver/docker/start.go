package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// Start provides the image, makes the container under the task's name, and starts it. A container that is there already and was never started is started; any
// other is left as it is.
func (d *Driver) Start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	h, err := d.start(ctx, spec)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return driver.Handle{}, &driver.RejectedError{TaskID: spec.TaskID, Code: refused.code, Reason: refused.reason}
	case err != nil:
		return driver.Handle{}, fmt.Errorf("start task %s: %w", spec.TaskID, err)
	}
	return h, nil
}

func (d *Driver) start(ctx context.Context, spec driver.Spec) (driver.Handle, error) {
	if spec.TaskID == "" {
		return driver.Handle{}, &refusal{driver.RejectBadSpec, "the task has no id"}
	}
	unlock, err := d.busy.lock(ctx, d.container(spec.TaskID))
	if err != nil {
		return driver.Handle{}, err
	}
	defer unlock()
	engine, err := d.info(ctx)
	if err != nil {
		return driver.Handle{}, err
	}
	s, wrong := parseSettings(spec.Settings)
	free := unenforced(spec.Resources, s, engine)
	c, err := d.look(ctx, spec.TaskID)
	switch {
	case !errors.Is(err, driver.ErrNotFound):
	case wrong != nil:
		return driver.Handle{}, &refusal{driver.RejectBadSpec, strings.ReplaceAll(wrong.Error(), "\n", "; ")}
	case len(free) > 0 && d.opts.Required:
		return driver.Handle{}, &refusal{driver.RejectUnenforced, "it cannot be held to its limits here: " + strings.Join(free, "; ")}
	default:
		c, err = d.create(ctx, spec, s, engine)
	}
	if err != nil {
		return driver.Handle{}, err
	}
	h := handle(spec.TaskID, c)
	h.Unenforced = free
	if statusOf(c).State != driver.StateNotStarted {
		return h, nil
	}
	return h, d.run(ctx, spec.TaskID, c.ID)
}

// create makes the container.
func (d *Driver) create(ctx context.Context, spec driver.Spec, s settings, engine *system.Info) (*container.InspectResponse, error) {
	options, err := d.plan(spec, s, engine)
	if err != nil {
		return nil, &refusal{driver.RejectBadSpec, err.Error()}
	}
	if err := d.provide(ctx, s); err != nil {
		return nil, err
	}
	if err := d.giveSecrets(ctx, spec, s.Image); err != nil {
		return nil, err
	}
	if _, err := d.engine.ContainerCreate(ctx, options); err != nil && !cerrdefs.IsConflict(err) { // in conflict with an earlier attempt, look finds that one
		return nil, refusedCreation(plain(err))
	}
	return d.look(ctx, spec.TaskID)
}

// refusedCreation tells what would be refused again from what may pass.
func refusedCreation(err error) error {
	switch {
	case strings.Contains(err.Error(), "Cannot mkdir"):
		return &refusal{driver.RejectBadDirectory, err.Error()}
	case strings.Contains(err.Error(), "No command specified"), strings.Contains(err.Error(), "no command specified"):
		return &refusal{driver.RejectNoCommand, "the image says no command, and the task neither"}
	case cerrdefs.IsInvalidArgument(err):
		return &refusal{driver.RejectBadSpec, err.Error()}
	}
	return fmt.Errorf("create the container: %w", err)
}

// run starts the container, and waits for the engine's answer even if the context ends: an attempt beside this one could start the task a second time, once it
// has ended. A container that the engine did not start it removes.
func (d *Driver) run(ctx context.Context, taskID, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	_, err := d.engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	if err == nil {
		return nil
	}
	err = plain(err)
	if !answered(err) {
		return err // nobody knows
	}
	c, lookErr := d.look(ctx, taskID)
	switch {
	case errors.Is(lookErr, driver.ErrNotFound):
		return err
	case lookErr != nil:
		return errors.Join(err, lookErr)
	case statusOf(c).State != driver.StateNotStarted: // it ran, however briefly: how it ended its record says
		return nil
	}
	return errors.Join(refusedStart(c.State, err), d.drop(ctx, id))
}

// refusedStart tells what would be refused again from what may pass, such as a port that something else holds.
func refusedStart(s *container.State, err error) error {
	text := err.Error()
	switch {
	case s.ExitCode == 127:
		return &refusal{driver.RejectNoCommand, text}
	case s.ExitCode == 126:
		return &refusal{driver.RejectNotExecutable, text}
	case strings.Contains(text, "unable to find user"), strings.Contains(text, "unable to find group"):
		return &refusal{driver.RejectUnknownUser, text}
	case cerrdefs.IsInvalidArgument(err), notFound(err): // of a network, say
		return &refusal{driver.RejectRefusedBySystem, text}
	}
	return fmt.Errorf("start the container: %w", err)
}
