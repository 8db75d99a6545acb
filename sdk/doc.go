// Package sdk is what a plugin is made of. An author implements one or more of three interfaces, Filter, Drainer and JobType, puts them in a Plugin and
// calls Serve:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{Name: "gpu", Version: "1.2.0", Filter: filter{}, Watches: []sdk.Watch{sdk.WatchAttributes}})
//	}
//
// The daemon starts the process, and everything between the two is done here: the mirror of the nodes, the answers that are kept up to date with it, the
// deadlines, panics, logs and the end of the process when its daemon is gone. Authors answer questions about values; they see no message and no mirror.
//
// What cannot advance is a *Stall, which is an error with a code. Any other error is the plugin's own failure: nothing is evicted and nothing created
// because of it, and the question is asked again.
//
// Owner: each session is owned by one goroutine, which alone changes its state; authors' code runs in others. The package may import the standard library,
// sdk/..., go-plugin, go-hclog, grpc and protobuf, and nothing else of this project, so that it can become a module of its own.
package sdk
