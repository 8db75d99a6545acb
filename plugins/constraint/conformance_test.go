package constraint_test

import (
	"testing"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	sdktest.Conformance(t, constraint.New, sdktest.Cases{Classes: []sdk.CompileRequest{
		{},
		request("node.labels.disk == ssd"),
		request("node.labels.zone in (1, 2)", "node.attributes.kernel >= 5.10"),
		request("node.ip == 10.1.0.0/16", "node.labels.gpu exists", "node.arch != arm64"),
		request("node.labels.disk = ssd"),
		{Settings: `{"constraints":["node.labels.zone not exists"],"affinity":[{"expr":"node.labels.gpu > 1"}]}`},
	}})
}
