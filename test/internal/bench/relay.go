package bench

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Relay carries what one node's agent and the server say to each other, in the node's namespace. It has what it carries arrive late, and remembers what the agent said.
type Relay struct {
	address string // where the agent reaches it
	space   string
	server  string

	mu       sync.Mutex // guards what follows
	delay    time.Duration
	sessions [][]byte // what the agent sent over each connection, up to mostRecorded bytes
}

// mostRecorded is how much of a connection is remembered.
const mostRecorded = 1 << 20

// relayAt starts a relay at a host, which ends with the network.
func (n *network) relayAt(name, server string) *Relay {
	n.t.Helper()
	if n.hosts[name] == nil {
		n.add(name)
	}
	h := n.hosts[name]
	listener, err := within(h.path(), func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		n.t.Fatal(err)
	}
	r := &Relay{address: listener.Addr().String(), space: h.path(), server: server}
	n.relays = append(n.relays, listener)
	n.links.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // closed
			}
			n.links.Go(func() { r.carry(near) })
		}
	})
	return r
}

// Delay has everything arrive so much later, in both directions.
func (r *Relay) Delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

func (r *Relay) late() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delay
}

// Said returns what the agent sent over each of its connections so far, as it went over the cable.
func (r *Relay) Said() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([][]byte, len(r.sessions))
	for i, s := range r.sessions {
		out[i] = append([]byte(nil), s...)
	}
	return out
}

// Say sends bytes to the server over a connection of its own, and returns what came back until the server closed it or some time had passed.
func (r *Relay) Say(data []byte, wait time.Duration) ([]byte, error) {
	conn, err := dialWithin(r.space, r.server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(data); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}

// carry carries one connection until either side ends it.
func (r *Relay) carry(near net.Conn) {
	defer near.Close()
	far, err := dialWithin(r.space, r.server)
	if err != nil {
		return // the server is away; who asked sees the connection end
	}
	defer far.Close()
	r.mu.Lock()
	which := len(r.sessions)
	r.sessions = append(r.sessions, nil)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		r.copy(far, near, func(data []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.sessions[which]) < mostRecorded {
				r.sessions[which] = append(r.sessions[which], data...)
			}
		})
		_ = near.Close()
	})
	r.copy(near, far, func([]byte) {})
	_ = far.Close()
	_ = near.Close()
	both.Wait()
}

// piece is what came at a moment.
type piece struct {
	data []byte
	at   time.Time
}

// copy carries one direction: what came is passed on so much later, in order, and nothing waits for what is under way.
func (r *Relay) copy(to io.Writer, from io.Reader, see func([]byte)) {
	under := make(chan piece, 1024)
	go func() {
		defer close(under)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				see(data[:n])
				under <- piece{data[:n], time.Now().Add(r.late())}
			}
			if err != nil {
				return
			}
		}
	}()
	var failed error
	for p := range under {
		timer := time.NewTimer(time.Until(p.at))
		<-timer.C
		if failed == nil {
			if _, failed = to.Write(p.data); failed != nil {
				if c, ok := from.(io.Closer); ok {
					_ = c.Close() // ends the reader
				}
			}
		}
	}
}

// dialWithin connects from within a namespace.
func dialWithin(space, address string) (net.Conn, error) {
	return within(space, func() (net.Conn, error) { return net.Dial("tcp", address) })
}

// within makes a socket in a namespace. It stays in the namespace where it was made.
func within[T any](space string, open func() (T, error)) (T, error) {
	type result struct {
		socket T
		err    error
	}
	var none T
	there, err := os.Open(space)
	if err != nil {
		return none, err
	}
	defer there.Close()
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and nothing else runs in that namespace
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}
		socket, err := open()
		done <- result{socket, err}
	}()
	r := <-done
	return r.socket, r.err
}
