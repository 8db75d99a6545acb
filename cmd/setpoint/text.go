package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
)

func timeOf(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// ago writes how long ago a moment was.
func ago(now time.Time, ts *timestamppb.Timestamp) string { return console.Since(now, timeOf(ts)) }

// number reads an argument that is a whole number, 0 or more.
func number(text, what string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse("It is a whole number, 0 or more.", "bad %s %q", what, text)
	}
	return n, nil
}

// pairs writes a map as in a=1 b=2, sorted.
func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

// tally writes counts by word, as in 3 ready, 1 down.
func tally(m map[string]int64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, fmt.Sprintf("%d %s", m[k], k))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
