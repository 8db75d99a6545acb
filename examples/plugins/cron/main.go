// Command cron is a plugin for Setpoint with a job type that runs on a schedule. Its daemon starts it.
package main

import (
	"time"
	_ "time/tzdata" // plugins run where there may be no files of time zones

	"github.com/setpointd/setpoint/sdk"
)

func main() { sdk.Serve(New(time.Now)) }
