// Command setpoint is all of Setpoint in one binary: the server, the agent, the plugins that come along, the shim that stands beside each process task, and
// the commands with which people and programs ask a server.
//
// Each command has a file of its own. What they share is in app.go (streams and global flags), connect.go (finding and calling a server), wait.go and exit.go;
// the daemon is put together in internal/daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/setpointd/setpoint/agent/driver/process"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
)

// version is set by the linker.
var version = "dev"

// shimCommand is the first argument with which the process driver executes this binary as a task's shim, where setpoint-shim is not installed beside it. It is
// looked at before anything else, since what the commands need costs memory and a shim's is paid once per task.
const shimCommand = "shim"

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case shimCommand:
			os.Exit(process.ShimMain(os.Args[2:]))
		case daemon.GuardCommand:
			os.Exit(runner.GuardMain())
		case daemon.ConfineCommand:
			os.Exit(runner.ConfineMain(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, env: os.Getenv, environ: os.Environ}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
