// Package outward is what calls to servers of others have in common: whom they trust, what anybody may see of an address, and how long the other side wants to be left
// alone.
package outward

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// Files are what a call is made with, read anew for each client, so that a new certificate serves at once.
type Files struct {
	CA   string // with the certificates that are trusted; "": those of the system
	Cert string // with a certificate to show, and Key with its key; "": none
	Key  string
}

// Client returns a client with a transport, whose dialing and connections are the caller's to change before it is used. It follows no redirect: what is signed for one, or
// sent along for one, is not passed on to another.
func (f Files) Client(transport *http.Transport) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = config, true
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// WithoutURL returns an error of a client without the address, whose path may be a secret.
func WithoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Shown returns as much of an address as anybody may see.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

// RetryAfter returns for how long an answer wants its server to be left alone, an hour at most; 0: it does not say.
func RetryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
