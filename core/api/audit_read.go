package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/core/audit"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// auditPart is how many entries one message has.
const auditPart = 500

var errNoAudit = connect.NewError(connect.CodeUnimplemented, errors.New("this server keeps no audit log"))

// ReadAudit sends what the audit log has.
func (v *service) ReadAudit(ctx context.Context, req *connect.Request[apiv1.ReadAuditRequest], stream *connect.ServerStream[apiv1.ReadAuditResponse]) error {
	if v.opts.Audit == nil {
		return errNoAudit
	}
	m := req.Msg
	if m.GetTail() < 0 || m.GetTail() > maxAuditTail {
		return invalid("the request", cluster.Problem{Path: "tail", Summary: "Number out of range", Detail: "It is between 0, which is all, and 1,000,000."})
	}
	f := audit.Filter{Who: m.GetWho(), Call: m.GetCall(), Refused: m.GetRefused(), Tail: int(m.GetTail())}
	if m.GetSince() != nil {
		f.Since = m.GetSince().AsTime()
	}
	if m.GetUntil() != nil {
		f.Until = m.GetUntil().AsTime()
	}
	part := &apiv1.ReadAuditResponse{}
	var sent error
	err := v.opts.Audit.Read(f, func(e audit.Entry) bool {
		part.Entries = append(part.Entries, auditView(&e))
		if len(part.GetEntries()) < auditPart {
			return true
		}
		sent = errors.Join(stream.Send(part), ctx.Err())
		part = &apiv1.ReadAuditResponse{}
		return sent == nil
	})
	if err = errors.Join(err, sent); err != nil {
		return err
	}
	return stream.Send(part)
}

// maxAuditTail bounds what is kept in memory for a reader.
const maxAuditTail = 1_000_000

func auditView(e *audit.Entry) *apiv1.AuditEntry {
	return &apiv1.AuditEntry{
		Time: timestamppb.New(e.Time), Who: e.Who, Role: e.Role, Serial: e.Serial, From: e.From, Call: e.Call, On: e.On, Result: e.Result, Message: e.Message,
		SkippedRefusals: int64(e.Skipped),
	}
}
