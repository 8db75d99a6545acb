package audit

import "time"

// OK is the result of a call that was carried out; Begun is that of one that goes on, such as a session, whose end has an entry of its own. Any other result is the code with
// which the call was refused.
const (
	OK    = "ok"
	Begun = "begun"
)

// Entry is one call. What it was about never has a secret in it: only fields that are known to have none are written.
type Entry struct {
	Time    time.Time         `json:"time"`
	Who     string            `json:"who"`                        // the name in the caller's certificate; empty: none was shown
	Role    string            `json:"role"`                       // of that
	Serial  string            `json:"serial"`                     // of that, by which it is revoked
	From    string            `json:"from"`                       // HOST:PORT
	Call    string            `json:"call"`                       // such as RunJob
	On      map[string]string `json:"on"`                         // what the call was about
	Result  string            `json:"result"`                     //
	Message string            `json:"message"`                    // why it was refused
	Skipped int               `json:"skipped_refusals,omitempty"` // refusals of the same caller that were not written, since there were too many
}

// Filter says which entries are wanted. The zero value: all.
type Filter struct {
	Since, Until time.Time // zero: no bound
	Who          string    // exactly
	Call         string    // exactly
	Refused      bool      // only what was refused
	Tail         int       // only so many of the last; 0: all
}

func (f *Filter) matches(e *Entry) bool {
	switch {
	case !f.Since.IsZero() && e.Time.Before(f.Since), !f.Until.IsZero() && e.Time.After(f.Until):
		return false
	case f.Who != "" && e.Who != f.Who, f.Call != "" && e.Call != f.Call:
		return false
	case f.Refused && (e.Result == OK || e.Result == Begun):
		return false
	}
	return true
}
