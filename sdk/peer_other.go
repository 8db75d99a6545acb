//go:build !linux

package sdk

import (
	"errors"
	"net"
)

// PeerUser returns an error: who is at the other end of a connection is known on Linux only.
func PeerUser(net.Conn) (int, error) {
	return 0, errors.New("who is the peer: it is known on Linux only")
}
