package place

import (
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Text says for people what keeps the task from the node, such as "lacks cpu (want 1, free 0.5)".
func (r *Reason) Text() string {
	switch r.kind.stage {
	case stageDown:
		return "is down"
	case stageSilent:
		return "is silent"
	case stagePaused:
		return "is paused"
	case stageDraining:
		return "is draining"
	case stageBlocked:
		return "is blocked (" + r.Detail + ")"
	case stageAbility:
		if r.Code == cluster.CodeNoDriver {
			return "lacks the driver " + r.Detail
		}
		return "cannot keep secrets in memory"
	case stageFilter:
		return r.filterText()
	case stageResource:
		out := fmt.Sprintf("lacks %s (want %s, free %s", r.Detail, amountText(r.Detail, r.Want), amountText(r.Detail, max(r.Free, 0)))
		if r.Want > r.Has {
			out += ", has " + amountText(r.Detail, r.Has) + " in all"
		}
		return out + ")"
	case stagePort:
		switch {
		case r.kind.sort == sortDynamic:
			return "has too few free ports"
		case r.Holder == "":
			return "cannot give port " + r.Detail + " twice"
		}
		return "has port " + r.Detail + " taken by " + shortID(r.Holder)
	case stageLimit:
		if r.Want == 1 {
			return "has a task of the job already"
		}
		return fmt.Sprintf("has %d tasks of the job already", r.Has)
	}
	if r.kind.stage == stagePool {
		if r.Has == 0 {
			return "finds no pool " + r.Detail
		}
		return fmt.Sprintf("finds too few addresses in pool %s (want %d, free %d of %d)", r.Detail, r.Want, r.Free, r.Has)
	}
	return joinNonEmpty(" ", string(r.Code), r.Detail)
}

func (r *Reason) filterText() string {
	switch {
	case r.Code == cluster.CodePluginPending:
		return "is not yet judged by " + r.Source
	case r.kind.pending || strings.HasPrefix(string(r.Code), "plugin_"):
		return fmt.Sprintf("is not judged by %s (%s)", r.Source, joinNonEmpty(": ", string(r.Code), r.Detail))
	case r.Code == cluster.CodeConstraint:
		return "fails " + orElse(r.Detail, r.Source)
	}
	return fmt.Sprintf("is refused by %s (%s)", r.Source, orElse(r.Detail, string(r.Code)))
}
