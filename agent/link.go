package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/agent/v1/agentv1connect"
)

const (
	dialTimeout = 5 * time.Second
	// handshakeTimeout is longer than a server has connections wait for their turn.
	handshakeTimeout = 15 * time.Second
	// maxMessage is how large a message of the server may be, in bytes: more than a batch of assignments ever is.
	maxMessage = 16 << 20
)

// link is a connection to the server that nothing else shares, so that it can be cut: a network that takes nothing any more holds no call
// back.
type link struct {
	client    agentv1connect.AgentServiceClient
	transport *http.Transport

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	isCut bool
}

// link returns a link that connects when it is first used. It is to be cut in the end.
func (a *Agent) link(config *tls.Config) *link {
	l := &link{}
	config.NextProtos = append(slices.Clone(config.NextProtos), pki.AgentProtocol)
	l.transport = &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: handshakeTimeout, DialContext: l.dial,
	}
	l.client = agentv1connect.NewAgentServiceClient(&http.Client{Transport: l.transport}, "https://"+a.cfg.Server,
		connect.WithReadMaxBytes(maxMessage))
	return l
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

// cut closes the connection at once, whatever goes on over it.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, c := range l.conns {
		_ = c.Close() // closed before, if the other side was faster
	}
	l.conns = nil
	l.transport.CloseIdleConnections()
}
