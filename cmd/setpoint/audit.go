package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// auditFlags say which entries are wanted.
type auditFlags struct {
	who, call    string
	since, until string
	refused      bool
	tail         int64
}

func (a *app) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who changed what, and who was refused", Args: takes(0, 0),
		Long: `Shows what the server's audit log has, oldest first: each call that changed something or was refused, who called from where, what it was about, and how it ended. What
only reads is not written down. With -o json each entry is a line. It takes an administrator.`,
		Example: "  setpoint audit --since 24h --who ann\n  setpoint audit --refused --tail 0 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := f.request(time.Now())
			if err != nil {
				return err
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			stream, err := s.ReadAudit(cmd.Context(), connect.NewRequest(req))
			if err != nil {
				return refusal(s.Addr(), err)
			}
			defer stream.Close() //nolint:errcheck // what it says, Err says too
			table := console.NewTable("TIME", "WHO", "ROLE", "FROM", "CALL", "ON", "RESULT")
			for stream.Receive() {
				if err := a.auditPart(table, stream.Msg().GetEntries()); err != nil {
					return err
				}
			}
			if err := stream.Err(); err != nil {
				return refusal(s.Addr(), err)
			}
			if !a.structured() {
				table.Write(a.out, a.style(a.out))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.who, "who", "", "only what this `name` called")
	flags.StringVar(&f.call, "call", "", "only this `call`, such as RunJob")
	flags.StringVar(&f.since, "since", "", "only what came after: a `time` such as 2030-01-31T08:00:00Z, or how long ago, such as 24h")
	flags.StringVar(&f.until, "until", "", "only what came before this `time`")
	flags.BoolVar(&f.refused, "refused", false, "only what was refused")
	flags.Int64Var(&f.tail, "tail", 200, "only so `many` of the last; 0: all")
	return cmd
}

func (f *auditFlags) request(now time.Time) (*apiv1.ReadAuditRequest, error) {
	req := &apiv1.ReadAuditRequest{Who: f.who, Call: f.call, Refused: f.refused, Tail: f.tail}
	for _, bound := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{"--since", f.since, &req.Since}, {"--until", f.until, &req.Until}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.text)
		if ago, notLong := time.ParseDuration(bound.text); notLong == nil && ago >= 0 {
			at, err = now.Add(-ago), nil
		}
		if err != nil {
			return nil, refuse("Write a time such as 2030-01-31T08:00:00Z, or how long ago, such as 24h.", "bad %s %q", bound.flag, bound.text)
		}
		*bound.to = timestamppb.New(at)
	}
	return req, nil
}

// auditPart prints entries as lines of JSON, or adds them to the table.
func (a *app) auditPart(table *console.Table, entries []*apiv1.AuditEntry) error {
	for _, in := range entries {
		e := view.OfAuditEntry(in)
		if a.structured() {
			if err := a.printNext(e); err != nil {
				return err
			}
			continue
		}
		result := e.Result
		if e.Message != "" {
			result += ": " + e.Message
		}
		if e.Skipped > 0 {
			result += fmt.Sprintf(" (and %d more before)", e.Skipped)
		}
		table.Row(in.GetTime().AsTime().Local().Format(time.DateTime), e.Who, e.Role, e.From, e.Call, pairsText(e.On), result)
	}
	return nil
}

// pairsText writes pairs in the order of their keys.
func pairsText(pairs map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, k+"="+pairs[k])
	}
	return strings.Join(out, " ")
}
