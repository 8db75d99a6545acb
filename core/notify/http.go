package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/internal/outward"
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
	client, err := outward.Files{CA: c.CA, Cert: c.Cert, Key: c.Key}.Client(&http.Transport{DialContext: c.dial, DisableKeepAlives: true})
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return outward.WithoutURL(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // what it says besides is for people
	if res.StatusCode/100 != 2 {
		return &refused{status: res.Status, body: clip(string(text), 200), after: outward.RetryAfter(res.Header)}
	}
	return nil
}
