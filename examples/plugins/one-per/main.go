// Command one-per is a plugin for Setpoint with job types that have one task for each value of a node attribute, such as a rack. Its daemon starts it.
package main

import "github.com/setpointd/setpoint/sdk"

func main() { sdk.Serve(New()) }
