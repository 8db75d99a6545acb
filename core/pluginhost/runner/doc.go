// Package runner starts, watches and stops one plugin process.
//
// A plugin is a program of somebody else that speaks go-plugin's handshake. go-plugin itself does the negotiation and the
// connection; everything that touches the process is done here, because a plugin must not be able to stop, crash, slow or
// outlive its host: what it writes is read in bounded lines and never parsed on trust, each wait has an end, the whole process
// group goes when its leader goes, and the kernel kills the plugin when the host dies, however it dies.
//
// Owner: a Launcher owns the directory of sockets, the thread that starts processes and every Process until it has ended. Each
// goroutine of a Process ends before its Done channel is closed.
//
// It may import go-plugin, go-hclog, grpc, golang.org/x/sys and the standard library, and no other package of this project.
// Linux only.
package runner
