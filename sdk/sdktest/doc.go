// Package sdktest is what authors of plugins test with: builders for nodes, jobs and tasks; a Host that runs a plugin in the test's process and talks to it
// through the real protocol; Conformance, which checks of any plugin what the daemon relies on; Golden, for files of state in and answers out; and Replay, for
// what was recorded of a plugin that ran.
//
//	h := sdktest.New(t, gpu.New())
//	h.SetNodes(sdktest.Node("n1", "gpu=a100"), sdktest.Node("n2"))
//	c := h.AddClass(sdk.CompileRequest{Settings: `{"model":"a100"}`})
//	if got := c.Answer().Allowed(); !slices.Equal(got, []cluster.NodeID{"n1"}) {
//		t.Errorf("allowed: %v, want n1", got)
//	}
//
// Conformance is Check in the form of subtests. Check works on any Target: a Go value, a Program in any language, or whatever else implements the protocol.
//
// It may import what package sdk may, and not testing, because commands check plugins with it too.
package sdktest
