package pluginhost

import "github.com/setpointd/setpoint/core/pluginhost/runner"

// Protocol is what this host and plugins must agree on, for those who start a plugin without a Host.
func Protocol() runner.Protocol { return protocol() }
