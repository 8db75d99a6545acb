package sdk_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// brittleFilter panics, or waits, when it is configured as its configuration says.
type brittleFilter struct{}

type brittleConfig struct {
	Mode string `setpoint:"mode"`
}

func (brittleFilter) Compile(context.Context, sdk.CompileRequest) (sdk.Matcher, error) {
	return nil, nil
}

func (brittleFilter) Configure(ctx context.Context, req sdk.ConfigureRequest) error {
	var c brittleConfig
	if err := req.Config.Decode(&c); err != nil {
		return err
	}
	switch c.Mode {
	case "panic":
		panic("no glass")
	case "wait":
		<-ctx.Done()
	}
	return nil
}

func connect(t *testing.T, p sdk.Plugin) pluginv1.PluginClient {
	t.Helper()
	server, err := sdk.NewServer(p, hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pipe := bufconn.Listen(1 << 16)
	g := grpc.NewServer()
	pluginv1.RegisterPluginServer(g, server)
	go func() { _ = g.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
	})
	return sdk.NewClient(conn)
}

func TestSentinelsSurviveTheWire(t *testing.T) {
	configure := func(mode string) func(context.Context, pluginv1.PluginClient) error {
		return func(ctx context.Context, c pluginv1.PluginClient) error {
			_, err := c.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: `{"mode":"` + mode + `"}`})
			return err
		}
	}
	for _, test := range []struct {
		name string
		call func(context.Context, pluginv1.PluginClient) error
		want error
		code codes.Code
		text string
	}{
		{name: "none", call: configure("fine")},
		{name: "panic", call: configure("panic"), want: sdk.ErrPanic, code: codes.Internal, text: "configure: panic: no glass (errors_test.go:39)"},
		{name: "deadline", call: func(ctx context.Context, c pluginv1.PluginClient) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			return configure("wait")(ctx, c)
		}, want: context.DeadlineExceeded, code: codes.DeadlineExceeded, text: "context deadline exceeded"},
		{name: "cancelled", call: func(ctx context.Context, c pluginv1.PluginClient) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return configure("wait")(ctx, c)
		}, want: context.Canceled, code: codes.Canceled, text: "context canceled"},
		{name: "protocol, of a call", call: func(ctx context.Context, c pluginv1.PluginClient) error {
			_, err := c.Validate(ctx, &pluginv1.ValidateRequest{})
			return err
		}, want: sdk.ErrProtocol, code: codes.InvalidArgument, text: "protocol violated: nothing to validate"},
		{name: "protocol, of a session", call: func(ctx context.Context, c pluginv1.PluginClient) error {
			s, err := c.Session(ctx)
			if err == nil {
				err = s.Send(&pluginv1.FromCore{Message: &pluginv1.FromCore_Cancel{Cancel: &pluginv1.Cancel{}}})
			}
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}, want: sdk.ErrProtocol, code: codes.InvalidArgument, text: "protocol violated: the first message is not hello"},
		{name: "stopping", call: func(ctx context.Context, c pluginv1.PluginClient) error {
			if _, err := c.Stop(ctx, &pluginv1.StopRequest{}); err != nil {
				return err
			}
			s, err := c.Session(ctx)
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}, want: sdk.ErrStopping, code: codes.Unavailable, text: "the plugin is stopping"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := sdk.Plugin{Name: "brittle", Version: "1.0.0", Filter: brittleFilter{}, Config: sdk.SchemaOf[brittleConfig]()}
			err := test.call(t.Context(), connect(t, p))
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v in it", err, test.want)
			}
			for _, other := range []error{sdk.ErrStopping, sdk.ErrProtocol, sdk.ErrPanic} {
				if other != test.want && errors.Is(err, other) {
					t.Errorf("%v is also taken for %v", err, other)
				}
			}
			// A deadline may be noticed by either side first, each with words of its own.
			if st, ok := status.FromError(err); !ok || st.Code() != test.code || st.Message() != test.text && test.code != codes.DeadlineExceeded {
				t.Errorf("the status is %v, want %s: %s", st, test.code, test.text)
			}
		})
	}
}
