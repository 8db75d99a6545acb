package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) eventsCommand() *cobra.Command {
	req := &apiv1.WatchEventsRequest{}
	var from uint64
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened, turn by turn", Args: takes(0, 0),
		Example: "  setpoint events --job web --recent 20\n  setpoint events -f --kind stalled",
		Long: `Shows what happened, turn by turn. With JSON and -f that is one event a line. With -f a server that went away is waited for, and nothing of what happened
meanwhile is left out; that is said on standard error.

Each event has the revision of its turn; --from goes on after an interruption without losing any, also one of the server.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("from") {
				req.FromRevision = &from
			}
			return (&eventWatch{app: a, server: s, req: req, all: []view.Event{}}).run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&req.Follow, "follow", "f", false, "go on with what happens")
	flags.Uint64Var(&from, "from", 0, "the first `revision` (default: what the server has at hand)")
	flags.Uint32Var(&req.Recent, "recent", 0, "without --from: only the last so `many` events")
	flags.StringVar(&req.Job, "job", "", "only about this `job`, its slots and tasks")
	flags.StringVar(&req.Node, "node", "", "only about this `node` and its tasks")
	flags.StringVar(&req.Task, "task", "", "only about this `task`")
	flags.StringSliceVar(&req.Kinds, "kind", nil, "only these `kinds`")
	return cmd
}

// eventWatch prints events, and goes on after the last one if it follows and the connection breaks.
type eventWatch struct {
	app    *app
	server *server
	req    *apiv1.WatchEventsRequest
	all    []view.Event // what is printed at the end
	begun  bool         // the server has answered before
	away   bool
}

// eventsAgain is after how long a server that went away is tried again.
const eventsAgain = time.Second

func (x *eventWatch) run(ctx context.Context) error {
	for {
		err := x.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !x.req.GetFollow():
			return x.end()
		case err != nil && (!x.begun || !x.req.GetFollow() || !client.IsLost(err)):
			return x.refused(err)
		case err != nil && !x.away:
			x.away = true
			fmt.Fprintf(x.app.errOut, "No answer from the server at %s since %s. Trying again.\n", x.server.Addr(), time.Now().Format(time.TimeOnly))
		}
		if pause(ctx, nil, eventsAgain) != nil {
			return nil
		}
	}
}

// once prints events until the connection ends, and notes from where to go on.
func (x *eventWatch) once(ctx context.Context) error {
	stream, err := x.server.WatchEvents(ctx, connect.NewRequest(x.req))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // what it says, Err says too
	style := x.app.style(x.app.out)
	for stream.Receive() {
		if x.begun = true; x.away {
			x.away = false
			fmt.Fprintln(x.app.errOut, "The server answers again.")
		}
		for _, e := range stream.Msg().GetEvents() {
			if err := x.print(style, e); err != nil {
				return err
			}
		}
		next := stream.Msg().GetRevision() + 1
		x.req.FromRevision = &next
	}
	return stream.Err()
}

func (x *eventWatch) print(style console.Style, e *apiv1.Event) error {
	switch {
	case !x.app.structured():
		_, err := fmt.Fprintln(x.app.out, eventLine(style, e))
		return err
	case x.req.GetFollow():
		return x.app.printNext(view.OfEvent(e))
	}
	x.all = append(x.all, view.OfEvent(e))
	return nil
}

func (x *eventWatch) end() error {
	if x.app.structured() {
		return x.app.printValue(x.all)
	}
	return nil
}

func (x *eventWatch) refused(err error) error {
	var f *failure
	if err = refusal(x.server.Addr(), err); errors.As(err, &f) && x.req.GetFollow() && f.hint == "" {
		f.hint = "Watch on with --from and the revision after the last one shown."
	}
	return err
}

func eventLine(style console.Style, e *apiv1.Event) string {
	text := console.Line(e.GetText())
	if e.GetKind() == "stalled" || e.GetKind() == "stall_changed" {
		text = style.Red(text)
	}
	if e.GetBy() != "" {
		text += ", asked for by " + e.GetBy()
	}
	return fmt.Sprintf("%s  %s  %s  %s", style.Faint(timeOf(e.GetTime()).Local().Format("15:04:05.000")), style.Faint(fmt.Sprint(e.GetRevision())), e.GetKind(), text)
}
