package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/core/pki"
)

// mute is a client's end of a connection whose client says its first word and nothing more.
type mute struct{ net.Conn }

func (m mute) Read([]byte) (int, error) {
	_, err := io.Copy(io.Discard, m.Conn)
	return 0, cmp.Or(err, io.EOF)
}

// doors is a server that takes handshakes, with how each ended.
type doors struct {
	t      *testing.T
	client *tls.Config
	server *tls.Config
	ended  chan error
}

func newDoors(t *testing.T, limit handshakeLimit) *doors {
	t.Helper()
	authority, err := pki.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), pki.Identity{Role: pki.RoleServer, Name: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	return &doors{
		t: t, client: pki.ClientTLS(nil, pair.Authority()), server: limit.apply(pki.ServerTLS(pki.NewHolder(pair))), ended: make(chan error, 100),
	}
}

// knock has a client connect, one that falls silent if it is told when it gives up.
func (d *doors) knock(over <-chan struct{}) {
	near, far := net.Pipe()
	if over != nil {
		near = mute{near}
		go func() {
			<-over
			_ = near.Close()
		}()
	}
	go func() {
		client := tls.Client(near, d.client)
		_ = client.HandshakeContext(d.t.Context())
		_ = near.Close()
	}()
	go func() {
		server := tls.Server(far, d.server)
		d.ended <- server.HandshakeContext(d.t.Context())
		_ = far.Close()
	}()
}

// A handshake whose other side falls silent holds its turn for a while, not for ever.
func TestSilentHandshakesHoldUpOthersForTheirTurnOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, handshakeLimit{atOnce: 2, turn: time.Second, wait: 8 * time.Second})
		over := make(chan struct{})
		d.knock(over)
		d.knock(over)
		synctest.Wait()
		began := time.Now()
		for range 20 {
			d.knock(nil)
		}
		for range 20 {
			if err := <-d.ended; err != nil {
				t.Errorf("a handshake failed: %v", err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the others were through after %s, want 1s", took)
		}
		close(over)
		<-d.ended
		<-d.ended
	})
}

// While agents wait for their turn, people have theirs.
func TestPeopleDoNotWaitForAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, handshakeLimit{atOnce: 1, turn: time.Second, wait: 3500 * time.Millisecond})
		over := make(chan struct{})
		person := d.client
		d.client = person.Clone()
		d.client.NextProtos = append(d.client.NextProtos, pki.AgentProtocol)
		for range 3 {
			d.knock(over)
		}
		synctest.Wait()
		began := time.Now()
		d.client = person
		d.knock(nil)
		if err := <-d.ended; err != nil || time.Since(began) != 0 {
			t.Errorf("somebody was through after %s: %v", time.Since(began), err)
		}
		close(over)
		for range 3 {
			<-d.ended
		}
	})
}

// Who has waited for long has given up meanwhile, and is sent away.
func TestHandshakesDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, handshakeLimit{atOnce: 1, turn: time.Second, wait: 3500 * time.Millisecond})
		over := make(chan struct{})
		for range 6 {
			d.knock(over)
		}
		began := time.Now()
		for range 2 {
			if err := <-d.ended; !errors.Is(err, errCrowded) {
				t.Errorf("it ended with %v, want %v", err, errCrowded)
			}
		}
		if took := time.Since(began); took != 3500*time.Millisecond {
			t.Errorf("sent away after %s", took)
		}
		close(over)
		for range 4 {
			<-d.ended
		}
	})
}

// What the configuration itself says of a connection is asked all the same.
func TestLimitedHandshakesAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d := newDoors(t, handshakeLimit{atOnce: 1, turn: time.Second, wait: time.Second})
		choose := d.server.GetConfigForClient
		d.server.GetConfigForClient = nil
		base := d.server.Clone()
		base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if err != nil {
				return nil, err
			}
			chosen = chosen.Clone()
			chosen.VerifyConnection = func(tls.ConnectionState) error {
				asked.Add(1)
				return context.Canceled
			}
			return chosen, nil
		}
		d.server = handshakeLimit{atOnce: 1, turn: time.Second, wait: time.Second}.apply(base)
		d.knock(nil)
		if err := <-d.ended; !errors.Is(err, context.Canceled) || asked.Load() != 1 {
			t.Errorf("it ended with %v after %d questions", err, asked.Load())
		}
	})
}
