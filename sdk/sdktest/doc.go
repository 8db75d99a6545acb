// Package sdktest is what authors of plugins test with: builders for nodes, jobs and tasks; a Host that runs a plugin in the test's process and talks to it
// through the real protocol; and Conformance, which checks of any plugin what the daemon relies on.
//
//	h := sdktest.New(t, gpu.New())
//	h.SetNodes(sdktest.Node("n1", "gpu=a100"), sdktest.Node("n2"))
//	c := h.AddClass(sdk.CompileRequest{Settings: `{"model":"a100"}`})
//	sdktest.Equal(t, c.Answer().Allowed(), []cluster.NodeID{"n1"})
//
// It may import what package sdk may, and rapid.
package sdktest
