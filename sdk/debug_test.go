package sdk_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func TestDebugServerOutlivesItsHosts(t *testing.T) {
	server, err := sdk.NewServer(labelPlugin(), hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := sdk.ListenDebug(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, server) }()
	a := d.Attachment()
	if info, err := os.Stat(filepath.Dir(a.Socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory has mode %v, %v, want 0700", info.Mode(), err)
	}
	for range 2 {
		h := sdktest.Open(t, dialSocket(t, a.Socket), sdktest.Options{})
		h.SetNodes(sdktest.Node("a", "disk"), sdktest.Node("b"))
		if got := h.AddClass(settings("disk", "")).Answer().Allowed(); len(got) != 1 || got[0] != "a" {
			t.Errorf("allowed: %v, want a", got)
		}
		h.Stop(0)
		h.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("served: %v", err)
	}
	if _, err := os.Stat(a.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func dialSocket(t *testing.T, path string) pluginv1.PluginClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pluginv1.NewPluginClient(conn)
}

func TestReattachLine(t *testing.T) {
	want := sdk.Attachment{Socket: "/tmp/x/plugin.sock", PID: 12, Protocol: 1}
	line := want.Reattach("gpu")
	value, ok := strings.CutPrefix(line, sdk.ReattachEnv+"='")
	if !ok || !strings.HasSuffix(value, "'") {
		t.Fatalf("the line %q is no assignment", line)
	}
	got, err := sdk.ParseReattach(strings.TrimSuffix(value, "'"))
	if err != nil || got["gpu"] != want {
		t.Errorf("read back: %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "{", `{"gpu":{}}`, `{"gpu":{"socket":"here"}}`} {
		if _, err := sdk.ParseReattach(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
