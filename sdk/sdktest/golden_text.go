package sdktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

func writeAnswer(b *strings.Builder, what string, a Answer) {
	fmt.Fprintf(b, "%s: %s\n", what, a)
	if a.Stall.GetClears() != "" {
		fmt.Fprintf(b, "    clears when: %s\n", a.Stall.Clears)
	}
	if a.Failure != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(a.Verdicts)) {
		fmt.Fprintf(b, "  %s: %s\n", id, a.Verdicts[id])
		if clears := a.Verdicts[id].Clears; clears != "" {
			fmt.Fprintf(b, "    clears when: %s\n", clears)
		}
	}
}

func writeSlots(b *strings.Builder, what string, s Slots) {
	switch {
	case s.Failure != nil:
		fmt.Fprintf(b, "%s: %s\n", what, failureText(s.Failure))
		return
	case s.Stall != nil:
		fmt.Fprintf(b, "%s: %s\n", what, stallText(s.Stall))
	default:
		fmt.Fprintf(b, "%s: %d slots\n", what, len(s.Slots))
	}
	for _, slot := range s.Slots {
		fmt.Fprintf(b, "  %s: %s\n", slot.Key, slot)
	}
}

func writeDrain(b *strings.Builder, what string, a *pluginv1.DrainAnswer, f *pluginv1.Failure) {
	if f != nil {
		fmt.Fprintf(b, "%s: %s\n", what, failureText(f))
		return
	}
	fmt.Fprintf(b, "%s:\n", what)
	for _, x := range a.Transitions {
		fmt.Fprintf(b, "  %s to %s", x.Task, x.To)
		if x.Forced {
			b.WriteString(", forced")
		}
		if x.GraceNs >= 0 {
			fmt.Fprintf(b, ", grace %s", time.Duration(x.GraceNs))
		}
		fmt.Fprintf(b, " (%s)\n", x.Reason)
	}
	for _, k := range a.Kept {
		fmt.Fprintf(b, "  %s kept: %s\n", k.Task, stallText(k.Stall))
	}
	if a.UntilNs > 0 {
		fmt.Fprintf(b, "  again after %s\n", time.Duration(a.UntilNs))
	}
}

// lineDiff shows lines that are missing with - and those that are too many with +, in order.
func lineDiff(want, got string) string {
	a, b := strings.Split(strings.TrimRight(want, "\n"), "\n"), strings.Split(strings.TrimRight(got, "\n"), "\n")
	common := make([][]int, len(a)+1) // length of the longest common rest
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if common[i][k] = max(common[i+1][k], common[i][k+1]); a[i] == b[k] {
				common[i][k] = common[i+1][k+1] + 1
			}
		}
	}
	var out []string
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			out, i, k = append(out, "  "+a[i]), i+1, k+1
		case k == len(b) || i < len(a) && common[i+1][k] >= common[i][k+1]:
			out, i = append(out, "- "+a[i]), i+1
		default:
			out, k = append(out, "+ "+b[k]), k+1
		}
	}
	return strings.Join(out, "\n")
}
