package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

// Options are with what a program runs.
type Options struct {
	Source  Source
	Style   console.Style
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Run shows what a source has in a terminal until somebody leaves or the context ends. Nothing is shown if the source cannot be looked at to begin with: that is the error.
func Run(ctx context.Context, o Options) error {
	first, err := o.Source.Look(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	o.Style.Columns = 0
	program := tea.NewProgram(
		&model{source: o.Source, style: o.Style, ctx: ctx, now: time.Now, shot: first},
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler(),
	)
	var watching sync.WaitGroup
	var ended error // why watching ended before somebody left
	watching.Go(func() {
		ended = o.Source.Watch(ctx, func(shot Shot, err error) {
			if err != nil {
				program.Send(awayMsg{err})
				return
			}
			program.Send(shotMsg{shot})
		})
		if ended != nil {
			program.Quit()
		}
	})
	_, err = program.Run()
	cancel()
	watching.Wait()
	if ended != nil {
		return ended
	}
	if errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrProgramPanic) {
		return nil // the context ended
	}
	if err != nil {
		return fmt.Errorf("show it in the terminal: %w", err)
	}
	return nil
}
