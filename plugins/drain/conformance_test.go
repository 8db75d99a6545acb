package drain_test

import (
	"testing"

	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func TestConformance(t *testing.T) { sdktest.Conformance(t, drain.New, sdktest.Cases{}) }
