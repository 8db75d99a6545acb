// Package plugins names the plugins that come along. Each is written with the SDK alone, like anybody's.
package plugins

import (
	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/plugins/drain"
	"github.com/setpointd/setpoint/plugins/global"
	"github.com/setpointd/setpoint/sdk"
)

// ByName returns the plugins by the names under which the configuration knows them.
func ByName() map[string]func() sdk.Plugin {
	return map[string]func() sdk.Plugin{constraint.Name: constraint.New, drain.Name: drain.New, global.Name: global.New}
}
