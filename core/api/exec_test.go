package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// fakeExec is a command that writes back what comes in, and ends with it.
type fakeExec struct {
	ctx    context.Context
	out    chan *agentv1.ExecOutput
	gone   chan struct{} // closed by a test: the agent goes away
	closed chan struct{} // closed by Close
	once   sync.Once

	mu    sync.Mutex // guards sizes
	sizes []uint32
}

func (x *fakeExec) Receive() (*agentv1.ExecOutput, error) {
	select {
	case m := <-x.out:
		return m, nil
	case <-x.gone:
		return nil, errors.New("the session with the node's agent ended")
	case <-x.ctx.Done():
		return nil, x.ctx.Err()
	}
}

func (x *fakeExec) say(m *agentv1.ExecOutput) error {
	select {
	case x.out <- m:
		return nil
	case <-x.closed:
		return io.ErrClosedPipe
	}
}

func (x *fakeExec) Write(p []byte) error {
	return x.say(&agentv1.ExecOutput{Message: &agentv1.ExecOutput_Stdout{Stdout: bytes.Clone(p)}})
}

func (x *fakeExec) CloseWrite() {
	_ = x.say(&agentv1.ExecOutput{Message: &agentv1.ExecOutput_End{End: &agentv1.ExecEnd{ExitCode: 5}}})
}

func (x *fakeExec) Resize(rows, columns uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sizes = append(x.sizes, rows, columns)
}

func (x *fakeExec) Close() { x.once.Do(func() { close(x.closed) }) }

// fakeExecs opens commands.
type fakeExecs struct {
	node   cluster.NodeID
	begin  *agentv1.ExecBegin
	err    error
	opened chan *fakeExec
}

func (f *fakeExecs) open(ctx context.Context, node cluster.NodeID, begin *agentv1.ExecBegin) (api.Exec, error) {
	f.node, f.begin = node, begin
	if f.err != nil {
		return nil, f.err
	}
	x := &fakeExec{ctx: ctx, out: make(chan *agentv1.ExecOutput, 16), gone: make(chan struct{}), closed: make(chan struct{})}
	f.opened <- x
	return x, nil
}

type execStream = connect.BidiStreamForClient[apiv1.TaskExecRequest, apiv1.TaskExecResponse]

func begin(t *testing.T, c *client.Client, ctx context.Context, b *apiv1.TaskExecBegin) *execStream {
	t.Helper()
	stream := c.TaskExec(ctx)
	_ = stream.Send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_Begin{Begin: b}}) // what is wrong, Receive tells
	t.Cleanup(func() { _, _ = stream.CloseRequest(), stream.CloseResponse() })
	return stream
}

func TestExecInATask(t *testing.T) {
	var log bytes.Buffer
	f := &fakeExecs{opened: make(chan *fakeExec, 1)}
	s := serve(t, func(o *api.Options) {
		o.Exec = f.open
		o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	})
	s.engine.set(9, node("a", "n1"), job("web", 2), running("web/1/3", "a"), task("web/2/3"))
	c := s.as(pki.RoleOperator)
	stream := begin(t, c, t.Context(), &apiv1.TaskExecBegin{
		Task: "web/1", Command: []string{"cat", "-u", "--password=letmein"}, User: "www", Dir: "/srv", Env: map[string]string{"TOKEN": "hunter2"}, Stdin: true, Tty: &apiv1.WindowSize{Rows: 24, Columns: 80},
	})
	x := <-f.opened
	if b := f.begin; f.node != "a" || b.GetTask() != "web/1/3" || !slices.Equal(b.GetCommand(), []string{"cat", "-u", "--password=letmein"}) || b.GetUser() != "www" || b.GetDir() != "/srv" ||
		b.GetEnv()["TOKEN"] != "hunter2" || !b.GetStdin() || b.GetTty().GetRows() != 24 || b.GetTty().GetColumns() != 80 {
		t.Errorf("node %s was asked %v", f.node, f.begin)
	}
	_ = x.say(&agentv1.ExecOutput{Message: &agentv1.ExecOutput_Started{Started: &agentv1.ExecStarted{}}})
	m, err := stream.Receive()
	if err != nil || m.GetStarted().GetTask() != "web/1/3" || m.GetStarted().GetNode() != "n1" {
		t.Fatalf("received %v, %v", m, err)
	}
	for _, m := range []*apiv1.TaskExecRequest{
		{Message: &apiv1.TaskExecRequest_Resize{Resize: &apiv1.WindowSize{Rows: 40, Columns: 100}}},
		{Message: &apiv1.TaskExecRequest_Stdin{Stdin: []byte("a secret")}},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if m, err = stream.Receive(); err != nil || string(m.GetStdout()) != "a secret" {
		t.Fatalf("received %v, %v", m, err)
	}
	_ = x.say(&agentv1.ExecOutput{Message: &agentv1.ExecOutput_Stderr{Stderr: []byte("bad")}})
	if m, err = stream.Receive(); err != nil || string(m.GetStderr()) != "bad" {
		t.Fatalf("received %v, %v", m, err)
	}
	if err := stream.Send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_StdinEnd{StdinEnd: true}}); err != nil {
		t.Fatal(err)
	}
	if m, err = stream.Receive(); err != nil || m.GetEnd().GetExitCode() != 5 {
		t.Fatalf("received %v, %v", m, err)
	}
	if _, err = stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end came %v", err)
	}
	<-x.closed
	x.mu.Lock()
	if !slices.Equal(x.sizes, []uint32{40, 100}) {
		t.Errorf("sizes are %v", x.sizes)
	}
	x.mu.Unlock()
	text := log.String()
	for _, want := range []string{`"caller":"someone"`, `"task":"web/1/3"`, `"program":"cat"`, `"arguments":2`, `"user":"www"`, `"env":["TOKEN"]`, `"exit_code":5`, "TaskExec"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
	for _, secret := range []string{"hunter2", "a secret", "letmein"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log has %q: %s", secret, text)
		}
	}
}

