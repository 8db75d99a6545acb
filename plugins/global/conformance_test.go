package global_test

import (
	"testing"

	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	sdktest.Conformance(t, global.New, sdktest.Cases{Jobs: []sdk.Job{sdktest.Job("log", "global"), sdktest.Job("scan", "global-batch")}})
}
