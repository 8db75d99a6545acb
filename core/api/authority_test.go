package api_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fakeAuthorities replaces an authority in memory.
type fakeAuthorities struct {
	now   pki.Authorities
	nodes map[cluster.NodeID]pki.Fingerprint
}

func (f *fakeAuthorities) Authorities() pki.Authorities { return f.now }

func (f *fakeAuthorities) Rotate(context.Context) error {
	if f.now.Retiring != nil {
		return pki.ErrRotating
	}
	next, err := pki.NewAuthority(f.now.Current.ClusterID(), time.Now())
	f.now = pki.Authorities{Current: next, Retiring: f.now.Current}
	return err
}

func (f *fakeAuthorities) Retire(context.Context) error {
	if f.now.Retiring == nil {
		return pki.ErrNotRotating
	}
	f.now.Retiring = nil
	return nil
}

func (f *fakeAuthorities) Nodes() map[cluster.NodeID]pki.Fingerprint { return f.nodes }

func TestAuthorityIsReplaced(t *testing.T) {
	f := &fakeAuthorities{nodes: map[cluster.NodeID]pki.Fingerprint{}}
	s := serve(t, func(o *api.Options) { o.Authorities = f })
	f.now.Current = s.authority
	gone := node("c", "n3")
	gone.Spec.Decommissioned = true
	s.engine.set(2, node("a", "n1"), node("b", "n2"), gone)
	c, ctx := s.as(pki.RoleAdmin), t.Context()
	show := func() *apiv1.GetAuthorityResponse {
		t.Helper()
		res, err := c.GetAuthority(ctx, connect.NewRequest(&apiv1.GetAuthorityRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		if old := res.Header().Get(api.HeaderRenew) != ""; old != (f.now.Current != s.authority) {
			t.Errorf("a caller of the authority %s is told to renew: %t", s.authority.Fingerprint(), old)
		}
		return res.Msg
	}
	finish := func(force bool) error {
		_, err := c.FinishAuthority(ctx, connect.NewRequest(&apiv1.FinishAuthorityRequest{Force: force}))
		return err
	}
	if got := show(); got.GetRetiring() != nil || got.GetNodes() != 2 || got.GetCurrent().GetFingerprint() != s.authority.Fingerprint().String() || len(got.GetAway()) != 0 {
		t.Errorf("before: %v", got)
	}
	if err := finish(false); client.Detail(err).GetCode() != "conflict" {
		t.Errorf("finished before it began: %v", err)
	}
	rotate := func() error {
		_, err := c.RotateAuthority(ctx, connect.NewRequest(&apiv1.RotateAuthorityRequest{}))
		return err
	}
	if err := rotate(); err != nil {
		t.Fatal(err)
	}
	if err := rotate(); client.Detail(err).GetCode() != "conflict" || !strings.Contains(client.Detail(err).GetHint(), "ca finish") {
		t.Errorf("begun twice: %v", err)
	}
	f.nodes["a"] = s.authority.Fingerprint()
	if got := show(); !slices.Equal(got.GetWaiting(), []string{"n1"}) || !slices.Equal(got.GetAway(), []string{"n2"}) {
		t.Errorf("waiting for %v and %v", got.GetWaiting(), got.GetAway())
	}
	if err := finish(false); client.Detail(err).GetCode() != "refused" || !strings.Contains(err.Error(), "2 of 2 nodes may still have a certificate of the old authority: n1, n2") {
		t.Errorf("finished too early: %v", err)
	}
	f.nodes["a"] = f.now.Current.Fingerprint()
	if err := finish(true); err != nil || f.now.Retiring != nil {
		t.Errorf("forced: %v", err)
	}
	for _, role := range []pki.Role{pki.RoleReader, pki.RoleOperator} {
		if _, err := s.as(role).RotateAuthority(ctx, connect.NewRequest(&apiv1.RotateAuthorityRequest{})); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a %s rotates: %v", role, err)
		}
	}
}