func TestExecIsRefused(t *testing.T) {
	f := &fakeExecs{opened: make(chan *fakeExec, 1)}
	s := serve(t, func(o *api.Options) { o.Exec = f.open })
	s.engine.set(9, node("a", "n1"), job("web", 2), running("web/1/3", "a"), task("web/2/3"))
	cat := []string{"cat"}
	for _, test := range []struct {
		name  string
		role  pki.Role
		begin *apiv1.TaskExecBegin
		code  connect.Code
		says  string
	}{
		{"role", pki.RoleReader, &apiv1.TaskExecBegin{Task: "web/1", Command: cat}, connect.CodePermissionDenied, "operator"},
		{"no task", pki.RoleOperator, &apiv1.TaskExecBegin{Task: "web/7", Command: cat}, connect.CodeNotFound, "web/7"},
		{"not running", pki.RoleOperator, &apiv1.TaskExecBegin{Task: "web/2", Command: cat}, connect.CodeFailedPrecondition, "does not run"},
		{"nothing", pki.RoleOperator, nil, connect.CodeInvalidArgument, "there is no command"},
		{"all mistakes", pki.RoleOperator, &apiv1.TaskExecBegin{Task: "web/1", Dir: "x", Env: map[string]string{"A=": ""}}, connect.CodeInvalidArgument, "and 2 more"},
		{"too long", pki.RoleOperator, &apiv1.TaskExecBegin{Task: "web/1", Command: []string{strings.Repeat("x", 1<<19)}}, connect.CodeInvalidArgument, "standard input"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := begin(t, s.as(test.role), t.Context(), test.begin).Receive()
			text := ""
			if err != nil {
				text = err.Error()
				for _, p := range client.Detail(err).GetProblems() {
					text += p.GetDetail()
				}
			}
			if connect.CodeOf(err) != test.code || !strings.Contains(text, test.says) {
				t.Errorf("refused with %v, want %s and %q", err, test.code, test.says)
			}
		})
	}
	f.err = errors.New("the node's agent is not connected")
	_, err := begin(t, s.as(pki.RoleOperator), t.Context(), &apiv1.TaskExecBegin{Task: "web/1", Command: cat}).Receive()
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(client.Detail(err).GetHint(), "node n1") {
		t.Errorf("without an agent: %v", err)
	}
	f.err = nil
	stream := begin(t, s.as(pki.RoleOperator), t.Context(), &apiv1.TaskExecBegin{Task: "web/1", Command: cat})
	x := <-f.opened
	_ = x.say(&agentv1.ExecOutput{Message: &agentv1.ExecOutput_End{End: &agentv1.ExecEnd{Err: "no such command: cat", Code: "command_not_found"}}})
	if _, err = stream.Receive(); client.Detail(err).GetCode() != "command_not_found" || !strings.Contains(err.Error(), "no such command: cat") {
		t.Errorf("a command that is not there: %v", err)
	}
	stream = begin(t, s.as(pki.RoleOperator), t.Context(), &apiv1.TaskExecBegin{Task: "web/1", Command: cat})
	close((<-f.opened).gone)
	if _, err = stream.Receive(); client.Detail(err).GetCode() != "unavailable" || !strings.Contains(err.Error(), "session") {
		t.Errorf("an agent that goes away: %v", err)
	}
}

// The command ends with its client.
func TestExecEndsWithTheClient(t *testing.T) {
	f := &fakeExecs{opened: make(chan *fakeExec, 1)}
	s := serve(t, func(o *api.Options) { o.Exec = f.open })
	s.engine.set(9, node("a", "n1"), job("web", 2), running("web/1/3", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	begin(t, s.as(pki.RoleOperator), ctx, &apiv1.TaskExecBegin{Task: "web/1", Command: []string{"cat"}})
	x := <-f.opened
	cancel()
	select {
	case <-x.closed:
	case <-time.After(30 * time.Second):
		t.Error("the command goes on")
	}
}

func TestOneTaskIsStopped(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, node("a", "n1"), job("web", 2), running("web/1/3", "a"))
	var asked engine.Op
	s.engine.answer(func(op engine.Op) (any, error) {
		asked = op
		return engine.TaskResult{Task: running("web/1/3", "a"), Changed: true}, nil
	})
	res, err := s.as(pki.RoleOperator).StopTask(t.Context(), connect.NewRequest(&apiv1.StopTaskRequest{Task: "web/1"}))
	if want := (engine.StopTask{Task: "web/1/3", Grace: -1}); err != nil || asked != want || !res.Msg.GetChanged() || res.Msg.GetTask().GetId() != "web/1/3" {
		t.Errorf("asked %+v, answered %v, %v", asked, res, err)
	}
	if _, err = s.as(pki.RoleReader).StopTask(t.Context(), connect.NewRequest(&apiv1.StopTaskRequest{Task: "web/1"})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a reader: %v", err)
	}
}
