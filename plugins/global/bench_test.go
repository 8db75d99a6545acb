package global_test

import (
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// BenchmarkNodeJoins is one more of 10,000 nodes with 20 global jobs, until the plugin has told the slot of each, and the same node leaving.
func BenchmarkNodeJoins(b *testing.B) {
	h := sdktest.New(b, global.New())
	h.SetNodes(sdktest.Nodes(10_000, nil)...)
	for i := range 20 {
		h.AddJob(sdktest.Job(fmt.Sprintf("log-%d", i), "global"))
	}
	node := sdktest.Node("one-more")
	for b.Loop() {
		h.UpdateNode(node)
		h.RemoveNode(node.ID)
	}
}
