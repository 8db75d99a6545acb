package sdktest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// T is what a Host needs of a test: testing.TB and rapid.T have it.
type T interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// patience is how long a Host waits for an answer before it gives up.
const patience = 20 * time.Second

// Options change how a Host behaves. The zero value is a host with usual limits.
type Options struct {
	Config          string        // of the plugin, as JSON
	Deadline        time.Duration // of one answer; 5 s if zero
	MaxMessageBytes int           // 1 MiB if zero; larger messages of the plugin fail the test
	Log             hclog.Logger  // nil: nothing is logged
}

// Host is the daemon's side for tests. Its methods may be called from one goroutine at a time; what goes wrong in the protocol fails the test.
type Host struct {
	t      T
	opts   Options
	client pluginv1.PluginClient
	about  *pluginv1.DescribeResponse
	stream pluginv1.Plugin_SessionClient
	ended  chan struct{} // closed when the receiver is done
	stop   func()

	mu       sync.Mutex // guards what follows
	changed  *sync.Cond
	err      error
	ready    bool
	mirror   *mirror
	revision uint64
	applied  *pluginv1.Applied
	classes  map[uint32]*classState
	jobs     map[string]*jobState
	answers  map[uint64][]*pluginv1.Answer
	problems []*pluginv1.Problem
	messages int // received
	lastID   uint64
}

// New runs a plugin and opens a session with it. Both end with the test.
func New(t T, p sdk.Plugin) *Host {
	t.Helper()
	return NewWith(t, p, Options{})
}

// NewWith is New with options.
func NewWith(t T, p sdk.Plugin, opts Options) *Host {
	t.Helper()
	h := &Host{t: t, opts: opts, classes: map[uint32]*classState{}, jobs: map[string]*jobState{}, answers: map[uint64][]*pluginv1.Answer{}}
	h.changed = sync.NewCond(&h.mu)
	if h.opts.MaxMessageBytes == 0 {
		h.opts.MaxMessageBytes = 1 << 20
	}
	if h.opts.Log == nil {
		h.opts.Log = hclog.NewNullLogger()
	}
	h.serve(p)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	about, err := h.client.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "sdktest", Protocol: 1})
	h.must("describe", err)
	h.about, h.mirror = about, newMirror(about.Watches)
	if d := h.Configure(opts.Config); d != nil {
		t.Fatalf("configure: %v", d)
	}
	h.open()
	return h
}

// serve starts the plugin's server and connects to it.
func (h *Host) serve(p sdk.Plugin) {
	h.t.Helper()
	server, err := sdk.NewServer(p, h.opts.Log, nil)
	h.must("make the server", err)
	pipe := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(sdk.MaxReceiveBytes))
	pluginv1.RegisterPluginServer(g, server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(pipe) })
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxReceiveBytes)))
	h.must("connect", err)
	h.client = pluginv1.NewPluginClient(conn)
	h.stop = sync.OnceFunc(func() {
		_ = conn.Close()
		g.Stop()
		serving.Wait()
	})
	h.t.Cleanup(h.Close)
}

// open begins the session.
func (h *Host) open() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stop := h.stop
	h.ended = make(chan struct{})
	h.stop = sync.OnceFunc(func() {
		cancel()
		<-h.ended
		stop()
	})
	var err error
	h.stream, err = h.client.Session(ctx)
	if err != nil {
		close(h.ended)
	}
	h.must("open the session", err)
	go h.receive()
	h.send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Hello{Hello: &pluginv1.Hello{
		ClusterId: "sdktest", Protocol: 1, DeadlineNs: int64(h.opts.Deadline), MaxMessageBytes: uint32(h.opts.MaxMessageBytes),
	}}})
	h.await("ready", func() bool { return h.ready })
}

// Close ends the session and the plugin. It may be called more than once.
func (h *Host) Close() { h.stop() }

// Describe returns what the plugin says of itself.
func (h *Host) Describe() *pluginv1.DescribeResponse { return h.about }

// Client returns the client of the plugin, for calls beside the session.
func (h *Host) Client() pluginv1.PluginClient { return h.client }

// Configure hands the plugin a configuration and returns its diagnostics.
func (h *Host) Configure(config string) []*pluginv1.Diagnostic {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := h.client.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: config})
	h.must("configure", err)
	return resp.Diagnostics
}

// Validate returns the plugin's diagnostics about what a job says to it.
func (h *Host) Validate(req sdk.CompileRequest) []*pluginv1.Diagnostic {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := h.client.Validate(ctx, &pluginv1.ValidateRequest{
		What: &pluginv1.ValidateRequest_JobJson{JobJson: string(req.Settings)},
		Job:  &pluginv1.CompileRequest{JobType: req.JobType, Labels: req.Labels, SettingsJson: string(req.Settings)},
	})
	h.must("validate", err)
	return resp.Diagnostics
}

// Messages returns how many messages the plugin has sent.
func (h *Host) Messages() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.messages
}

// Problems returns what the plugin has shown to the operator.
func (h *Host) Problems() []*pluginv1.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*pluginv1.Problem(nil), h.problems...)
}

func (h *Host) must(what string, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("sdktest: %s: %v", what, err)
	}
}

func (h *Host) send(m *pluginv1.FromCore) {
	h.t.Helper()
	h.must("send", h.stream.Send(m))
}

// Await waits until done is true; it is looked at whenever the plugin has said something. It fails the test if that takes too long or the session ends.
func (h *Host) Await(what string, done func() bool) {
	h.t.Helper()
	h.await(what, func() bool {
		h.mu.Unlock()
		defer h.mu.Lock()
		return done()
	})
}

// await is Await with the lock held.
func (h *Host) await(what string, done func() bool) {
	h.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		late = true
		h.changed.Broadcast()
	})
	defer timer.Stop()
	h.mu.Lock()
	for h.err == nil && !late && !done() {
		h.changed.Wait()
	}
	err := h.err
	h.mu.Unlock()
	h.must("await "+what, err)
	if late {
		h.t.Fatalf("sdktest: %s did not come within %s", what, patience)
	}
}

// receive takes what the plugin says until the session ends.
func (h *Host) receive() {
	defer close(h.ended)
	for {
		m, err := h.stream.Recv()
		h.mu.Lock()
		if err == nil {
			err = h.take(m)
		}
		if err != nil {
			h.err = err
		}
		h.messages++
		h.changed.Broadcast()
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take records one message. It is called with the lock held.
func (h *Host) take(m *pluginv1.FromPlugin) error {
	if n := proto.Size(m); n > h.opts.MaxMessageBytes {
		return fmt.Errorf("a message of %d bytes, more than %d", n, h.opts.MaxMessageBytes)
	}
	switch x := m.Message.(type) {
	case *pluginv1.FromPlugin_Ready:
		h.ready = true
	case *pluginv1.FromPlugin_Applied:
		h.applied = x.Applied
		return h.takeApplied(x.Applied)
	case *pluginv1.FromPlugin_Verdicts:
		return h.takeVerdicts(x.Verdicts)
	case *pluginv1.FromPlugin_Slots:
		return h.takeSlots(x.Slots)
	case *pluginv1.FromPlugin_Answer:
		h.answers[x.Answer.Question] = append(h.answers[x.Answer.Question], x.Answer)
	case *pluginv1.FromPlugin_Problem:
		h.problems = append(h.problems, x.Problem)
	default:
		return fmt.Errorf("an unknown message %T", m.Message)
	}
	return nil
}

func (h *Host) finder(revision uint64) finder {
	return func(i uint32) (*cluster.Node, error) { return h.mirror.at(i, revision) }
}
