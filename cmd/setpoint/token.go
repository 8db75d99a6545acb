package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Make and revoke the tokens with which machines join and people log in", a.tokenCreate(), a.tokenList(), a.tokenRemove())
}

func (a *app) tokenCreate() *cobra.Command {
	var role, name string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use: "create", Short: "Make a token and print it; it is shown this once", Args: takes(0, 0),
		Long: `Makes a token and prints it, this once; the server keeps its hash only.

With a token of the role node machines join, as many as come, until it is revoked. With one of another role one person or program logs in, once: a reader sees
everything, an operator changes jobs and nodes, an admin makes tokens and runs other plugins. Who logs in says under which name, which must be nobody else's; with --name the
token says it, so that it is sure who is meant where the audit log and jobs' histories have it.`,
		Example: "  setpoint agent --join $(setpoint token create)@HOST:PORT --name n4 --data-dir /var/lib/setpoint\n" +
			"  setpoint login $(setpoint token create --role reader)@HOST:PORT --name prometheus --data-dir /etc/prometheus/setpoint",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			req := &apiv1.CreateTokenRequest{Role: role, Name: name}
			if lifetime > 0 {
				req.Lifetime = durationpb.New(lifetime)
			}
			res, err := ask(cmd.Context(), s, s.CreateToken, req)
			if err != nil {
				return err
			}
			token := view.OfToken(res.GetToken())
			token.Token = res.GetText()
			return a.print(token, func(w io.Writer, _ console.Style) { fmt.Fprintln(w, res.GetText()) })
		},
	}
	cmd.Flags().StringVar(&role, "role", "node", "what its user becomes: node, reader, operator or admin")
	cmd.Flags().StringVar(&name, "name", "", "under which `name` its user logs in, whatever he says")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "how `long` it serves (default: one for nodes until it is revoked, another for an hour)")
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	return list(a, &cobra.Command{Use: "ls", Short: "List tokens, without their secrets", Example: "  setpoint token ls"}, &listing[*apiv1.Token]{
		fetch: listTokens, view: viewed(view.OfTokens),
		columns: []column[*apiv1.Token]{
			{"ID", func(_ pen, t *apiv1.Token) string { return t.GetId() }, always},
			{"ROLE", func(_ pen, t *apiv1.Token) string { return t.GetRole() }, always},
			{"NAME", func(_ pen, t *apiv1.Token) string { return cmp.Or(t.GetName(), "-") }, always},
			{"CREATED", func(p pen, t *apiv1.Token) string { return ago(p.now, t.GetCreated()) + " ago" }, ages},
			{"EXPIRES", func(_ pen, t *apiv1.Token) string {
				if t.GetExpires() == nil {
					return "never"
				}
				return timeOf(t.GetExpires()).Local().Format(time.DateTime)
			}, always},
		},
	})
}

func listTokens(ctx context.Context, s *server) ([]*apiv1.Token, error) {
	return pages(func(token string) (*apiv1.ListTokensResponse, error) {
		return ask(ctx, s, s.ListTokens, &apiv1.ListTokensRequest{PageToken: token})
	}, func(res *apiv1.ListTokensResponse) ([]*apiv1.Token, string) {
		return res.GetTokens(), res.GetNextPageToken()
	})
}

func (a *app) tokenRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Aliases: []string{"revoke", "remove"}, Short: "Revoke a token; who joined or logged in with it stays", Args: takes(1, 1),
		Example: "  setpoint token ls && setpoint token rm a1b2c3",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := ask(cmd.Context(), s, s.RevokeToken, &apiv1.RevokeTokenRequest{Id: args[0]}); err != nil {
				return err
			}
			return a.print(map[string]any{"id": args[0], "revoked": true}, func(w io.Writer, _ console.Style) { fmt.Fprintf(w, "%s: revoked\n", args[0]) })
		},
	}
}
