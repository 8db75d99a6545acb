package api

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Certificates knows which certificates were issued and which were revoked; a server's register is one.
type Certificates interface {
	// Check returns pki.ErrRevoked for a certificate that was revoked. It is asked at each call.
	Check(id pki.Identity, serial string) error
	// List returns those that are registered, in the order in which they expire.
	List() []pki.Listed
	// Revoke ends one certificate or all of a name, and returns those that it knows. The errors are pki.ErrNothingToRevoke and pki.ErrNotAPersons.
	Revoke(v pki.Revocation) ([]pki.Issued, error)
}

var errNoRegister = connect.NewError(connect.CodeUnimplemented, errors.New("this server keeps no register of certificates"))

// ListCertificates returns the certificates that were issued and have not expired.
func (v *service) ListCertificates(_ context.Context, req *connect.Request[apiv1.ListCertificatesRequest]) (*connect.Response[apiv1.ListCertificatesResponse], error) {
	if v.opts.Certificates == nil {
		return nil, errNoRegister
	}
	p, err := newPage(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	var rows []row[*apiv1.Certificate]
	for _, c := range v.opts.Certificates.List() {
		x := certificateView(c.Issued)
		if c.Revoked != nil {
			x.Revoked, x.RevokedBy, x.Reason = timestamppb.New(c.Revoked.At), c.Revoked.By, c.Revoked.Reason
		}
		rows = append(rows, row[*apiv1.Certificate]{momentOrder(c.Expires) + c.Serial, x})
	}
	out := &apiv1.ListCertificatesResponse{}
	out.Certificates, out.NextPageToken = cut(p, rows)
	return connect.NewResponse(out), nil
}

// RevokeCertificate ends certificates before their time, and what is called with them at this moment.
func (v *service) RevokeCertificate(ctx context.Context, req *connect.Request[apiv1.RevokeCertificateRequest]) (*connect.Response[apiv1.RevokeCertificateResponse], error) {
	if v.opts.Certificates == nil {
		return nil, errNoRegister
	}
	m := req.Msg
	if (m.GetSerial() == "") == (m.GetName() == "") {
		return nil, invalid("the request", cluster.Problem{Path: "serial", Summary: "Neither a serial number nor a name, or both", Detail: "Give one of them."})
	}
	got, err := v.opts.Certificates.Revoke(pki.Revocation{Serial: m.GetSerial(), Name: m.GetName(), Reason: m.GetReason(), By: author(ctx), At: v.opts.Now().UTC()})
	switch {
	case errors.Is(err, pki.ErrNothingToRevoke):
		return nil, &engine.OpError{Kind: engine.NotFound, Message: err.Error(), Hint: "cert ls lists those that there are; one that expired or was revoked serves nobody"}
	case errors.Is(err, pki.ErrNotAPersons):
		return nil, &engine.OpError{Kind: engine.Refused, Message: err.Error(), Hint: "node decommission ends a node's, and ca rotate all that an authority issued"}
	case err != nil:
		return nil, err
	}
	v.streams.cut(v.opts.Certificates)
	v.sweepDashboard()
	out := &apiv1.RevokeCertificateResponse{}
	for _, c := range got {
		out.Certificates = append(out.Certificates, certificateView(c))
	}
	return connect.NewResponse(out), nil
}

func certificateView(c pki.Issued) *apiv1.Certificate {
	out := &apiv1.Certificate{Serial: c.Serial, Role: string(c.Role), Name: c.Name, Node: c.Node}
	if !c.Expires.IsZero() {
		out.Issued, out.Expires = timestamppb.New(c.Issued), timestamppb.New(c.Expires)
	}
	return out
}

// stillServes returns an error if the caller's certificate was revoked while the call went on.
func (v *service) stillServes(ctx context.Context) error {
	c := callerOf(ctx)
	if v.opts.Certificates == nil || c.err != nil {
		return c.err
	}
	if err := v.opts.Certificates.Check(c.Identity, c.Serial); err != nil {
		return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("renew: %w", err))
	}
	return nil
}

// streams are the streams that go on, each with who called.
type streams struct {
	mu   sync.Mutex // guards live
	live map[*stream]struct{}
}

type stream struct {
	caller caller
	end    context.CancelCauseFunc
}

// begin returns a context that ends when the caller's certificate is revoked, if only since he called. Done is to be called at the stream's end.
func (s *streams) begin(ctx context.Context, c Certificates) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &stream{callerOf(ctx), cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = make(map[*stream]struct{})
	}
	s.live[x] = struct{}{}
	x.check(c)
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.live, x)
		cancel(nil)
	}
}

// cut ends the streams of those whose certificates were revoked.
func (s *streams) cut(c Certificates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.live {
		x.check(c)
	}
}

// check ends the stream if the caller's certificate was revoked.
func (x *stream) check(c Certificates) {
	if c == nil || x.caller.err != nil {
		return
	}
	if err := c.Check(x.caller.Identity, x.caller.Serial); err != nil {
		x.end(err)
	}
}

// endedBy returns why a stream ended: that the caller's certificate was revoked, if it was.
func endedBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, pki.ErrRevoked) {
		return connect.NewError(connect.CodeUnauthenticated, cause)
	}
	return err
}
