package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/metrics"
	"github.com/setpointd/setpoint/core/notify"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// newNotifier returns what tells people of what waits for too long. Without sinks it only has forgotten what earlier ones told.
func (s *Server) newNotifier() *notify.Notifier {
	opts := notify.Options{
		Engine: s.engine, Clock: s.clock, Server: s.opts.Config.Name, Log: s.opts.Log.Named("notify"), Seed: uint64(time.Now().UnixNano()),
	}
	if s.pages != nil {
		opts.Link = "https://" + dashboardAddress(s.opts.Config, s.pages.Addr().String())
	}
	for i := range s.opts.Config.Notify {
		opts.Sinks = append(opts.Sinks, sinkOf(&s.opts.Config.Notify[i]))
	}
	return notify.New(opts)
}

// sinkOf returns a sink as its block says.
func sinkOf(n *config.Notify) notify.Sink {
	out := notify.Sink{Name: n.Name, Rules: notify.Rules{After: n.After, Only: n.Codes, Jobs: n.Jobs, Codes: map[cluster.Code]notify.CodeRule{}}}
	for code, c := range n.Code {
		out.Rules.Codes[cluster.Code(code)] = notify.CodeRule{After: c.After, Ignore: c.Ignore}
	}
	call := notify.HTTP{Timeout: n.Timeout, CA: n.TLS.CA, Cert: n.TLS.Cert, Key: n.TLS.Key, Bearer: n.BearerFile}
	switch n.Kind {
	case config.NotifyAlertmanager:
		out.Alertmanager = &notify.Alertmanager{URLs: n.URLs, Labels: n.Labels, Resend: n.Resend, HTTP: call}
	case config.NotifyWebhook:
		out.Webhook = &notify.Webhook{URL: n.URL, URLFile: n.URLFile, Secret: n.SecretFile, HTTP: call}
	default:
		out.Exec = &notify.Exec{Command: n.Command, Env: n.Env, Timeout: n.Timeout}
	}
	return out
}

// sinks lets the API look at the notifier.
type sinks struct{ *notify.Notifier }

// Sinks returns how all sinks are.
func (s sinks) Sinks() []*apiv1.Sink {
	var out []*apiv1.Sink
	for _, x := range s.Statuses() {
		out = append(out, &apiv1.Sink{
			Name: x.Name, Kind: x.Kind, Target: x.Target, State: string(x.State), Open: int64(x.Open), Waiting: int64(x.Waiting), Omitted: int64(x.Omitted),
			Delivered: int64(x.Delivered), Failed: int64(x.Failed), Last: stamp(x.Last), Failure: x.Failure, FailingSince: stamp(x.Since), Next: stamp(x.Next),
		})
	}
	return out
}

// Test has sinks tell that nothing is wrong.
func (s sinks) Test(ctx context.Context, names []string) ([]*apiv1.SinkTest, *api.UnknownSink) {
	results, err := s.Try(ctx, names)
	if unknown, ok := errors.AsType[*notify.UnknownSinkError](err); ok {
		return nil, &api.UnknownSink{Name: unknown.Name}
	}
	var out []*apiv1.SinkTest
	for _, r := range results {
		t := &apiv1.SinkTest{Sink: r.Sink}
		if r.Err != nil {
			t.Failure = r.Err.Error()
		}
		out = append(out, t)
	}
	return out, nil
}

// measuredSinks returns sinks as metrics have them.
func measuredSinks(all []notify.SinkStatus) []metrics.Sink {
	var out []metrics.Sink
	for i := range all {
		x := &all[i]
		out = append(out, metrics.Sink{
			Name: x.Name, Open: x.Open, Waiting: x.Waiting, Omitted: x.Omitted, Delivered: x.Delivered, Failed: x.Failed, Failing: x.State == notify.Failing,
		})
	}
	return out
}
