package api

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// Dashboard lets people in who are known to the API already.
type Dashboard interface {
	// Invite makes a link that serves one login, as somebody who is known by a credential, until it expires. An error is an *engine.OpError if there are too many
	// links already.
	Invite(c pki.Credential) (url string, expires time.Time, err error)
	// Sweep ends the sessions and links of those whose credential serves no more. It is called when some do not.
	Sweep()
}

// OpenDashboard makes a link with which the caller logs in to the dashboard.
func (v *service) OpenDashboard(ctx context.Context, _ *connect.Request[apiv1.OpenDashboardRequest]) (*connect.Response[apiv1.OpenDashboardResponse], error) {
	c := callerOf(ctx)
	if c.err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, c.err)
	}
	if v.opts.Dashboard == nil {
		return nil, &engine.OpError{
			Kind: engine.Refused, Message: "this server serves no dashboard", Hint: `add dashboard { listen = "127.0.0.1:7481" } to its configuration and start it again`,
		}
	}
	url, expires, err := v.opts.Dashboard.Invite(c.Credential)
	if err != nil {
		return nil, err
	}
	v.opts.Log.Info("dashboard link made", "caller", c.Identity.Name, "role", string(c.Identity.Role))
	return connect.NewResponse(&apiv1.OpenDashboardResponse{Url: url, Expires: wallTimestamp(expires)}), nil
}

// sweepDashboard has the dashboard look whose credentials serve no more.
func (v *service) sweepDashboard() {
	if v.opts.Dashboard != nil {
		v.opts.Dashboard.Sweep()
	}
}
