package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Release is the version of this SDK, which plugins tell their daemon.
const Release = "setpoint-sdk-go 0.1.0"

// Server answers the plugin protocol for a Plugin. Serve makes one; tests may make their own.
type Server struct {
	pluginv1.UnimplementedPluginServer

	plugin *Plugin
	log    hclog.Logger
	ctx    context.Context //nolint:containedctx // of all sessions
	cancel context.CancelFunc
	exit   func() // ends the process; may be nil

	configuring sync.Mutex // held while author's code takes up a configuration
	mu          sync.Mutex // guards stopped, live, and sessions from growing once stopped
	stopped     bool
	live        map[int]Session // by a number of their own
	opened      int
	sessions    sync.WaitGroup
}

// NewServer returns a server for a plugin, or all that is wrong with the plugin's definition. exit is called once after Stop has been answered and may be
// nil.
func NewServer(p Plugin, log hclog.Logger, exit func()) (*Server, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := &Server{plugin: &p, log: log, exit: exit, live: make(map[int]Session)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, x := range partsOf[NeedsLogger](s.plugin) {
		x.SetLogger(log)
	}
	return s, nil
}

// Describe says what the plugin is.
func (s *Server) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	p := s.plugin
	resp := &pluginv1.DescribeResponse{
		Name: p.Name, Version: p.Version, Sdk: Release, Protocol: protocolMinor,
		Interfaces: p.interfaces(), JobTypes: p.jobTypes(), Config: p.Config.wire(), Job: p.Job.wire(),
	}
	for _, w := range p.Watches {
		resp.Watches = append(resp.Watches, string(w))
	}
	return resp, nil
}

// Validate checks a configuration, or what a job says to the plugin.
func (s *Server) Validate(ctx context.Context, req *pluginv1.ValidateRequest) (*pluginv1.ValidateResponse, error) {
	var err error
	switch what := req.What.(type) {
	case *pluginv1.ValidateRequest_ConfigJson:
		err = s.config(ctx, what.ConfigJson, func(ctx context.Context, c ConfigureRequest) error {
			return each(s.plugin, func(v ConfigValidator) error { return v.ValidateConfig(ctx, c) })
		})
	case *pluginv1.ValidateRequest_JobJson:
		err = s.validateJob(ctx, what.JobJson, req.Job)
	default:
		err := protocolError("nothing to validate")
		return nil, wireError(codes.InvalidArgument, ErrProtocol, err.Error())
	}
	d, err := s.diagnose("validate", err)
	return &pluginv1.ValidateResponse{Diagnostics: d}, err
}

// Configure takes up a configuration. All answers are then computed anew.
func (s *Server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	d, err := s.diagnose("configure", s.config(ctx, req.ConfigJson, func(ctx context.Context, c ConfigureRequest) error {
		return each(s.plugin, func(v Configurer) error { return v.Configure(ctx, c) })
	}))
	if err == nil && !slices.ContainsFunc(d, func(x *pluginv1.Diagnostic) bool { return !x.Warning }) {
		s.changed()
	}
	return &pluginv1.ConfigureResponse{Diagnostics: d}, err
}

// changed makes all sessions compute their answers anew.
func (s *Server) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, live := range s.live {
		live.Changed()
	}
}

// join counts a session among the live ones until it ends.
func (s *Server) join() (opened func(Session), end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, nil, wireError(codes.Unavailable, ErrStopping, ErrStopping.Error())
	}
	s.sessions.Add(1)
	s.opened++
	number := s.opened
	opened = func(live Session) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live[number] = live
	}
	end = func() {
		s.mu.Lock()
		delete(s.live, number)
		s.mu.Unlock()
		s.sessions.Done()
	}
	return opened, end, nil
}

// Session holds a conversation.
func (s *Server) Session(st pluginv1.Plugin_SessionServer) error {
	opened, end, err := s.join()
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err = serveSession(ctx, s.plugin, s.log, st, opened)
	switch {
	case err == nil, errors.Is(err, io.EOF), ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrProtocol):
		s.log.Error("session ended", "error", err)
		return wireError(codes.InvalidArgument, ErrProtocol, err.Error())
	}
	s.log.Warn("session ended", "error", err)
	return err
}

// Stop ends all sessions, answers, and then makes the process exit.
func (s *Server) Stop(ctx context.Context, req *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	ended := make(chan struct{})
	go func() {
		s.sessions.Wait()
		close(ended)
	}()
	grace := time.NewTimer(max(time.Duration(req.GraceNs), 0))
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	case <-ctx.Done():
	}
	if first && s.exit != nil {
		go s.exit()
	}
	return &pluginv1.StopResponse{}, nil
}

// config checks a configuration against the schema and hands it to the author.
func (s *Server) config(ctx context.Context, text string, take func(context.Context, ConfigureRequest) error) error {
	full, err := s.plugin.Config.complete(Settings(text))
	if err != nil {
		return err
	}
	return guard(func() error { return take(ctx, ConfigureRequest{Config: full}) })
}

func (s *Server) validateJob(ctx context.Context, text string, class *pluginv1.CompileRequest) error {
	req := compileRequest(class)
	full, err := s.plugin.Job.complete(Settings(text))
	if err != nil {
		return err
	}
	req.Settings = full
	asked := *s.plugin
	asked.JobTypes = map[string]JobType{}
	if own := s.plugin.JobTypes[req.JobType]; own != nil {
		asked.JobTypes[req.JobType] = own
	}
	return guard(func() error {
		if len(partsOf[Validator](&asked)) > 0 || s.plugin.Filter == nil {
			return each(&asked, func(v Validator) error { return v.Validate(ctx, req) })
		}
		_, err := s.plugin.Filter.Compile(ctx, req)
		return err
	})
}

// diagnose divides an error into the author's diagnostics and a failure of the call.
func (s *Server) diagnose(what string, err error) ([]*pluginv1.Diagnostic, error) {
	if err == nil {
		return nil, nil
	}
	if stack := stackOf(err); stack != "" {
		s.log.Error("plugin code panicked", "call", what, "error", err, "stack", stack)
		return nil, wireError(codes.Internal, ErrPanic, fmt.Sprintf("%s: %v", what, err))
	}
	return diagnosticsOf(err).wire(), nil
}

// each calls f for every part of the plugin that implements T and joins what they say.
func each[T any](p *Plugin, f func(T) error) error {
	var all Diagnostics
	for _, x := range partsOf[T](p) {
		all = append(all, diagnosticsOf(f(x))...)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
