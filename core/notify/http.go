package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// HTTP is how a sink calls somebody.
type HTTP struct {
	Timeout time.Duration
	CA      string // file with the certificates that are trusted; "": those of the system
	Cert    string // file with a certificate to show, and Key with its key; "": none
	Key     string
	Bearer  string // file with a token that is sent along; "": none
}

// caller posts what a sink has to say. Files are read for each call, so that a new secret or certificate serves at once.
type caller struct {
	HTTP
	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: as usual
}

// maxSecretFile is how much of a file with a secret is read.
const maxSecretFile = 64 << 10

// readSecret returns what a file with a secret says, without the line's end.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// refused is an answer that says no.
type refused struct {
	status string
	body   string
	after  time.Duration // for which the other side wants to be left alone; 0: it did not say
}

func (r *refused) Error() string {
	if r.body == "" {
		return "answered " + r.status
	}
	return "answered " + r.status + ": " + r.body
}

// post sends a body as JSON. The error never has more of the address than its host: the path may be a secret.
func (c *caller) post(ctx context.Context, to string, body []byte, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address cannot be called")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "setpoint")
	if c.Bearer != "" {
		token, err := readSecret(c.Bearer)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // what it says besides is for people
	if res.StatusCode/100 != 2 {
		return &refused{status: res.Status, body: clip(string(text), 200), after: retryAfter(res.Header)}
	}
	return nil
}

func (c *caller) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DialContext: c.dial, ForceAttemptHTTP2: true, DisableKeepAlives: true},
		// What is signed for one is not passed on to another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// withoutURL returns an error of a client without the address.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// shown returns as much of an address as anybody may see.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}
