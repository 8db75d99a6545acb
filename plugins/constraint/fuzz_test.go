package constraint_test

import (
	"testing"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// FuzzConstraint checks that no constraint makes the plugin fail: it is compiled or refused as a stall, and what is compiled judges any node alike each time.
func FuzzConstraint(f *testing.F) {
	for _, seed := range []string{
		"node.labels.disk == ssd", `node.labels.zone not in ("a", b)`, "node.attributes.kernel >= 5.15.0-91-generic", "node.ip != ::1/64",
		"node.name =~ ^w.*1$", "node.labels.x not exists", "node.labels.n < -3", `node.labels.q == "`,
	} {
		f.Add(seed, "5.15.0-rc1")
	}
	f.Fuzz(func(t *testing.T, expr, value string) {
		node := sdktest.Node("n1", "disk="+value, "x="+value, "n="+value)
		node.Description.Addresses = []string{value}
		m, err := constraint.New().Filter.Compile(t.Context(), request(expr))
		if err != nil {
			if _, ok := err.(*sdk.Stall); !ok {
				t.Fatalf("compile %q: %v is no stall", expr, err)
			}
			return
		}
		if m == nil {
			t.Fatalf("compile %q: no matcher", expr)
		}
		if first, second := m.Match(node), m.Match(node); first != second {
			t.Errorf("%q: first %v, then %v", expr, first, second)
		}
	})
}
