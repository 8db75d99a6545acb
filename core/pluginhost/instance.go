package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

const (
	stopGrace  = 1500 * time.Millisecond // for a plugin to end when asked to, and again after SIGTERM
	killGrace  = 100 * time.Millisecond  // after SIGTERM, for one that failed
	exitWait   = 500 * time.Millisecond  // for the process to be seen to have ended, once its connection is lost
	maxAnswer  = 1 << 20                 // bytes of an answer to Describe and such
	hardAnswer = 4 << 20                 // bytes of one message of a session that are ever read
)

// instance is a process of a plugin that has described itself.
type instance struct {
	plugin  *Plugin
	process process
	client  pluginv1.PluginClient
	about   *description
}

// start starts a plugin's process and has it describe itself. After an error nothing of it is left.
func start(ctx context.Context, cfg *Config, p *Plugin) (*instance, error) {
	i := &instance{plugin: p}
	var err error
	if p.attach != nil {
		i.process, err = attach(ctx, p.Name, *p.attach, p.StartTimeout)
	} else {
		i.process, err = cfg.Launcher.Start(ctx, p.Command, protocol())
	}
	if err != nil {
		return nil, failureOf(err)
	}
	if err := i.describe(ctx, cfg.Version); err != nil {
		err = i.why(err)
		i.kill(ctx)
		return nil, err
	}
	return i, nil
}

func (i *instance) describe(ctx context.Context, version string) error {
	raw, err := i.process.Dispense(sdk.PluginKey)
	if err != nil {
		return invalid("dispense: %v", err)
	}
	client, ok := raw.(pluginv1.PluginClient)
	if !ok {
		return invalid("dispense: it serves a %T", raw)
	}
	i.client = client
	ctx, cancel := context.WithTimeout(ctx, i.plugin.StartTimeout)
	defer cancel()
	resp, err := client.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: version, Protocol: protocolMinor}, limited())
	if err != nil {
		return callFailure("describe", err)
	}
	i.about, err = describe(resp)
	return err
}

func limited() grpc.CallOption { return grpc.MaxCallRecvMsgSize(maxAnswer) }

// config decodes the plugin's block of the configuration by its schema.
func (i *instance) config() (string, []Diagnostic) { return i.plugin.configText(i.about.config) }

// configText decodes the plugin's block of the configuration by a schema.
func (p *Plugin) configText(schema *pluginv1.Schema) (string, []Diagnostic) {
	if p.ConfigJSON == nil {
		return "{}", nil
	}
	text, diags := p.ConfigJSON(schema)
	if text == "" {
		text = "{}"
	}
	return text, diags
}

// configure has the plugin take up its configuration.
func (i *instance) configure(ctx context.Context) (warnings []Diagnostic, err error) {
	text, diags := i.config()
	if bad := errorsOf(diags); len(bad) > 0 {
		return nil, refused(bad)
	}
	ctx, cancel := context.WithTimeout(ctx, i.plugin.StartTimeout)
	defer cancel()
	resp, err := i.client.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: text}, limited())
	if err != nil {
		return nil, callFailure("configure", err)
	}
	diags = append(diags, i.plugin.diagnosticsOf(resp.Diagnostics)...)
	if bad := errorsOf(diags); len(bad) > 0 {
		return nil, refused(bad)
	}
	return diags, nil
}

const shownDiagnostics = 3 // in the text of a failure

// refused says that a configuration cannot be taken up.
func refused(bad []Diagnostic) *failure {
	var all []string
	for _, d := range bad[:min(len(bad), shownDiagnostics)] {
		all = append(all, d.String())
	}
	text := strings.Join(all, "; ")
	if more := len(bad) - len(all); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return unavailable("its configuration is refused: %s (correct the plugin's config block, which config validate checks, and have the server read it again with SIGHUP)", clean(text))
}

// open begins the conversation and waits until the plugin is ready.
func (i *instance) open(ctx context.Context, clusterID string) (stream, error) {
	st, err := i.client.Session(ctx, grpc.MaxCallRecvMsgSize(hardAnswer))
	if err != nil {
		return nil, callFailure("session", err)
	}
	err = st.Send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Hello{Hello: &pluginv1.Hello{
		ClusterId: clusterID, Protocol: protocolMinor, DeadlineNs: int64(i.plugin.Timeout), MaxMessageBytes: maxMessage,
	}}})
	if err != nil {
		return nil, callFailure("hello", err)
	}
	type first struct {
		m   *pluginv1.FromPlugin
		err error
	}
	got := make(chan first, 1)
	go func() { // ends with the stream, whose context the caller ends after an error
		m, err := st.Recv()
		got <- first{m, err}
	}()
	timer := time.NewTimer(i.plugin.StartTimeout)
	defer timer.Stop()
	select {
	case f := <-got:
		switch {
		case f.err != nil:
			return nil, callFailure("hello", f.err)
		case f.m.GetReady() == nil:
			return nil, invalid("hello: its first message does not say that it is ready")
		}
		return st, nil
	case <-timer.C:
		return nil, timedOut("hello: no answer within %s", i.plugin.StartTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// why returns what is behind an error of a call: that the process has ended, if it has.
func (i *instance) why(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	if i.exited(f) {
		return ended(*i.plugin, i.process.Exit())
	}
	return &failure{code: f.code, text: fmt.Sprintf("plugin %s (%s): %s", i.title(), i.plugin.Command.Path, f.text), err: f.err}
}

// title is the plugin's name with its version, if it has said that.
func (i *instance) title() string {
	if i.about == nil || i.about.version == "" {
		return i.plugin.Name
	}
	return i.plugin.Name + " " + i.about.version
}

// exited reports whether the process has ended, waiting a little where the failure looks like it.
func (i *instance) exited(f *failure) bool {
	if i.attachedTo() != "" {
		return false // its end is for those to see who started it
	}
	wait := time.Duration(0)
	if f.err != nil && f.code == cluster.CodePluginUnavailable {
		wait = exitWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-i.process.Done():
		return true
	case <-timer.C:
		return false
	}
}

// stop asks the process to end, and makes it.
func (i *instance) stop(ctx context.Context) error {
	return i.process.Stop(context.WithoutCancel(ctx), stopGrace, func(ctx context.Context) error {
		if _, err := i.client.Stop(ctx, &pluginv1.StopRequest{GraceNs: int64(stopGrace / 2)}); err != nil {
			return err
		}
		return i.process.Shutdown(ctx) // the plugin has ended what it did; its server need not wait for streams of go-plugin's own
	})
}

// kill ends the process without asking.
func (i *instance) kill(ctx context.Context) {
	_ = i.process.Stop(context.WithoutCancel(ctx), killGrace, nil)
}
