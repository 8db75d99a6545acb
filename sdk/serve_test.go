package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// TestMain lets the test's own binary be a plugin: with the argument "plugin" it serves one, as a plugin's main would.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "plugin" || os.Args[1] == "describe") {
		p := labelPlugin()
		p.Filter = &loggingFilter{}
		sdk.Serve(p)
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.(*GRPCBroker).Run"))
}

// loggingFilter says in the daemon's log when it is asked.
type loggingFilter struct {
	labelFilter
	log hclog.Logger
}

func (f *loggingFilter) SetLogger(log hclog.Logger) { f.log = log }

func (f *loggingFilter) Compile(ctx context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	f.log.Info("compile", "type", req.JobType)
	return f.labelFilter.Compile(ctx, req)
}

func TestServeIsAPluginOfGoPlugin(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp") // the socket's path must be short
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: sdk.Handshake(), Plugins: plugin.PluginSet{sdk.PluginKey: sdk.Client{}}, Cmd: exec.Command(os.Args[0], "plugin"),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(), AutoMTLS: true, SkipHostEnv: true,
	})
	defer client.Kill()
	protocol, err := client.Client()
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	raw, err := protocol.Dispense(sdk.PluginKey)
	if err != nil {
		t.Fatalf("dispense: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := raw.(pluginv1.PluginClient)
	d, err := c.Describe(ctx, &pluginv1.DescribeRequest{})
	if err != nil || d.Name != "label" || d.Job.Attributes[0].Name != "label" || len(d.Watches) != 1 {
		t.Errorf("describe: %v, %v", d, err)
	}
	stream, err := c.Session(ctx)
	if err != nil {
		t.Fatalf("session: %v", err)
	}
	for _, m := range []*pluginv1.FromCore{
		{Message: &pluginv1.FromCore_Hello{Hello: &pluginv1.Hello{}}},
		{Message: &pluginv1.FromCore_Classes{Classes: &pluginv1.Classes{Add: []*pluginv1.Class{
			{Id: 1, Revision: 1, Request: &pluginv1.CompileRequest{SettingsJson: `{"label":"disk"}`}},
		}}}},
		{Message: &pluginv1.FromCore_Nodes{Nodes: &pluginv1.Nodes{
			Revision: 1, Last: true, Strings: []string{"", "n1", "disk", "ssd"}, Upsert: []*pluginv1.Node{{Id: 1, LabelKeys: []uint32{2}, LabelValues: []uint32{3}}},
		}}},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatalf("send: %v", err)
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if v := m.GetVerdicts(); v != nil {
			if full := v.Classes[0].GetFull(); len(full.GetAllowed()) != 1 || full.Allowed[0] != 1 || full.Ranks[0] != 100 {
				t.Errorf("verdict %v, want node 0 allowed with rank 100", v)
			}
			break
		}
	}
	if _, err := c.Stop(ctx, &pluginv1.StopRequest{GraceNs: int64(time.Second)}); err != nil {
		t.Errorf("stop: %v", err)
	}
	for !client.Exited() {
		if ctx.Err() != nil {
			t.Fatal("the process did not end after Stop")
		}
		_, _ = stream.Recv()
	}
}

// start runs the plugin by hand with a lifeline and returns what it prints.
func start(t *testing.T, env ...string) (cmd *exec.Cmd, stdout, stderr *bufio.Reader, lifeline io.Closer) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0], "plugin")
	cmd.Env, cmd.ExtraFiles = append([]string{"TMPDIR=/tmp", sdk.LifelineEnv + "=3"}, env...), []*os.File{read}
	out, err1 := cmd.StdoutPipe()
	errs, err2 := cmd.StderrPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out), bufio.NewReader(errs), write
}

func TestPluginEndsWithItsLifeline(t *testing.T) {
	h := sdk.Handshake()
	cmd, stdout, stderr, lifeline := start(t, h.MagicCookieKey+"="+h.MagicCookieValue)
	line, err := stdout.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "1|1|unix|") || !strings.HasSuffix(line, "|grpc|\n") {
		t.Fatalf("handshake %q, %v", line, err)
	}
	logged, err := stderr.ReadString('\n')
	var entry map[string]any
	if err != nil || json.Unmarshal([]byte(logged), &entry) != nil || entry["@module"] != "label" {
		t.Errorf("first line of the log %q, %v: want JSON that names the plugin", logged, err)
	}
	if err := lifeline.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, want status 0", err)
	}
}

func TestPluginStartedByHand(t *testing.T) {
	_, stdout, stderr, _ := start(t)
	out, _ := io.ReadAll(stdout)
	errs, _ := io.ReadAll(stderr)
	if len(out) > 0 || !strings.Contains(string(errs), "This binary is a plugin") {
		t.Errorf("printed %q and %q, want only an explanation", out, errs)
	}
	text, err := exec.Command(os.Args[0], "describe").Output()
	var d struct {
		Name       string   `json:"name"`
		Interfaces []string `json:"interfaces"`
	}
	if err != nil || json.Unmarshal(text, &d) != nil || d.Name != "label" || len(d.Interfaces) != 1 || d.Interfaces[0] != sdk.InterfaceFilter {
		t.Errorf("describe printed %s, %v", text, err)
	}
}
