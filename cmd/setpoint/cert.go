package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) certCommand() *cobra.Command {
	return group("cert", "Look at the certificates that were issued, and revoke them", a.certList(), a.certRevoke())
}

func (a *app) certList() *cobra.Command {
	own := "" // the serial number of the certificate that this command shows
	return list(a, &cobra.Command{
		Use: "ls", Short: "List certificates that were issued and have not expired", Example: "  setpoint cert ls",
	}, &listing[*apiv1.Certificate]{
		fetch: func(ctx context.Context, s *server) ([]*apiv1.Certificate, error) {
			own = pki.Serial(s.Pair().Certificate())
			return pages(func(token string) (*apiv1.ListCertificatesResponse, error) {
				return ask(ctx, s, s.ListCertificates, &apiv1.ListCertificatesRequest{PageToken: token})
			}, func(res *apiv1.ListCertificatesResponse) ([]*apiv1.Certificate, string) {
				return res.GetCertificates(), res.GetNextPageToken()
			})
		},
		view: viewed(view.OfCertificates),
		columns: []column[*apiv1.Certificate]{
			{"SERIAL", func(_ pen, c *apiv1.Certificate) string { return c.GetSerial() }, always},
			{"NAME", func(_ pen, c *apiv1.Certificate) string { return c.GetName() }, always},
			{"ROLE", func(_ pen, c *apiv1.Certificate) string { return c.GetRole() }, always},
			{"ISSUED", func(_ pen, c *apiv1.Certificate) string { return certTime(c.GetIssued()) }, always},
			{"EXPIRES", func(_ pen, c *apiv1.Certificate) string { return certTime(c.GetExpires()) }, always},
			{"STATE", func(_ pen, c *apiv1.Certificate) string { return certState(c, own) }, long},
		},
	})
}

// certState says whether a certificate serves.
func certState(c *apiv1.Certificate, own string) string {
	switch {
	case c.GetRevoked() != nil:
		state := fmt.Sprintf("revoked %s by %s", certTime(c.GetRevoked()), c.GetRevokedBy())
		if c.GetReason() != "" {
			state += ": " + c.GetReason()
		}
		return state
	case c.GetSerial() == own:
		return "serves (this command shows it)"
	}
	return "serves"
}

func certTime(t moment) string { return t.AsTime().Local().Format(time.DateTime) }

// moment is a time in a message.
type moment interface{ AsTime() time.Time }

func (a *app) certRevoke() *cobra.Command {
	req := &apiv1.RevokeCertificateRequest{}
	cmd := &cobra.Command{
		Use: "revoke SERIAL | revoke --name NAME", Short: "Revoke a certificate, or all of a person or program", Args: takes(0, 1),
		Long: `Ends certificates before they expire: every call with them is refused from now on, and what watches with them is cut off. With --name it is all that this person or program
has, those included that earlier versions issued; who logs in again with a new token is served. The serial number is in ` + "`setpoint cert ls`" + ` and in each entry of the audit log.

Tokens that were made and not used are revoked with ` + "`setpoint token rm`" + `, and nodes with ` + "`setpoint node decommission`" + `. If it is the administrator's certificate of the server's own data
directory, the server makes another there at once: copies of it serve no more.`,
		Example: "  setpoint cert revoke --name ann --reason 'left the team'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Serial = args[0]
			}
			if (req.GetSerial() == "") == (req.GetName() == "") {
				return refuse("`setpoint cert ls` shows the serial numbers.", "give a serial number, or --name")
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.RevokeCertificate, req)
			if err != nil {
				return err
			}
			return a.print(view.OfCertificates(res.GetCertificates()), func(w io.Writer, _ console.Style) {
				for _, c := range res.GetCertificates() {
					fmt.Fprintf(w, "%s: revoked", c.GetSerial())
					if c.GetName() != "" {
						fmt.Fprintf(w, " (%s, %s)", c.GetName(), c.GetRole())
					}
					fmt.Fprintln(w)
				}
				switch {
				case req.GetName() != "" && len(res.GetCertificates()) == 0:
					fmt.Fprintf(w, "%s: no certificate of this name is known to serve; `setpoint cert ls` shows the names. One of it that is not known, as those of an earlier version, serves no more\n", req.GetName())
				case req.GetName() != "":
					fmt.Fprintf(w, "%s: whatever else was issued before serves no more\n", req.GetName())
				}
			})
		},
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "all that this person or program has")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for the record")
	return cmd
}
