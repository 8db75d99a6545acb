// Command cel is a plugin for Setpoint: a filter whose constraints are expressions of the Common Expression Language. Its daemon starts it.
package main

import "github.com/setpointd/setpoint/sdk"

func main() { sdk.Serve(New()) }
