package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) statusCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Show how the server and its cluster are", Args: takes(0, 0),
		Example: "  setpoint status --wait 30s\n  setpoint status -o json",
		Long: `Shows how the server and its cluster are. The exit code is 3 if the server is not ready.

With --wait the command returns when the server is ready; the data directory need not exist yet.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, st, err := a.status(cmd.Context(), wait)
			if err != nil {
				return err
			}
			err = a.print(view.OfStatus(st, s.Addr()), func(w io.Writer, style console.Style) {
				writeStatus(w, style, s.Addr(), st)
				if st.GetStalls() > 0 {
					writeStalls(w, style, time.Now(), wideStalls(cmd.Context(), s))
				}
			})
			if err == nil && !st.GetReady() {
				return &failure{code: exitStalled, text: "the server is not ready: " + st.GetNotReady(), hint: "`setpoint status --wait 30s` waits until it is."}
			}
			return err
		},
	}
	waitFlag(cmd, &wait, "the server is ready")
	return cmd
}

// wideStalls returns what stalls of more than one job: the cluster, its plugins, drains and updates. What cannot be had is left out.
func wideStalls(ctx context.Context, s *server) []*apiv1.Stall {
	all, err := listStalls(ctx, s, &apiv1.ListStallsRequest{})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(x *apiv1.Stall) bool {
		return !slices.Contains([]string{"cluster", "plugin", "node", "update"}, x.GetSubject().GetKind())
	})
}

// status asks for the status, until it is ready if there is time to wait.
func (a *app) status(ctx context.Context, wait time.Duration) (*server, *apiv1.GetStatusResponse, error) {
	var s *server
	var st *apiv1.GetStatusResponse
	look := func(ctx context.Context) (bool, error) {
		var err error
		if s, err = a.connect(); err != nil {
			return false, err
		}
		st, err = ask(ctx, s, s.GetStatus, &apiv1.GetStatusRequest{})
		return err == nil && st.GetReady(), err
	}
	if wait <= 0 {
		_, err := look(ctx)
		return s, st, err
	}
	var last error
	err := a.wait(ctx, wait, func(ctx context.Context) (bool, error) {
		ready, err := look(ctx)
		var f *failure
		// What was refused on this side does not mend itself; what is missing, or answers wrongly while it starts, does.
		if errors.As(err, &f) && f.code == exitRefused {
			return false, err
		}
		if ctx.Err() == nil {
			last = err
		}
		return ready, nil
	})
	if errors.Is(err, errTimeout) {
		f := &failure{code: exitStalled, text: fmt.Sprintf("the server is not ready after %s", wait), hint: "Its log says how far it has come."}
		var known *failure
		switch {
		case errors.As(last, &known):
			f.text, f.hint = f.text+": "+known.text, known.hint
		case last != nil:
			f.text += ": " + last.Error()
		case st != nil:
			f.text += ": " + st.GetNotReady()
		}
		return s, st, f
	}
	return s, st, err
}

func writeStatus(w io.Writer, style console.Style, address string, st *apiv1.GetStatusResponse) {
	state := style.Green("ready")
	if !st.GetReady() {
		state = style.Red("not ready: " + st.GetNotReady())
	}
	now := time.Now()
	rows := console.NewTable(style.Bold("server"), state)
	rows.Row("address", address)
	rows.Row("version", st.GetVersion())
	rows.Row("pid", fmt.Sprintf("%d, up for %s", st.GetPid(), ago(now, st.GetStarted())))
	rows.Row("cluster", st.GetClusterId())
	rows.Row("revision", fmt.Sprint(st.GetRevision()))
	nodes := tally(st.GetNodes())
	if n := st.GetNodesDraining(); n > 0 {
		nodes += fmt.Sprintf("; %d draining", n)
	}
	if n := st.GetNodesPaused(); n > 0 {
		nodes += fmt.Sprintf("; %d paused", n)
	}
	rows.Row("nodes", nodes)
	rows.Row("jobs", fmt.Sprint(st.GetJobs()))
	rows.Row("tasks", tally(st.GetTasks()))
	stalls := style.Green("none")
	if n := st.GetStalls(); n > 0 {
		stalls = style.Red(fmt.Sprint(n)) + "; `setpoint stalls` shows them"
	}
	rows.Row("stalls", stalls)
	for _, p := range st.GetPlugins() {
		rows.Row("plugin "+p.GetName(), sentence(pluginState(style, p.GetState()), console.Shorten(p.GetMessage(), 120)))
	}
	rows.Write(w, console.Style{})
}
