// Command setpoint-plugin is one of the plugins that come along, the one that its argument names, and nothing else: a server finds it beside its own executable.
// Without it the server's executable does the same and takes several times the memory.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/plugins"
	"github.com/setpointd/setpoint/sdk"
)

func main() {
	known := plugins.ByName()
	if len(os.Args) == 2 {
		if make, ok := known[os.Args[1]]; ok {
			sdk.Serve(make())
			return
		}
	}
	fmt.Fprintf(os.Stderr, "setpoint-plugin is started by a server, as setpoint-plugin %s\n", strings.Join(slices.Sorted(maps.Keys(known)), "|"))
	os.Exit(2)
}
