package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/proto/openapi"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Engine is what the package needs of the engine.
type Engine interface {
	// Do runs a command and returns its result after the commit. A refusal is an *engine.OpError.
	Do(ctx context.Context, by string, op engine.Op) (any, error)
	// View returns the newest committed state.
	View() *engine.State
}

// Logs reads what tasks print. Only the request's task, stream, follow, tail and since are set. Reading gives io.EOF at the end.
type Logs interface {
	OpenLogs(ctx context.Context, node cluster.NodeID, req *agentv1.LogRequest) (io.ReadCloser, error)
}

// Plugins tells of the plugins.
type Plugins interface {
	// Plugins returns what is known of each configured plugin, by name.
	Plugins() []Plugin
	// CheckJob returns what the plugins find wrong with what a job says to them. It may be given a job that is not valid otherwise.
	CheckJob(ctx context.Context, spec cluster.JobSpec) []cluster.Problem
	// Trial has a filter judge classes on nodes as they would be, without consequences.
	Trial(ctx context.Context, plugin string, classes []engine.Class, nodes []engine.IndexedNode) ([]engine.ClassVerdict, error)
}

// Plugin is what is known of a plugin.
type Plugin struct {
	Name       string
	Version    string
	State      string // starting, running, backoff, crash_loop or stopped
	PID        int    // 0: no process
	Restarts   int
	Interfaces []string // filter, drainer, job_type; empty until it has described itself
	JobTypes   []string
	Message    string // why it does not run
	Since      time.Time
}

// History has the turns that are not among the recent events any more.
type History interface {
	// History calls yield with each turn from a revision on, in order, until it returns false or the newest turn has been given. A turn's
	// State has at least its revision and time; its Before may be nil. The error is ErrCompacted if some of them were dropped.
	History(ctx context.Context, from cluster.Revision, yield func(engine.Turn) bool) error
}

// Options are what an API needs. Engine, Plugins, Logs, Tokens, Signer, Events and Log are required.
type Options struct {
	Engine  Engine
	Plugins Plugins
	Logs    Logs
	Tokens  Tokens
	Signer  Signer
	Events  *Events
	Log     hclog.Logger

	Certificates   Certificates   // nil: none can be revoked
	Audit          Audit          // nil: what was changed by whom is in the log alone
	AuditContinues bool           // changes go on while the audit log cannot be written; otherwise they are refused
	Secrets        Secrets        // nil: there are none, and jobs that ask for some are refused
	Authorities    Authorities    // nil: the authority cannot be replaced, nor looked at
	PluginOperator PluginOperator // nil: nobody can look into plugins
	Sinks          Sinks          // nil: nobody is told of what waits

	// Follow returns what is to be told of a call that changes something; nil: nobody follows it. Nil function: nobody follows any.
	Follow func(Call) FollowedCall

	// Exec has the agent of a node run a command inside a task, until the context ends; nil: no command can be run.
	Exec func(ctx context.Context, node cluster.NodeID, begin *agentv1.ExecBegin) (Exec, error)

	Aside     engine.Conversations // nil: plugins are not asked about what is only tried
	Dashboard Dashboard            // nil: there is none

	History History // nil: there are the recent events only
	Version string  // of the server
	PID     int
	Started time.Time
	Now     func() time.Time // nil: time.Now
	Ready   func() error     // why the server is not ready; nil function or nil: it is
	Full    func() bool      // whether the store has no space, so that nothing can change; nil: it always has
}

// API answers what people and programs ask.
type API struct {
	opts    Options
	pinning sync.RWMutex // of services
	logins  sync.Mutex   // of services
	auditor *auditor
	streams streams
	trying  chan struct{} // has room for as many as may try commands at once
}

// New returns an API.
func New(opts Options) (*API, error) {
	if opts.Engine == nil || opts.Plugins == nil || opts.Logs == nil || opts.Tokens == nil || opts.Signer == nil || opts.Events == nil || opts.Log == nil {
		return nil, errors.New("make api: an option is missing")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Ready == nil {
		opts.Ready = func() error { return nil }
	}
	if opts.Exec == nil {
		opts.Exec = func(context.Context, cluster.NodeID, *agentv1.ExecBegin) (Exec, error) {
			return nil, errors.New("this server runs no commands inside tasks")
		}
	}
	if opts.Full != nil {
		opts.Engine = commands{opts.Engine, opts.Full}
	}
	opts.Engine = keyedEngine{opts.Engine}
	return &API{opts: opts, auditor: newAuditor(&opts), trying: make(chan struct{}, maxTrying)}, nil
}

// service keeps the calls apart from what the daemon calls.
type service struct {
	opts    Options
	trying  chan struct{}
	streams *streams
	logins  *sync.Mutex   // held while somebody logs in, so that no two take one name
	pinning *sync.RWMutex // read-locked from the moment a job's secrets are looked up until the job is committed; locked while a secret goes
}

func (a *API) service() *service {
	return &service{a.opts, a.trying, &a.streams, &a.logins, &a.pinning}
}

// view returns the newest committed state as it is seen now.
func (v *service) view() *engine.State { return v.opts.Engine.View().At(v.opts.Now()) }

// ForReaders serves a page to readers, and to whoever may do more, only.
func ForReaders(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := IdentityFrom(r.Context())
		if err != nil {
			answer(w, http.StatusUnauthorized, err.Error())
			return
		}
		if err := id.Require(pki.RoleReader); err != nil {
			answer(w, http.StatusForbidden, err.Error())
			return
		}
		page.ServeHTTP(w, r)
	})
}

// Mount is a further service to be served, such as the agents'.
type Mount struct {
	Path    string
	Handler http.Handler
}

// maxRequestBytes limits one message of a client or agent.
const maxRequestBytes = 4 << 20

// compressBytes is from which size on an answer is worth compressing. Most of what agents are told is far smaller.
const compressBytes = 1 << 10

// HandlerOptions are what every service on the port is made with: the callers' roles are checked, errors become answers, panics of a call
// are recovered and messages have a limit, and fields in JSON that do not exist are refused.
func (a *API) HandlerOptions() []connect.HandlerOption {
	g := &gate{
		log: a.opts.Log, authorities: a.opts.Authorities, auditor: a.auditor, certificates: a.opts.Certificates, streams: &a.streams, meant: a.meant,
	}
	all := []connect.Interceptor{g, terms{a.service()}}
	if a.opts.Follow != nil {
		all = slices.Insert(all, 0, connect.Interceptor(follower{a.opts.Follow}))
	}
	return append(
		strict(),
		connect.WithInterceptors(all...),
		connect.WithRecover(g.recovered),
		connect.WithReadMaxBytes(maxRequestBytes),
		connect.WithCompressMinBytes(compressBytes),
	)
}

// Handler serves the API, /openapi.json, /healthz, /readyz and what is mounted besides.
func (a *API) Handler(mounts ...Mount) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewApiServiceHandler(a.service(), a.HandlerOptions()...))
	for _, m := range mounts {
		mux.Handle(m.Path, m.Handler)
	}
	mux.Handle("GET /openapi.json", ForReaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.Document)
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.opts.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	return a.identified(mux)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
