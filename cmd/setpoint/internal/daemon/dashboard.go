package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/dashboard"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// newDashboard makes the dashboard, if there is to be one. It reads the state, and asks the API as whoever is logged in.
func (s *Server) newDashboard() (err error) {
	if s.pages == nil {
		return nil
	}
	cfg := s.opts.Config
	if cfg.Dashboard.Certificate != "" {
		if _, err := newPageCertificate(cfg.Dashboard).load(); err != nil {
			return err
		}
	}
	s.dashboard, err = dashboard.New(dashboard.Options{
		View: s.View,
		Inspect: func(ctx context.Context) (engine.InspectResult, error) {
			return asked[engine.InspectResult](ctx, s.engine, engine.Inspect{})
		},
		Why: func(ctx context.Context, task cluster.TaskID) (engine.WhyResult, error) {
			return asked[engine.WhyResult](ctx, s.engine, engine.Why{Task: task})
		},
		Client: func(who pki.Credential) apiv1connect.ApiServiceClient { return s.api.ClientFor(who) },
		Serves: s.certs.serves,
		URL:    "https://" + dashboardAddress(cfg, s.pages.Addr().String()), Name: cfg.Name, Log: s.opts.Log.Named("dashboard"),
	})
	return err
}

// asked asks the engine what changes nothing.
func asked[R any](ctx context.Context, e *engine.Engine, op engine.Op) (R, error) {
	v, err := e.Do(ctx, "server", op)
	if err != nil {
		var none R
		return none, err
	}
	out, ok := v.(R)
	if !ok {
		return out, fmt.Errorf("ask for the dashboard: the engine answered %T", v)
	}
	return out, nil
}

// dashboardAddress returns the address in links to the dashboard that listens at one.
func dashboardAddress(cfg *config.Config, listens string) string {
	if cfg.Dashboard.Advertise != "" {
		return cfg.Dashboard.Advertise
	}
	host, port, err := net.SplitHostPort(listens)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return listens
	}
	if reached, _, err := net.SplitHostPort(cfg.Advertise); err == nil {
		host = reached
	}
	return net.JoinHostPort(host, port)
}

// invites returns what lets people in; nil if there is no dashboard.
func (s *Server) invites() api.Dashboard {
	if s.dashboard == nil {
		return nil
	}
	return s.dashboard
}

// DashboardLink makes a link that serves one login as the local administrator; "" if there is no dashboard.
func (s *Server) DashboardLink() (string, error) {
	if s.dashboard == nil {
		return "", nil
	}
	pair, err := pki.LoadPair(s.certs.dir.AdminPair())
	if err != nil {
		return "", err
	}
	url, _, err := s.dashboard.Invite(pair.Credential())
	return url, err
}

// committed are those that are told of each turn.
func (s *Server) committed() []func(engine.Turn) {
	out := []func(engine.Turn){s.dispatcher.Committed, s.events.Committed, s.metrics.Committed}
	if s.dashboard != nil {
		out = append(out, s.dashboard.Committed)
	}
	return out
}

// serveDashboard serves the dashboard until the context ends.
func (s *Server) serveDashboard(ctx context.Context) error {
	var certificate func() (*tls.Certificate, error) // nil: the server's own
	if d := s.opts.Config.Dashboard; d.Certificate != "" {
		certificate = newPageCertificate(d).get
	}
	tlsConfig := pki.PageTLS(s.certs.holder, certificate)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.dashboard.Run(ctx) })
	g.Go(func() error {
		return api.Serve(ctx, s.pages, tlsConfig, s.dashboard.Handler(), s.opts.Log.Named("http"))
	})
	return g.Wait()
}

// pageCertificate is a certificate for browsers that somebody else issues. Its file is read again once it has changed; what cannot be read then leaves the one before
// in use.
type pageCertificate struct {
	files config.Dashboard

	mu      sync.Mutex // guards what follows
	changed time.Time  // of the file that was read
	cert    *tls.Certificate
}

func newPageCertificate(files config.Dashboard) *pageCertificate {
	return &pageCertificate{files: files}
}

func (c *pageCertificate) load() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("load the dashboard's certificate: %w", err)
	}
	return &cert, nil
}

// get returns the certificate as it is now.
func (c *pageCertificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed time.Time
	if info, err := os.Stat(c.files.Certificate); err == nil {
		changed = info.ModTime()
	}
	if c.cert != nil && changed.Equal(c.changed) {
		return c.cert, nil
	}
	cert, err := c.load()
	switch {
	case err == nil:
		c.cert, c.changed = cert, changed
	case c.cert == nil:
		return nil, err
	}
	return c.cert, nil
}
