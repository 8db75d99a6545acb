package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	Patience        time.Duration // how long an answer is waited for; 20 s if zero
	MaxMessageBytes int           // 1 MiB if zero; larger messages of the plugin fail the test
	NodesPerMessage int           // 500 if zero
	Log             hclog.Logger  // nil: nothing is logged
}

func (o Options) withDefaults() Options {
	if o.Patience == 0 {
		o.Patience = patience
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 1 << 20
	}
	if o.NodesPerMessage == 0 {
		o.NodesPerMessage = 500
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	return o
}

// Host is the daemon's side for tests. Its methods may be called from one goroutine at a time; what goes wrong in the protocol fails the test.
type Host struct {
	t      T
	opts   Options
	client pluginv1.PluginClient
	about  *pluginv1.DescribeResponse
	stream pluginv1.Plugin_SessionClient
	ended  chan struct{} // closed when the receiver is done
	hangUp func()        // ends the session
	end    func()        // ends the plugin

	mu       sync.Mutex // guards what follows
	changed  *sync.Cond
	err      error
	ready    bool
	mirror   *mirror
	book     // of what was asked and answered
	latest   *pluginv1.Applied
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
	running, err := goTarget{plugin: func() sdk.Plugin { return p }, log: opts.withDefaults().Log}.Start(context.Background())
	if err != nil {
		t.Fatalf("sdktest: start the plugin: %v", err)
	}
	t.Cleanup(running.Kill)
	h := Open(t, running.Client(), opts)
	h.end = running.Kill
	return h
}

// Open opens a session with a plugin that runs already, after configuring it. The session ends with the test, the plugin does not.
func Open(t T, client pluginv1.PluginClient, opts Options) *Host {
	t.Helper()
	return openWith(t, client, opts, true)
}

func openWith(t T, client pluginv1.PluginClient, opts Options, configure bool) *Host {
	t.Helper()
	h := &Host{
		t: t, opts: opts.withDefaults(), client: client, end: func() {},
		book: newBook(), answers: map[uint64][]*pluginv1.Answer{},
	}
	h.book.size = func() int { return len(h.mirror.nodes) }
	h.book.node = func(i uint32, revision uint64) (*cluster.Node, error) { return h.mirror.at(i, revision) }
	h.changed = sync.NewCond(&h.mu)
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.Patience)
	defer cancel()
	about, err := h.client.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "sdktest", Protocol: 1})
	h.must("describe", err)
	h.about, h.mirror = about, newMirror(about.Watches)
	if configure {
		if d := h.Configure(opts.Config); isRefusal(d) {
			h.fail(RuleConfig, "the configuration is refused: %s", diagnosticText(d))
		}
	}
	h.open()
	return h
}

// open begins the session.
func (h *Host) open() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.ended = make(chan struct{})
	h.hangUp = sync.OnceFunc(func() {
		cancel()
		<-h.ended
	})
	h.t.Cleanup(h.hangUp)
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

// Close ends the session, and the plugin if New or NewWith started it. It may be called more than once.
func (h *Host) Close() {
	h.hangUp()
	h.end()
}

// Describe returns what the plugin says of itself.
func (h *Host) Describe() *pluginv1.DescribeResponse { return h.about }

// Client returns the client of the plugin, for calls beside the session.
func (h *Host) Client() pluginv1.PluginClient { return h.client }

// Configure hands the plugin a configuration and returns its diagnostics.
func (h *Host) Configure(config string) []*pluginv1.Diagnostic {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.Patience)
	defer cancel()
	resp, err := h.client.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: config})
	h.must("configure", err)
	return resp.Diagnostics
}

// Validate returns the plugin's diagnostics about what a job says to it.
func (h *Host) Validate(req sdk.CompileRequest) []*pluginv1.Diagnostic {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.Patience)
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

