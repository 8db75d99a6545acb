package scenarios

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// Nodes of a cluster share this machine, so each has an address of its own, on which its tasks listen.
func addressOf(node string) string { return "127.0.0.1" + strings.TrimPrefix(node, "n") }

// listener is the command of a task that listens on its port, on the address of its node, and ends with code 1 if it cannot. SCENARIO_LISTEN has to be set.
func listener(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program}
}

// listenAsTask is what such a task does.
func listenAsTask() {
	l, err := net.Listen("tcp", net.JoinHostPort(addressOf(os.Getenv("SETPOINT_NODE")), os.Getenv("SETPOINT_PORT_main")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(0)
		}
		_ = conn.Close()
	}
}

// listenAsNode listens on a free port of a node's address until the test is over, as a program that nobody manages, and returns it.
func listenAsNode(t *testing.T, on *bench.Agent) int {
	t.Helper()
	l, err := on.Listen(net.JoinHostPort(addressOf(on.Node.Name), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
