package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/setpointd/setpoint/sdk"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Program is a plugin in a process of its own, in any language. It is a Target. It ends with the process that started it.
type Program struct {
	Path string
	Args []string
	// Env is added to what the test's process has.
	Env []string
	// Stderr takes what the plugin logs. Nil: it is dropped.
	Stderr io.Writer
}

// Start starts the program and waits for its handshake, 20 s at most.
func (p Program) Start(context.Context) (Running, error) {
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = append(cmd.Env, p.Env...)
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the lifeline of %s: %w", p.Path, err)
	}
	defer theirs.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append(cmd.Env, sdk.LifelineEnv+"="+strconv.Itoa(3))
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: sdk.Handshake(), Plugins: plugin.PluginSet{sdk.PluginKey: sdk.Client{}}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: true, StartTimeout: patience, Stderr: p.Stderr,
		Logger: hclog.NewNullLogger(), GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(sdk.MaxReceiveBytes))},
	})
	run := &programRun{process: client, lifeline: ours, ended: make(chan struct{}), over: make(chan struct{})}
	if run.client, err = dispense(client); err != nil {
		client.Kill()
		_ = ours.Close()
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	run.watching.Go(run.watch)
	return run, nil
}

func dispense(client *plugin.Client) (pluginv1.PluginClient, error) {
	rpc, err := client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := rpc.Dispense(sdk.PluginKey)
	if err != nil {
		return nil, err
	}
	c, ok := raw.(pluginv1.PluginClient)
	if !ok {
		return nil, errors.New("it serves something else than a plugin")
	}
	return c, nil
}

// programRun is a process of a Program.
type programRun struct {
	process  *plugin.Client
	client   pluginv1.PluginClient
	lifeline *os.File
	ended    chan struct{}
	over     chan struct{} // closed by Kill
	once     sync.Once
	watching sync.WaitGroup
}

func (r *programRun) Client() pluginv1.PluginClient { return r.client }
func (r *programRun) Ended() <-chan struct{}        { return r.ended }

// watch closes ended when the process is seen to have ended; go-plugin does not tell by itself.
func (r *programRun) watch() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !r.process.Exited() {
		select {
		case <-tick.C:
		case <-r.over:
			return
		}
	}
	close(r.ended)
}

// Kill ends the process.
func (r *programRun) Kill() {
	r.once.Do(func() {
		close(r.over)
		r.process.Kill()
		_ = r.lifeline.Close()
		r.watching.Wait()
	})
}
