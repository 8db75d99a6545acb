package place

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Text says the reason with its amounts, for people: what is wanted and what is free, who holds a port, which constraint fails.
func (r *Reason) Text() string {
	switch r.Code {
	case cluster.CodeInsufficientResources:
		return fmt.Sprintf("lacks %s: want %s, free %s of %s", r.Detail, amountText(r.Detail, r.Want), amountText(r.Detail, r.Free), amountText(r.Detail, r.Has))
	case cluster.CodePortTaken:
		if r.Detail == DetailDynamic {
			return "has too few free ports"
		}
		if r.Holder == "" {
			return "port " + r.Detail + " is taken"
		}
		return "port " + r.Detail + " is taken by " + shortID(r.Holder)
	case cluster.CodeOnePerNode:
		return fmt.Sprintf("has %d of at most %d tasks of the job", r.Has, r.Want)
	}
	return orElse(r.Detail, string(r.Code))
}
