// Package python holds a filter in Python, and the library that it stands on as files to copy. Its tests run the filter, and a plugin of the other kinds, as their
// daemon would.
//
// Owner: whoever copies the files owns the copies. It may import the standard library; its test sdk too.
package python

import "embed"

// Library is what a plugin in Python stands on: the library itself, and what protoc makes of the protocol. `setpoint plugin new --lang python` copies it.
//
//go:embed setpoint_plugin.py plugin_pb2.py
var Library embed.FS
