package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) dashboardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dashboard", Short: "Print a link with which a browser logs in to the dashboard", Args: takes(0, 0),
		Example: "  setpoint dashboard",
		Long: `Prints a link to the server's dashboard. A browser that opens it is logged in under the name and with the role of the credential that this command uses:
readers look, operators change things too. The link serves once, for two minutes; the login ends after twelve hours, after an hour without use, or by logging out.

The browser has to reach the address in the link, which the server's configuration names (dashboard). Unless that has a certificate of its own, the browser asks
whether to trust the server's: ca/ in the server's data directory has the authority that it can be given.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.OpenDashboard, &apiv1.OpenDashboardRequest{})
			if err != nil {
				return err
			}
			out := dashboardLink{URL: res.GetUrl(), Expires: timeOf(res.GetExpires())}
			return a.print(out, func(w io.Writer, _ console.Style) { fmt.Fprintln(w, out.URL) })
		},
	}
}

// dashboardLink is a link that logs somebody in.
type dashboardLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}
