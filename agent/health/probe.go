package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Target is what is probed.
type Target struct {
	Spec *cluster.HealthSpec
	Env  map[string]string // of the task; $NAME in the addresses of http and tcp stands for a value of it
	Dir  string            // of the task, for exec; empty: the root directory
	User string            // of the task, for exec: a name or number, with ":group" if not the user's own
}

// New returns a probe of what the specification says. It refuses one that says nothing, and a user that cannot be.
func New(t Target) (Probe, error) {
	expand := func(text string) string { return os.Expand(text, func(name string) string { return t.Env[name] }) }
	switch {
	case len(t.Spec.Exec) > 0:
		return command(t)
	case t.Spec.HTTP != "":
		return request(expand(t.Spec.HTTP)), nil
	case t.Spec.TCP != "":
		return connection(expand(t.Spec.TCP)), nil
	}
	return nil, errors.New("the health check says neither exec, http nor tcp")
}

// request asks for a page. Any answer below 400 is one of a healthy task; a redirection is not followed. Who answers is not verified over
// TLS, for what is asked is whether this task answers, under whatever name.
func request(url string) Probe {
	return func(ctx context.Context) error {
		client := http.Client{
			Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "setpoint-health")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.CopyN(io.Discard, res.Body, 64<<10)
		if closeErr := res.Body.Close(); err == nil || errors.Is(err, io.EOF) {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", url, err)
		}
		if res.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("get %s: %s", url, res.Status)
		}
		return nil
	}
}

// connection connects and hangs up.
func connection(address string) Probe {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
