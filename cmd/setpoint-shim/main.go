// Command setpoint-shim is the shim that stands beside each process task: the one part of Setpoint that is paid once per task, and so a program of its own that
// has nothing else in it. An agent finds it beside its own executable; without it the agent's executable does the same and takes several times the memory.
package main

import (
	"os"

	"github.com/setpointd/setpoint/agent/driver/process"
)

func main() { os.Exit(process.ShimMain(os.Args[1:])) }
