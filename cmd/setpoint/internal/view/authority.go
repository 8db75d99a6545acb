package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Authority is the cluster's certificate authority, and how far it is replaced, as `ca show` prints it.
type Authority struct {
	Cluster  string           `json:"cluster"`
	Current  AuthorityHolder  `json:"current"`
	Retiring *AuthorityHolder `json:"retiring,omitempty"` // while it is being replaced
	Waiting  []string         `json:"waiting"`            // nodes that are known by the old one
	Away     []string         `json:"away"`               // nodes that may be
	Nodes    int64            `json:"nodes"`
}

// AuthorityHolder is one authority.
type AuthorityHolder struct {
	Fingerprint string `json:"fingerprint"`
	Created     Moment `json:"created"`
	Expires     Moment `json:"expires"`
}

// OfAuthority returns the view of what a server says of its authorities.
func OfAuthority(in *apiv1.GetAuthorityResponse) Authority {
	out := Authority{
		Cluster: in.GetClusterId(), Current: ofAuthority(in.GetCurrent()), Nodes: in.GetNodes(),
		Waiting: append([]string{}, in.GetWaiting()...), Away: append([]string{}, in.GetAway()...),
	}
	if in.GetRetiring() != nil {
		old := ofAuthority(in.GetRetiring())
		out.Retiring = &old
	}
	return out
}

func ofAuthority(a *apiv1.Authority) AuthorityHolder {
	return AuthorityHolder{Fingerprint: a.GetFingerprint(), Created: moment(a.GetCreated()), Expires: moment(a.GetExpires())}
}
