package sdk

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PeerUser returns the number of the user who is at the other end of a connection over a unix socket.
func PeerUser(conn net.Conn) (int, error) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0, errors.New("who is the peer: the connection has no descriptor")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("who is the peer: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("who is the peer: %w", err)
	}
	return int(cred.Uid), nil
}
