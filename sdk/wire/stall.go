package wire

import (
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// StallToProto returns the message of s.
func StallToProto(s *cluster.Stall) *setpointv1.Stall {
	return &setpointv1.Stall{
		SubjectKind: string(s.Subject.Kind),
		SubjectId:   s.Subject.ID,
		Source:      s.Source,
		Code:        string(s.Code),
		Message:     s.Message,
		Since:       TimeToProto(s.Since),
		Changed:     TimeToProto(s.Changed),
		Facts:       FactsToProto(s.Facts),
		Clears:      s.Clears,
	}
}

// StallFromProto returns the stall that p says.
func StallFromProto(p *setpointv1.Stall) *cluster.Stall {
	return &cluster.Stall{
		Subject: cluster.Subject{Kind: cluster.SubjectKind(p.GetSubjectKind()), ID: p.GetSubjectId()},
		Source:  p.GetSource(),
		Code:    cluster.Code(p.GetCode()),
		Message: p.GetMessage(),
		Since:   TimeFromProto(p.GetSince()),
		Changed: TimeFromProto(p.GetChanged()),
		Facts:   FactsFromProto(p.GetFacts()),
		Clears:  p.GetClears(),
	}
}

// FactsToProto returns the message of f.
func FactsToProto(f cluster.Facts) *setpointv1.Facts {
	return &setpointv1.Facts{Nodes: int64(f.Nodes), Excluded: each(f.Excluded, func(e cluster.Exclusion) *setpointv1.Exclusion {
		return &setpointv1.Exclusion{Source: e.Source, Code: string(e.Code), Detail: e.Detail, Count: int64(e.Count)}
	})}
}

// FactsFromProto returns the facts that p says.
func FactsFromProto(p *setpointv1.Facts) cluster.Facts {
	return cluster.Facts{Nodes: int(p.GetNodes()), Excluded: each(p.GetExcluded(), func(e *setpointv1.Exclusion) cluster.Exclusion {
		return cluster.Exclusion{Source: e.GetSource(), Code: cluster.Code(e.GetCode()), Detail: e.GetDetail(), Count: int(e.GetCount())}
	})}
}
