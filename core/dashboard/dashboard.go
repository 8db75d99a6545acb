package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Options are what a dashboard needs. View, Inspect, Why, Client and Log are required.
type Options struct {
	// View returns the newest committed state.
	View func() *engine.State
	// Inspect returns what is reserved on every node, and Why what keeps a task from each. Both only read.
	Inspect func(context.Context) (engine.InspectResult, error)
	Why     func(context.Context, cluster.TaskID) (engine.WhyResult, error)
	// Client returns a client of the API for somebody who is logged in.
	Client func(pki.Credential) apiv1connect.ApiServiceClient
	// Serves reports whether a credential that has not expired still does: a session ends when that by which it began was revoked, or its authority retired. Nil: all do.
	Serves func(pki.Credential) bool

	URL  string // at which browsers reach it, such as https://HOST:PORT
	Name string // of the server, for people
	Log  hclog.Logger

	Now   func() time.Time // nil: time.Now
	Stall time.Duration    // for which a browser may take nothing of what is sent to it, before it is cut; 0: 30 seconds
}

// Dashboard serves the pages. It is safe for use by several goroutines.
type Dashboard struct {
	opts     Options
	sessions *sessions
	board    *board
	pages    *pages
	handler  http.Handler
}

// New returns a dashboard.
func New(opts Options) (*Dashboard, error) {
	if opts.View == nil || opts.Inspect == nil || opts.Why == nil || opts.Client == nil || opts.Log == nil {
		return nil, errors.New("make dashboard: an option is missing")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Serves == nil {
		opts.Serves = func(pki.Credential) bool { return true }
	}
	if opts.Stall == 0 {
		opts.Stall = stallTimeout
	}
	d := &Dashboard{opts: opts, sessions: newSessions(opts), pages: newPages()}
	d.board = newBoard(opts)
	d.handler = d.routes()
	return d, nil
}

// Handler serves the pages. It is to be served over TLS, on a listener of its own: browsers keep their cookies apart by host, not by port, and nothing else of the
// server has to be reached from a page.
func (d *Dashboard) Handler() http.Handler { return d.handler }

// Committed says that there is a newer state. It is called after every commit and never blocks; while nobody looks at the dashboard it does nothing.
func (d *Dashboard) Committed(engine.Turn) { d.board.committed() }

// Run ends sessions whose time is over, until the context ends; then it ends all of them, and with them what is sent to their browsers.
func (d *Dashboard) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			d.sessions.endAll()
			return nil
		case <-tick.C:
			d.sessions.sweep()
		}
	}
}

// Sweep ends at once what has no right to be: sessions whose time is over, or whose credential serves no more, and what is sent to their browsers.
func (d *Dashboard) Sweep() { d.sessions.sweep() }

// Invite makes a link that serves one login, as who is known by a credential, for a short while.
func (d *Dashboard) Invite(who pki.Credential) (url string, expires time.Time, err error) {
	code, expires, err := d.sessions.invite(who)
	if err != nil {
		return "", time.Time{}, err
	}
	// What is behind # is not sent to a server, and so in nobody's log.
	return d.opts.URL + "/login#" + code, expires, nil
}
