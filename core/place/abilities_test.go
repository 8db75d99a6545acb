package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// What is kept as nodes come, change and go is what looking at all of them would give, and each change of what a node can do is told.
func TestAbilitiesFollowTheNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Abilities
		nodes := map[int]*cluster.Node{}
		able := func(n *cluster.Node) [abilities]bool {
			var out [abilities]bool
			for k := range out {
				out[k] = n == nil || has(&n.Description, k)
			}
			return out
		}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			i := rapid.IntRange(0, 70).Draw(t, "node")
			before := nodes[i]
			var n *cluster.Node
			if rapid.IntRange(0, 4).Draw(t, "stays") > 0 {
				n = &cluster.Node{Description: cluster.NodeDescription{
					Drivers:    rapid.SampledFrom([][]string{nil, {"process"}, {"docker", "process"}, {"sim"}}).Draw(t, "drivers"),
					Attributes: rapid.SampledFrom([]map[string]string{nil, {"secrets": "unavailable"}, {"secrets": "memory"}, {"driver.docker": "unavailable"}}).Draw(t, "attributes"),
				}}
			}
			if changed, want := a.Describe(i, n), able(before) != able(n); changed != want {
				t.Fatalf("node %d became %v, and changed is %t", i, n, changed)
			}
			if nodes[i] = n; n == nil {
				delete(nodes, i)
			}
		}
		spec := cluster.TaskSpec{Driver: rapid.SampledFrom(drivers[:]).Draw(t, "driver")}
		if rapid.Bool().Draw(t, "secrets") {
			spec.Secrets = []cluster.Secret{{Name: "key"}}
		}
		filters := a.Filters(&spec)
		refused := 0
		for i, n := range nodes {
			var want, got []cluster.Code
			if !n.Description.HasDriver(spec.Driver) {
				want = append(want, cluster.CodeNoDriver)
			}
			if len(spec.Secrets) > 0 && !n.Description.KeepsSecrets() {
				want = append(want, cluster.CodeNoSecrets)
			}
			for _, f := range filters {
				if !f.Allowed.Get(i) {
					code, _ := f.Reason(i)
					got = append(got, code)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("node %d is refused with %v, want %v", i, got, want)
			}
			refused += len(want)
		}
		if refused == 0 && len(filters) > 0 {
			t.Fatalf("there are %d filters, and all nodes can", len(filters))
		}
	})
}
