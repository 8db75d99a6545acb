package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// AuditEntry is a call that changed something, or was refused.
type AuditEntry struct {
	Time    Moment            `json:"time"`
	Who     string            `json:"who"`    // name in the caller's certificate; empty: none was shown
	Role    string            `json:"role"`   // of it
	Serial  string            `json:"serial"` // of it
	From    string            `json:"from"`   // HOST:PORT
	Call    string            `json:"call"`   // such as RunJob
	On      map[string]string `json:"on"`     // what it was about
	Result  string            `json:"result"` // ok, begun, or the code with which it was refused
	Message string            `json:"message"`
	Skipped int64             `json:"skipped_refusals"` // of the same caller that were not written
}

// OfAuditEntry returns an entry's view.
func OfAuditEntry(e *apiv1.AuditEntry) AuditEntry {
	return AuditEntry{
		Time: moment(e.GetTime()), Who: e.GetWho(), Role: e.GetRole(), Serial: e.GetSerial(), From: e.GetFrom(), Call: e.GetCall(), On: labels(e.GetOn()),
		Result: e.GetResult(), Message: e.GetMessage(), Skipped: e.GetSkippedRefusals(),
	}
}
