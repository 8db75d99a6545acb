package api

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"github.com/setpointd/setpoint/core/pki"
)

// handshakeLimit limits how many TLS handshakes go on at once, in the order in which they were asked for. A handshake is most of what it costs a server that an agent
// comes back. When all of them do at once, those that are begun are finished before others are begun: begun all together, each would take as long as all of them, and
// who waited too long for it would begin anew. Agents and all others have turns of their own, so that people need not wait for thousands of agents.
type handshakeLimit struct {
	atOnce int
	turn   time.Duration // for how long a handshake counts at most: one whose other side says nothing more is in nobody's way after that
	wait   time.Duration // how long a connection waits for its turn; the rest of headerTimeout is for the handshake
}

// handshakes is the limit of a server. Over a slow line, where one takes half a second, more than a hundred a second are finished.
var handshakes = handshakeLimit{atOnce: 64, turn: time.Second, wait: 8 * time.Second}

var errCrowded = errors.New("too many connect at once")

// apply returns a configuration that holds the limit. The one that is given has GetConfigForClient.
func (l handshakeLimit) apply(config *tls.Config) *tls.Config {
	others, agents := make(chan struct{}, l.atOnce), make(chan struct{}, l.atOnce)
	choose := config.GetConfigForClient
	limited := config.Clone()
	limited.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen, err := choose(hello)
		if err != nil {
			return nil, err
		}
		turns := others
		if slices.Contains(hello.SupportedProtos, pki.AgentProtocol) {
			turns = agents
		}
		if err := l.take(hello.Context(), turns); err != nil {
			return nil, err
		}
		turn := time.AfterFunc(l.turn, func() { <-turns })
		verify := chosen.VerifyConnection
		chosen = chosen.Clone()
		chosen.VerifyConnection = func(state tls.ConnectionState) error { // the last that a handshake computes; one that fails before has its turn's whole time
			if turn.Stop() {
				<-turns
			}
			if verify == nil {
				return nil
			}
			return verify(state)
		}
		return chosen, nil
	}
	return limited
}

// take waits until one of the turns is free, and takes it.
func (l handshakeLimit) take(ctx context.Context, turns chan<- struct{}) error {
	timer := time.NewTimer(l.wait)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return nil
	case <-timer.C:
		return errCrowded
	case <-ctx.Done():
		return ctx.Err()
	}
}
