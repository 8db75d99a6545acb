package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// anyone stands in the table for a call that needs no certificate.
const anyone pki.Role = ""

// access says who may call what. A procedure that is not here may be called by nobody.
var access = map[string]pki.Role{
	agentv1connect.AgentServiceJoinProcedure:    anyone, // the token is the proof
	agentv1connect.AgentServiceRejoinProcedure:  anyone, // the token and the old certificate's key are the proof
	agentv1connect.AgentServiceRenewProcedure:   pki.RoleNode,
	agentv1connect.AgentServiceSessionProcedure: pki.RoleNode,

	apiv1connect.ApiServiceLoginProcedure:      anyone, // the token is the proof
	apiv1connect.ApiServiceRenewLoginProcedure: pki.RoleReader,

	apiv1connect.ApiServiceOpenDashboardProcedure: pki.RoleReader,

	apiv1connect.ApiServiceGetStatusProcedure:   pki.RoleReader,
	apiv1connect.ApiServiceGetJobProcedure:      pki.RoleReader,
	apiv1connect.ApiServiceListJobsProcedure:    pki.RoleReader,
	apiv1connect.ApiServicePlanProcedure:        pki.RoleReader,
	apiv1connect.ApiServiceListTasksProcedure:   pki.RoleReader,
	apiv1connect.ApiServiceGetTaskProcedure:     pki.RoleReader,
	apiv1connect.ApiServiceWhyTaskProcedure:     pki.RoleReader,
	apiv1connect.ApiServiceTaskHistoryProcedure: pki.RoleReader,
	apiv1connect.ApiServiceTaskLogsProcedure:    pki.RoleReader,
	apiv1connect.ApiServiceListNodesProcedure:   pki.RoleReader,
	apiv1connect.ApiServiceGetNodeProcedure:     pki.RoleReader,
	apiv1connect.ApiServiceListPluginsProcedure: pki.RoleReader,
	apiv1connect.ApiServiceGetPluginProcedure:   pki.RoleReader,
	apiv1connect.ApiServicePluginLogsProcedure:  pki.RoleReader,
	apiv1connect.ApiServiceListStallsProcedure:  pki.RoleReader,
	apiv1connect.ApiServiceListSecretsProcedure: pki.RoleReader,
	apiv1connect.ApiServiceGetSecretProcedure:   pki.RoleReader,
	apiv1connect.ApiServiceListSinksProcedure:   pki.RoleReader,
	apiv1connect.ApiServiceWatchEventsProcedure: pki.RoleReader,

	apiv1connect.ApiServiceTaskExecProcedure:         pki.RoleOperator,
	apiv1connect.ApiServiceStopTaskProcedure:         pki.RoleOperator,
	apiv1connect.ApiServiceRunJobProcedure:           pki.RoleOperator,
	apiv1connect.ApiServiceStopJobProcedure:          pki.RoleOperator,
	apiv1connect.ApiServiceStartJobProcedure:         pki.RoleOperator,
	apiv1connect.ApiServiceRestartJobProcedure:       pki.RoleOperator,
	apiv1connect.ApiServiceScaleJobProcedure:         pki.RoleOperator,
	apiv1connect.ApiServiceRollbackJobProcedure:      pki.RoleOperator,
	apiv1connect.ApiServiceRebalanceJobProcedure:     pki.RoleOperator,
	apiv1connect.ApiServiceRemoveJobProcedure:        pki.RoleOperator,
	apiv1connect.ApiServiceControlUpdateProcedure:    pki.RoleOperator,
	apiv1connect.ApiServiceSetAvailabilityProcedure:  pki.RoleOperator,
	apiv1connect.ApiServiceLabelNodeProcedure:        pki.RoleOperator,
	apiv1connect.ApiServiceDecommissionNodeProcedure: pki.RoleOperator,
	apiv1connect.ApiServiceRemoveNodeProcedure:       pki.RoleOperator,
	apiv1connect.ApiServiceConfirmDownProcedure:      pki.RoleOperator,
	apiv1connect.ApiServiceConfirmPluginProcedure:    pki.RoleOperator,
	apiv1connect.ApiServiceReloadPluginProcedure:     pki.RoleOperator,
	apiv1connect.ApiServiceTestSinksProcedure:        pki.RoleOperator,

	apiv1connect.ApiServicePutSecretProcedure:    pki.RoleOperator,
	apiv1connect.ApiServiceRemoveSecretProcedure: pki.RoleOperator,
	apiv1connect.ApiServiceRekeySecretsProcedure: pki.RoleAdmin,

	apiv1connect.ApiServiceShadowPluginProcedure: pki.RoleAdmin, // it runs what is at a path of the caller's choice

	apiv1connect.ApiServiceCreateTokenProcedure: pki.RoleAdmin,
	apiv1connect.ApiServiceListTokensProcedure:  pki.RoleAdmin,
	apiv1connect.ApiServiceRevokeTokenProcedure: pki.RoleAdmin,

	apiv1connect.ApiServiceReadAuditProcedure:         pki.RoleAdmin,
	apiv1connect.ApiServiceListCertificatesProcedure:  pki.RoleAdmin,
	apiv1connect.ApiServiceRevokeCertificateProcedure: pki.RoleAdmin,

	apiv1connect.ApiServiceGetAuthorityProcedure:    pki.RoleReader,
	apiv1connect.ApiServiceRotateAuthorityProcedure: pki.RoleAdmin,
	apiv1connect.ApiServiceFinishAuthorityProcedure: pki.RoleAdmin,
}

