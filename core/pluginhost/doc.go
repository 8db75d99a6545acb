// Package pluginhost runs plugins and asks them.
//
// Owner: it owns the plugin processes and what is known about their health; the engine owns what their answers lead to. It may
// import sdk, go-plugin and its own sub-packages, and neither the engine nor another shell.
package pluginhost
