package drain

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Name is the plugin's name.
const Name = "drain"

// Config is the plugin's configuration.
type Config struct {
	Grace time.Duration `setpoint:"grace" desc:"How long tasks may take to stop when their node is drained; without it, as each task's specification says." default:"0s"`
}

// New returns the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{Name: Name, Version: "1.0.0", Drainer: &drainer{}, Config: sdk.SchemaOf[Config]()}
}

type drainer struct {
	grace atomic.Int64 // nanoseconds; 0: as the task's specification says
}

// ValidateConfig refuses a grace below zero.
func (*drainer) ValidateConfig(_ context.Context, req sdk.ConfigureRequest) error {
	_, err := read(req.Config)
	return err
}

// Configure takes up the grace.
func (d *drainer) Configure(_ context.Context, req sdk.ConfigureRequest) error {
	c, err := read(req.Config)
	if err != nil {
		return err
	}
	d.grace.Store(int64(c.Grace))
	return nil
}

func read(settings sdk.Settings) (Config, error) {
	var c Config
	if err := settings.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if c.Grace < 0 {
		return Config{}, sdk.Diagnostics{{Summary: "the grace is negative", Detail: c.Grace.String(), Path: sdk.At("grace")}}
	}
	return c, nil
}

// Drain asks the tasks that leave first to go, or, once none of these is left, the others. A task that was told to stop is left alone and still counts as
// being there until it has stopped.
func (d *drainer) Drain(_ context.Context, req sdk.DrainRequest) (sdk.DrainResponse, error) {
	left := 0
	for i := range req.Tasks {
		if req.Tasks[i].OnDrain != cluster.DrainLast {
			left++
		}
	}
	var out sdk.DrainResponse
	for i := range req.Tasks {
		t := &req.Tasks[i]
		if !t.Desired.Wanted() || left > 0 && t.OnDrain == cluster.DrainLast {
			continue
		}
		out.Transitions = append(out.Transitions, sdk.Transition{
			Task: t.ID, To: cluster.DesiredShutdown, Reason: "node " + req.Node.Spec.Name + " is drained", Grace: time.Duration(d.grace.Load()),
		})
	}
	return out, nil
}
