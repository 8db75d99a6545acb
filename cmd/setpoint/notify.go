package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) notifyCommand() *cobra.Command {
	return group("notify", "Look at who is told of what waits for too long", a.notifyList(), a.notifyTest())
}

// noSinks is what is said where nobody is told.
const noSinks = "Nobody is told: the server's configuration has no notify block. docs/NOTIFICATIONS.md shows some."

func (a *app) notifyList() *cobra.Command {
	return named(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the sinks of the server's configuration, and how they are", Args: takes(0, 0),
		Long:    `Lists those who are told of what waits for too long. OPEN are causes of which they were told and that have not ended, TO TELL those of which they are still to be told.`,
		Example: "  setpoint notify ls\n  setpoint notify ls -o name | xargs setpoint notify test",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.ListSinks, &apiv1.ListSinksRequest{})
			if err != nil {
				return err
			}
			return a.print(view.OfSinks(res.GetSinks()), func(w io.Writer, style console.Style) { writeSinks(w, style, time.Now(), res.GetSinks()) })
		},
	})
}

func writeSinks(w io.Writer, style console.Style, now time.Time, sinks []*apiv1.Sink) {
	if len(sinks) == 0 {
		fmt.Fprintln(w, noSinks)
		return
	}
	table := console.NewTable("NAME", "KIND", "STATE", "OPEN", "TO TELL", "DELIVERED", "LAST", "TARGET")
	for _, s := range sinks {
		last := "-"
		if s.GetLast() != nil {
			last = ago(now, s.GetLast()) + " ago"
		}
		state := s.GetState()
		if s.GetFailure() != "" {
			state = style.Red(state)
		}
		table.Row(s.GetName(), s.GetKind(), state, fmt.Sprint(s.GetOpen()), fmt.Sprint(s.GetWaiting()), fmt.Sprint(s.GetDelivered()), last, s.GetTarget())
	}
	table.Write(w, style)
	for _, s := range sinks {
		if s.GetFailure() != "" {
			fmt.Fprintf(w, "\n%s has failed for %s: %s", s.GetName(), ago(now, s.GetFailingSince()), s.GetFailure())
			if next := s.GetNext(); next.AsTime().After(now) {
				fmt.Fprintf(w, "; tried again in %s", console.Since(next.AsTime(), now))
			}
			fmt.Fprintln(w)
		}
		if n := s.GetOmitted(); n > 0 {
			fmt.Fprintf(w, "\n%s does not tell of %d more causes: too many are open\n", s.GetName(), n)
		}
	}
}

func (a *app) notifyTest() *cobra.Command {
	return &cobra.Command{
		Use: "test [NAME…]", Short: "Send a trial through sinks: those of these names, or all",
		Long:    `Has sinks tell that nothing is wrong, and says what came of it. It ends with 1 if one did not arrive.`,
		Example: "  setpoint notify test\n  setpoint notify test oncall",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.TestSinks, &apiv1.TestSinksRequest{Sinks: args})
			if err != nil {
				return err
			}
			failed := 0
			for _, t := range res.GetTests() {
				if t.GetFailure() != "" {
					failed++
				}
			}
			err = a.print(view.OfSinkTests(res.GetTests()), func(w io.Writer, style console.Style) {
				if len(res.GetTests()) == 0 {
					fmt.Fprintln(w, noSinks)
				}
				for _, t := range res.GetTests() {
					if t.GetFailure() == "" {
						fmt.Fprintf(w, "%s: %s\n", t.GetSink(), style.Green("arrived"))
						continue
					}
					fmt.Fprintf(w, "%s: %s\n", t.GetSink(), style.Red(t.GetFailure()))
				}
			})
			if err == nil && failed > 0 {
				err = fmt.Errorf("%d of %d did not arrive", failed, len(res.GetTests()))
			}
			return err
		},
	}
}
