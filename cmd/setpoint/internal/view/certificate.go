package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Certificate is a certificate that was issued.
type Certificate struct {
	Serial    string `json:"serial"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	Node      string `json:"node"` // id, of a node's
	Issued    Moment `json:"issued"`
	Expires   Moment `json:"expires"`
	Revoked   Moment `json:"revoked"` // null: it serves
	RevokedBy string `json:"revoked_by"`
	Reason    string `json:"reason"`
}

// OfCertificates returns the views of certificates.
func OfCertificates(in []*apiv1.Certificate) []Certificate {
	return each(in, func(c *apiv1.Certificate) Certificate {
		return Certificate{
			Serial: c.GetSerial(), Name: c.GetName(), Role: c.GetRole(), Node: c.GetNode(), Issued: moment(c.GetIssued()), Expires: moment(c.GetExpires()),
			Revoked: moment(c.GetRevoked()), RevokedBy: c.GetRevokedBy(), Reason: c.GetReason(),
		}
	})
}
