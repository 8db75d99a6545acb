package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// NoticeToProto returns the message of n.
func NoticeToProto(n *cluster.Notice) *setpointv1.Notice {
	return &setpointv1.Notice{
		Sink: n.Sink, Code: string(n.Cause.Code), Source: n.Cause.Source, Detail: n.Cause.Detail, Since: TimeToProto(n.Since), Sent: TimeToProto(n.Sent), Message: n.Message,
	}
}

// NoticeFromProto returns the notice that p says.
func NoticeFromProto(p *setpointv1.Notice) *cluster.Notice {
	return &cluster.Notice{
		Sink: p.GetSink(), Cause: cluster.StallCause{Code: cluster.Code(p.GetCode()), Source: p.GetSource(), Detail: p.GetDetail()},
		Since: TimeFromProto(p.GetSince()), Sent: TimeFromProto(p.GetSent()), Message: p.GetMessage(),
	}
}
