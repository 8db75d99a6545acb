package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Authorities keeps the cluster's certificate authorities.
type Authorities interface {
	Authorities() pki.Authorities
	// Rotate makes a new authority, which issues from now on. The error is pki.ErrRotating while one retires.
	Rotate(ctx context.Context) error
	// Retire ends trust in the old one. The error is pki.ErrNotRotating if there is none.
	Retire(ctx context.Context) error
	// Nodes returns by which authority's certificate each connected node is known.
	Nodes() map[cluster.NodeID]pki.Fingerprint
}

// GetAuthority tells of the cluster's authority.
func (v *service) GetAuthority(context.Context, *connect.Request[apiv1.GetAuthorityRequest]) (*connect.Response[apiv1.GetAuthorityResponse], error) {
	return v.authority()
}

// RotateAuthority begins to replace it.
func (v *service) RotateAuthority(ctx context.Context, _ *connect.Request[apiv1.RotateAuthorityRequest]) (*connect.Response[apiv1.GetAuthorityResponse], error) {
	if v.opts.Authorities == nil {
		return nil, errNoAuthorities
	}
	err := v.opts.Authorities.Rotate(ctx)
	switch {
	case errors.Is(err, pki.ErrRotating):
		return nil, &engine.OpError{Kind: engine.Conflict, Message: err.Error(), Hint: "`setpoint ca show` tells how far it is, and `setpoint ca finish` ends it"}
	case errors.Is(err, pki.ErrOutside):
		return nil, &engine.OpError{Kind: engine.Refused, Message: err.Error(), Hint: "put another one in its place: `setpoint ca request` makes a key, and a request for who signs it"}
	case err != nil:
		return nil, err
	}
	return v.authority()
}

// FinishAuthority ends it.
func (v *service) FinishAuthority(ctx context.Context, req *connect.Request[apiv1.FinishAuthorityRequest]) (*connect.Response[apiv1.GetAuthorityResponse], error) {
	now, err := v.authority()
	if err != nil {
		return nil, err
	}
	if left := slices.Concat(now.Msg.GetWaiting(), now.Msg.GetAway()); now.Msg.GetRetiring() != nil && len(left) > 0 && !req.Msg.GetForce() {
		return nil, &engine.OpError{
			Kind:    engine.Refused,
			Message: fmt.Sprintf("%d of %d nodes may still have a certificate of the old authority: %s", len(left), now.Msg.GetNodes(), someOf(left)),
			Hint:    "those that are connected renew it by themselves; with --force the others have to join again",
		}
	}
	err = v.opts.Authorities.Retire(ctx)
	if errors.Is(err, pki.ErrNotRotating) {
		return nil, &engine.OpError{Kind: engine.Conflict, Message: err.Error(), Hint: "`setpoint ca rotate` begins"}
	}
	if err != nil {
		return nil, err
	}
	v.sweepDashboard()
	return v.authority()
}

var errNoAuthorities = connect.NewError(connect.CodeUnimplemented, errors.New("this server does not keep the cluster's authority"))

// namedAtMost is how many names of a list an error tells.
const namedAtMost = 5

func someOf(names []string) string {
	if more := len(names) - namedAtMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (v *service) authority() (*connect.Response[apiv1.GetAuthorityResponse], error) {
	if v.opts.Authorities == nil {
		return nil, errNoAuthorities
	}
	all := v.opts.Authorities.Authorities()
	out := &apiv1.GetAuthorityResponse{ClusterId: all.Current.ClusterID(), Current: authorityView(all.Current)}
	known := v.opts.Authorities.Nodes()
	for n := range v.view().Nodes() {
		if n.Spec.Decommissioned {
			continue
		}
		out.Nodes++
		by, connected := known[n.ID]
		switch {
		case all.Retiring == nil:
		case !connected:
			out.Away = append(out.Away, n.Spec.Name)
		case by != all.Current.Fingerprint():
			out.Waiting = append(out.Waiting, n.Spec.Name)
		}
	}
	if all.Retiring != nil {
		out.Retiring = authorityView(all.Retiring)
	}
	slices.Sort(out.Away)
	slices.Sort(out.Waiting)
	return connect.NewResponse(out), nil
}

func authorityView(a *pki.Authority) *apiv1.Authority {
	cert := a.Certificate()
	return &apiv1.Authority{
		Fingerprint: a.Fingerprint().String(), Created: timestamppb.New(cert.NotBefore.Add(pki.Backdate)), Expires: timestamppb.New(cert.NotAfter),
	}
}
