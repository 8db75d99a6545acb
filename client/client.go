package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
)

// How long it may take to reach a server, and to miss it.
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second // longer than a server has connections wait for their turn
	idleTimeout      = time.Minute
	// A server that vanished without a word is found by pings: what is followed, or typed at, would wait for it for long.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// Options say which server is asked, and as whom.
type Options struct {
	Addr string // https://HOST:PORT or HOST:PORT
	Pair string // file of certificate and key, such as admin.pem in a server's data directory

	// Where says where the server is now, written as Addr is. It is asked before each connection is made, so that a server that was started again elsewhere is found
	// there. It may be nil, and say nothing: then it is Addr.
	Where func() string

	// Outdated is called after each answer which says that the cluster's authority is being replaced, and the credential is of the old one: Renew gets another. It
	// may be nil.
	Outdated func()

	// Once has calls made once that get no answer. Otherwise those that read, and those with a key, are made again a few times.
	Once bool
}

// Client asks one server. It is safe for use by several goroutines.
type Client struct {
	apiv1connect.ApiServiceClient
	addr      string
	where     func() string
	pair      *pki.Pair
	transport *http.Transport
}

// New returns a client; nothing is sent yet. A credential that is missing wraps fs.ErrNotExist.
func New(opts Options) (*Client, error) {
	addr, err := parseAddr(opts.Addr)
	if err != nil {
		return nil, err
	}
	pair, err := pki.LoadPair(opts.Pair)
	if err != nil {
		return nil, err
	}
	c := &Client{addr: addr, where: opts.Where, pair: pair}
	c.transport = newTransport(pki.ClientTLS(pki.NewHolder(pair), pair.Authority()), c.Addr)
	c.ApiServiceClient = apiv1connect.NewApiServiceClient(&http.Client{Transport: c.transport}, addr, connect.WithInterceptors(interceptors(opts)...))
	return c, nil
}

func interceptors(opts Options) []connect.Interceptor {
	all := []connect.Interceptor{connect.UnaryInterceptorFunc(once), connect.UnaryInterceptorFunc(traced)}
	if !opts.Once {
		all = append(all, connect.UnaryInterceptorFunc(again))
	}
	return append(all, outdated(opts.Outdated))
}

// newTransport returns one whose connections go to the server at the URL that where returns, whatever host is asked for; nil: to the host.
func newTransport(config *tls.Config, where func() string) *http.Transport {
	return &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if where != nil {
				addr = strings.TrimPrefix(where(), scheme)
			}
			c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, &dialError{err}
			}
			return c, nil
		},
		TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// dialError is why no connection was made. It reads as its cause.
type dialError struct{ cause error }

// Error implements error.
func (e *dialError) Error() string { return e.cause.Error() }

// Unwrap returns the cause, and what tells such an error.
func (e *dialError) Unwrap() []error { return []error{e.cause, errDial} }

// outdated calls a function after each answer that says so.
func outdated(tell func()) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err == nil && tell != nil && res.Header().Get(headerRenew) != "" {
				tell()
			}
			return res, err
		}
	}
}

// headerRenew is set in answers to those whose certificate is of an authority that is being replaced.
const headerRenew = "Setpoint-Renew"

// Pair returns the client's credential.
func (c *Client) Pair() *pki.Pair { return c.pair }

// Addr returns the URL at which the server is now.
func (c *Client) Addr() string {
	if c.where != nil {
		if addr, err := parseAddr(c.where()); err == nil {
			return addr
		}
	}
	return c.addr
}

// Close ends connections that nothing is asked over.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

const scheme = "https://"

func parseAddr(addr string) (string, error) {
	text := addr
	if !strings.Contains(text, "://") {
		text = scheme + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", fmt.Errorf("server address %q is not of the form https://HOST:PORT or HOST:PORT", addr)
	}
	return scheme + u.Host, nil
}

// Detail returns what a server said about a refusal besides its text, or nil if err is none or the server said nothing.
func Detail(err error) *apiv1.ErrorDetail {
	var coded *connect.Error
	if !errors.As(err, &coded) {
		return nil
	}
	for _, d := range coded.Details() {
		if m, err := d.Value(); err == nil {
			if detail, ok := m.(*apiv1.ErrorDetail); ok {
				return detail
			}
		}
	}
	return nil
}

// IsNotFound reports whether a call failed because what it names does not exist.
func IsNotFound(err error) bool { return Detail(err).GetCode() == "not_found" }

// IsCompacted reports whether a watch failed because its past was dropped: list again and watch from there.
func IsCompacted(err error) bool {
	code := Detail(err).GetCode()
	return code == "compacted" || code == "too_slow"
}
