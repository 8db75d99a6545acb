package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func requestToProto(r *cluster.Request) *setpointv1.Request {
	out := &setpointv1.Request{By: r.By, Key: r.Key, Digest: r.Digest, Revision: uint64(r.Revision), At: TimeToProto(r.At)}
	for _, o := range r.Outcomes {
		out.Outcomes = append(out.Outcomes, &setpointv1.Outcome{Id: o.ID, Version: o.Version, Changed: o.Changed})
	}
	return out
}

func requestFromProto(m *setpointv1.Request) *cluster.Request {
	out := &cluster.Request{
		By: m.GetBy(), Key: m.GetKey(), Digest: m.GetDigest(), Revision: cluster.Revision(m.GetRevision()), At: TimeFromProto(m.GetAt()),
	}
	for _, o := range m.GetOutcomes() {
		out.Outcomes = append(out.Outcomes, cluster.Outcome{ID: o.GetId(), Version: o.GetVersion(), Changed: o.GetChanged()})
	}
	return out
}