// allow returns nil if the caller may call the procedure.
func allow(ctx context.Context, procedure string) error {
	need, ok := access[procedure]
	if !ok {
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("nobody may call %s", procedure))
	}
	if need == anyone {
		return nil
	}
	id, err := IdentityFrom(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnauthenticated, err)
	}
	if err := id.Require(need); err != nil {
		return connect.NewError(connect.CodePermissionDenied, err)
	}
	return nil
}

// errPanicked is what a caller learns of a panic.
var errPanicked = errors.New("the server has a bug here")

// gate is in front of every call: it checks the caller's role and turns errors into answers.
type gate struct {
	log          hclog.Logger
	authorities  Authorities
	auditor      *auditor
	certificates Certificates // nil: none is ever revoked
	streams      *streams
	meant        func(error) error // adds to a refusal what may have been meant
}

// HeaderRenew is set in answers to callers whose certificate is of an authority that is being replaced: RenewLogin gives another.
const HeaderRenew = "Setpoint-Renew"

// outdated reports whether the caller has a certificate of an authority that is being replaced.
func (g *gate) outdated(ctx context.Context) bool {
	have, err := AuthorityFrom(ctx)
	return err == nil && g.authorities != nil && have != g.authorities.Authorities().Current.Fingerprint()
}

// WrapUnary implements connect.Interceptor.
func (g *gate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := req.Spec().Procedure
		if err := allow(ctx, procedure); err != nil {
			g.auditor.note(ctx, req.Spec(), req.Peer(), nil, err)
			return nil, g.refuse(ctx, procedure, err)
		}
		var res connect.AnyResponse
		err := g.auditor.mayChange(ctx, req.Spec(), req.Any())
		if err == nil {
			res, err = next(ctx, req)
		}
		if audited(req.Spec()) {
			g.auditor.note(ctx, req.Spec(), req.Peer(), req.Any(), err)
		}
		if err != nil {
			return nil, g.refuse(ctx, procedure, err)
		}
		if g.outdated(ctx) {
			res.Header().Set(HeaderRenew, "authority")
		}
		return res, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (g *gate) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		spec := conn.Spec()
		ctx, done := g.streams.begin(ctx, g.certificates)
		defer done()
		err := allow(ctx, spec.Procedure)
		if err == nil {
			err = g.auditor.mayChange(ctx, spec, nil)
		}
		switch {
		case err != nil:
			g.auditor.note(ctx, spec, conn.Peer(), nil, err)
		case audited(spec):
			var about any
			err = next(ctx, &auditedConn{conn, func(req any) {
				about = req
				g.auditor.begun(ctx, spec, conn.Peer(), req)
			}})
			g.auditor.note(ctx, spec, conn.Peer(), about, endedBy(ctx, err))
		default:
			err = next(ctx, conn)
		}
		err = endedBy(ctx, err)
		return g.refuse(ctx, spec.Procedure, err)
	}
}

// WrapStreamingClient implements connect.Interceptor; a gate is not in front of clients.
func (g *gate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// refuse turns an error into an answer. A person must act only on what is not the caller's doing.
func (g *gate) refuse(ctx context.Context, procedure string, err error) error {
	if err == nil {
		return nil
	}
	out := asConnect(g.meant(err))
	switch {
	case errors.Is(err, errPanicked):
		// Logged where it was recovered, with its stack.
	case connect.CodeOf(out) == connect.CodeInternal:
		g.log.Error("call not answered", "procedure", procedure, "caller", author(ctx), "error", err)
	default:
		g.log.Debug("call refused", "procedure", procedure, "caller", author(ctx), "error", err)
	}
	return out
}

// recovered turns a panic of a call into an answer.
func (g *gate) recovered(ctx context.Context, spec connect.Spec, _ http.Header, v any) error {
	g.log.Error("call panicked", "procedure", spec.Procedure, "caller", author(ctx), "panic", v, "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, fmt.Errorf("%s: %w; the server's log has the details", spec.Procedure, errPanicked))
}
