package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// network gives the server and each node a network namespace and an address of its own, and joins them by a switch in another namespace. Nothing of the machine's
// own network is touched.
type network struct {
	t     testing.TB
	name  string // what the names of its namespaces begin with
	hosts map[string]*host
	links sync.WaitGroup // of the relay
	entry net.Listener   // where the test itself reaches the server

	relays []net.Listener
}

// host is one end of a cable at the switch.
type host struct {
	space   string
	address string
}

// networks counts those that this process has made.
var networks atomic.Int64

// serverHost is the name under which the server stands among the hosts.
const serverHost = "the server"

// NetworkMissing says what a test with Options.Network lacks here, or nothing.
func NetworkMissing() string {
	if os.Geteuid() != 0 {
		return "network namespaces are made by root"
	}
	for _, tool := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed"
		}
	}
	name := fmt.Sprintf("sp%dtry", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return strings.TrimSpace(string(out))
	}
	if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
		return strings.TrimSpace(string(out))
	}
	return ""
}

// newNetwork makes a switch with the server at it.
func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{t: t, name: fmt.Sprintf("sp%dx%d", os.Getpid(), networks.Add(1)), hosts: map[string]*host{}}
	t.Cleanup(n.remove)
	n.run("ip", "netns", "add", n.name)
	n.run("ip", "-n", n.name, "link", "add", "switch", "type", "bridge")
	n.run("ip", "-n", n.name, "link", "set", "switch", "up")
	n.add(serverHost)
	return n
}

func (n *network) run(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// add plugs another host in.
func (n *network) add(name string) *host {
	n.t.Helper()
	k := len(n.hosts) + 1
	h := &host{space: fmt.Sprintf("%sh%d", n.name, k), address: fmt.Sprintf("10.88.0.%d", k)}
	n.hosts[name] = h
	port := fmt.Sprintf("port%d", k)
	n.run("ip", "netns", "add", h.space)
	n.run("ip", "-n", h.space, "link", "set", "lo", "up")
	n.run("ip", "-n", n.name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", h.space)
	n.run("ip", "-n", n.name, "link", "set", port, "master", "switch", "up")
	n.run("ip", "-n", h.space, "addr", "add", h.address+"/24", "dev", "eth0")
	n.run("ip", "-n", h.space, "link", "set", "eth0", "up")
	return h
}

// remove takes everything away again. What used it has ended.
func (n *network) remove() {
	if n.entry != nil {
		_ = n.entry.Close()
	}
	for _, r := range n.relays {
		_ = r.Close()
	}
	n.links.Wait()
	spaces := []string{n.name}
	for _, h := range n.hosts {
		spaces = append(spaces, h.space)
	}
	for _, space := range spaces {
		if out, err := exec.Command("ip", "netns", "del", space).CombinedOutput(); err != nil {
			n.t.Errorf("remove the namespace %s: %v\n%s", space, err, out)
		}
	}
}

// at returns a command that runs at a host. Its process is the command's own.
func (n *network) at(name string, command ...string) []string {
	if n == nil {
		return command
	}
	h := n.hosts[name]
	if h == nil {
		h = n.add(name)
	}
	return append([]string{"nsenter", "--net=" + h.path()}, command...)
}

func (h *host) path() string { return filepath.Join("/run/netns", h.space) }

// rule adds or deletes what becomes of packets that a host takes in (INPUT) or sends (OUTPUT).
func (n *network) rule(name, action, chain string, share float64) {
	n.t.Helper()
	args := []string{"nsenter", "--net=" + n.hosts[name].path(), "iptables", "-w", action, chain, "-i", "eth0"}
	if chain == "OUTPUT" {
		args[len(args)-2] = "-o"
	}
	if share < 1 {
		args = append(args, "-m", "statistic", "--mode", "random", "--probability", fmt.Sprint(share))
	}
	n.run(args[0], append(args[1:], "-j", "DROP")...)
}

// relay lets the test itself reach an address within the server's namespace, and returns where.
func (n *network) relay(address string) string {
	n.t.Helper()
	var err error
	if n.entry, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		n.t.Fatal(err)
	}
	n.links.Go(func() {
		for {
			near, err := n.entry.Accept()
			if err != nil {
				return // closed
			}
			n.links.Go(func() {
				defer near.Close()
				far, err := dialWithin(n.hosts[serverHost].path(), address)
				if err != nil {
					return // the server is away; who asked sees the connection end
				}
				defer far.Close()
				back := make(chan struct{})
				go func() {
					defer close(back)
					_, _ = io.Copy(near, far)
					_ = near.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(far, near)
				_ = far.(*net.TCPConn).CloseWrite()
				<-back
			})
		}
	})
	return n.entry.Addr().String()
}

// Cut cuts the node's cable: nothing comes in and nothing goes out, and nobody is told.
func (a *Agent) Cut() {
	a.c.t.Helper()
	a.beginCut()
	a.rules("-A", 1, 1)
}

// Mend mends it.
func (a *Agent) Mend() {
	a.c.t.Helper()
	a.rules("-D", 1, 1)
	a.endCut()
}

// Lose has a share of the packets be lost that come in, and of those that go out, until what it returns is called. With all of one kind the node counts as cut off.
func (a *Agent) Lose(in, out float64) (mend func()) {
	a.c.t.Helper()
	a.beginCut()
	a.rules("-A", in, out)
	return func() {
		a.c.t.Helper()
		a.rules("-D", in, out)
		a.endCut()
	}
}

func (a *Agent) rules(action string, in, out float64) {
	a.c.t.Helper()
	if a.c.net == nil {
		a.c.t.Fatal(errors.New("the cluster was started without Options.Network"))
	}
	for chain, share := range map[string]float64{"INPUT": in, "OUTPUT": out} {
		if share > 0 {
			a.c.net.rule(a.Node.Name, action, chain, share)
		}
	}
}

// Address is the node's own.
func (a *Agent) Address() string { return a.c.net.hosts[a.Node.Name].address }

// Listen listens at an address as a program of the node does: within its network, where it has one.
func (a *Agent) Listen(address string) (net.Listener, error) {
	open := func() (net.Listener, error) { return net.Listen("tcp", address) }
	if a.c.net == nil {
		return open()
	}
	return within(a.c.net.hosts[a.Node.Name].path(), open)
}