// must fails the test because of an error of a call, the stream, or what the plugin said.
func (h *Host) must(what string, err error) {
	h.t.Helper()
	if err == nil {
		return
	}
	rule := RuleProtocol
	if j, ok := h.t.(*judge); ok && j.rule == RulePanic && errors.Is(err, errEnded) {
		rule = RulePanic // what was sent was fine though odd
	}
	if status.Code(err) == codes.DeadlineExceeded || errors.Is(err, errLate) {
		rule = RuleDeadline
	}
	if errors.Is(err, errLarge) {
		rule = RuleBounded
	}
	ended := errors.Is(err, errEnded) || status.Code(err) == codes.Unavailable
	h.violated(Violation{Rule: rule, Got: fmt.Sprintf("%s: %v", what, err), ended: ended})
}

// fail fails the test because a rule of conformance is broken.
func (h *Host) fail(rule Rule, format string, args ...any) {
	h.t.Helper()
	h.violated(Violation{Rule: rule, Got: fmt.Sprintf(format, args...)})
}

func (h *Host) violated(v Violation) {
	h.t.Helper()
	if j, ok := h.t.(*judge); ok {
		j.broken(v)
	}
	h.t.Fatalf("sdktest: %s", v.Got)
}

var (
	errEnded = errors.New("the session ended")
	errLate  = errors.New("it did not come in time")
	errLarge = errors.New("a message is too large")
)

func (h *Host) send(m *pluginv1.FromCore) {
	h.t.Helper()
	err := h.stream.Send(m)
	if errors.Is(err, io.EOF) { // why is for the receiver to find out
		<-h.ended
		h.mu.Lock()
		err = h.err
		h.mu.Unlock()
	}
	h.must("send", err)
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
	h.must("await "+what, h.wait(h.opts.Patience, done))
}

// wait waits until done is true, which is called with the lock held. It returns errLate if that takes too long, or how the session ended.
func (h *Host) wait(limit time.Duration, done func() bool) error {
	late := false
	timer := time.AfterFunc(limit, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		late = true
		h.changed.Broadcast()
	})
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.err == nil && !late && !done() {
		h.changed.Wait()
	}
	switch {
	case h.err != nil:
		return h.err
	case late && !done():
		return fmt.Errorf("%w (%s)", errLate, limit)
	}
	return nil
}

// receive takes what the plugin says until the session ends.
func (h *Host) receive() {
	defer close(h.ended)
	for {
		m, err := h.stream.Recv()
		if err != nil {
			err = fmt.Errorf("%w: %w", errEnded, err)
		}
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
		return fmt.Errorf("%w: %d bytes, where the core allows %d", errLarge, n, h.opts.MaxMessageBytes)
	}
	switch x := m.Message.(type) {
	case *pluginv1.FromPlugin_Ready:
		if h.ready {
			return errors.New("it says twice that it is ready")
		}
		h.ready = true
	case *pluginv1.FromPlugin_Applied:
		h.latest = x.Applied
		return h.takeApplied(x.Applied)
	case *pluginv1.FromPlugin_Verdicts:
		return h.takeVerdicts(x.Verdicts)
	case *pluginv1.FromPlugin_Slots:
		return h.takeSlots(x.Slots)
	case *pluginv1.FromPlugin_Answer:
		return h.takeAnswer(x.Answer)
	case *pluginv1.FromPlugin_Problem:
		h.problems = append(h.problems, x.Problem)
	default:
		return fmt.Errorf("an unknown message %T", m.Message)
	}
	return nil
}

func (h *Host) takeAnswer(a *pluginv1.Answer) error {
	parts := h.answers[a.Question]
	switch {
	case a.Question == 0 || a.Question > h.lastID:
		return fmt.Errorf("question %d, which it answers, was never asked", a.Question)
	case len(parts) > 0 && !parts[len(parts)-1].More:
		return fmt.Errorf("it answers question %d twice", a.Question)
	}
	h.answers[a.Question] = append(parts, a)
	return nil
}
