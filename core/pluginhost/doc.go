// Package pluginhost runs plugins and asks them.
//
// A Host has one supervisor for each plugin, which starts its process once (describe, configure, serve), holds one session with it at a time, and starts it
// again when it fails, with back-off and for ever. What the engine wants a plugin to know waits in an outbox that keeps only what is newest, so a slow plugin
// costs no more memory than the cluster has nodes, classes and jobs, and delays nobody else. What a plugin says is checked before the engine hears of it.
//
// Owner: it owns the plugin processes and what is known about their health; the engine owns what their answers lead to. It may import the engine's inputs
// and outputs, sdk, go-plugin, grpc and its own sub-package, and no other shell: what belongs to those, such as HCL, comes in as functions.
package pluginhost
