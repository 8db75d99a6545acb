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
	// Invite makes a link that serves one login, as id, until it expires. authority is that of the certificate by which the caller is known. An error is an
	// *engine.OpError if there are too many links already.
	Invite(id pki.Identity, authority pki.Fingerprint) (url string, expires time.Time, err error)
}

// OpenDashboard makes a link with which the caller logs in to the dashboard.
func (v *service) OpenDashboard(ctx context.Context, _ *connect.Request[apiv1.OpenDashboardRequest]) (*connect.Response[apiv1.OpenDashboardResponse], error) {
	id, err := IdentityFrom(ctx)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	authority, err := AuthorityFrom(ctx)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	if v.opts.Dashboard == nil {
		return nil, &engine.OpError{
			Kind: engine.Refused, Message: "this server serves no dashboard", Hint: `add dashboard { listen = "127.0.0.1:7481" } to its configuration and start it again`,
		}
	}
	url, expires, err := v.opts.Dashboard.Invite(id, authority)
	if err != nil {
		return nil, err
	}
	v.opts.Log.Info("dashboard link made", "caller", id.Name, "role", string(id.Role))
	return connect.NewResponse(&apiv1.OpenDashboardResponse{Url: url, Expires: wallTimestamp(expires)}), nil
}
