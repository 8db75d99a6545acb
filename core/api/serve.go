package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
)

// How long parts of a conversation may take. A peer that vanished without a word is found by pings.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	pingAfter     = 15 * time.Second
	pingTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second // without a byte being taken
	stopTimeout   = 5 * time.Second
)

// Serve answers on a listener, which it closes, until the context ends; then calls in flight have a few seconds to end, and their contexts
// end at once. The error says why it ended early.
func Serve(ctx context.Context, listener net.Listener, config *tls.Config, handler http.Handler, log hclog.Logger) error {
	server := &http.Server{
		Handler: handler, TLSConfig: handshakes.apply(config), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		err = server.Close()
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
