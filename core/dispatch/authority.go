package dispatch

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// errRetired ends the session of an agent that still shows the certificate of an authority that is trusted no more.
var errRetired = connect.NewError(connect.CodeUnauthenticated,
	errors.New("the authority of the node's certificate was retired: join again, with a join token and an empty data directory"))

// Authorities returns by which authority's certificate each connected agent is known.
func (d *Dispatcher) Authorities() map[cluster.NodeID]pki.Fingerprint {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[cluster.NodeID]pki.Fingerprint, len(d.sessions))
	for node, s := range d.sessions {
		out[node] = s.authority
	}
	return out
}

// Retire ends the sessions of all agents that are known by another authority than the one that issues.
func (d *Dispatcher) Retire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if s.authority != d.opts.Signer.Fingerprint() {
			s.end(errRetired)
		}
	}
}
