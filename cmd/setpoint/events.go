package main

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

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
		Long: `Shows what happened, turn by turn. With JSON and -f that is one event a line.

Each event has the revision of its turn; --from goes on after an interruption without losing any, also one of the server.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("from") {
				req.FromRevision = &from
			}
			stream, err := s.WatchEvents(cmd.Context(), connect.NewRequest(req))
			if err != nil {
				return refusal(s.Addr(), err)
			}
			defer stream.Close() //nolint:errcheck // what it says, Err says too
			return a.writeEvents(s, stream, req.GetFollow())
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

func (a *app) writeEvents(s *server, stream *connect.ServerStreamForClient[apiv1.WatchEventsResponse], follow bool) error {
	style := a.style(a.out)
	all := []view.Event{}
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			switch {
			case !a.structured():
				fmt.Fprintln(a.out, eventLine(style, e))
			case follow:
				if err := a.printNext(view.OfEvent(e)); err != nil {
					return err
				}
			default:
				all = append(all, view.OfEvent(e))
			}
		}
	}
	if err := stream.Err(); err != nil && connect.CodeOf(err) != connect.CodeCanceled {
		err = refusal(s.Addr(), err)
		var f *failure
		if errors.As(err, &f) && follow && f.hint == "" {
			f.hint = "Watch on with --from and the revision after the last one shown."
		}
		return err
	}
	if a.structured() && !follow {
		return a.printValue(all)
	}
	return nil
}

func eventLine(style console.Style, e *apiv1.Event) string {
	text := e.GetText()
	if e.GetKind() == "stalled" || e.GetKind() == "stall_changed" {
		text = style.Red(text)
	}
	if e.GetBy() != "" {
		text += ", asked for by " + e.GetBy()
	}
	return fmt.Sprintf("%s  %s  %s  %s", style.Faint(timeOf(e.GetTime()).Local().Format("15:04:05.000")), style.Faint(fmt.Sprint(e.GetRevision())), e.GetKind(), text)
}
