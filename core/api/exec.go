package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/core/engine"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/proto/setpoint/api/v1/apiv1connect"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// maxExecBytes is how long a command with its arguments and environment may be.
const maxExecBytes = 256 << 10

// Exec is a command that runs inside a task. One goroutine receives, and one uses the rest; Close may be called by either.
type Exec interface {
	// Receive waits for what comes of the command. The error is io.EOF after its end.
	Receive() (*agentv1.ExecOutput, error)
	// Write sends standard input, and waits until there is room for it.
	Write(p []byte) error
	// CloseWrite says that no more input follows.
	CloseWrite()
	// Resize says how large the terminal is now.
	Resize(rows, columns uint32)
	// Close ends the command, unless it has ended.
	Close()
}

// execError is why a command inside a task did not run, or nobody saw how it ended.
type execError struct {
	code    string // of the error's detail
	message string
	hint    string
}

// Error returns the message.
func (e *execError) Error() string { return e.message }

// TaskExec runs a further command inside a task.
func (v *service) TaskExec(ctx context.Context, stream *connect.BidiStream[apiv1.TaskExecRequest, apiv1.TaskExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("receive what to run: %w", err))
	}
	begin := first.GetBegin()
	if problems := checkExec(begin); len(problems) > 0 {
		return invalid("the request", problems...)
	}
	state := v.view()
	t, err := find(state, begin.GetTask())
	if err != nil {
		return err
	}
	if t.Observed.State != cluster.Running {
		return &engine.OpError{
			Kind: engine.Refused, Message: fmt.Sprintf("task %s does not run", t.ID), Hint: fmt.Sprintf("task inspect %s says what it does", t.ID),
		}
	}
	node := nodeName(state, t.Placement.Node)
	log := v.opts.Log.With("caller", author(ctx), "procedure", apiv1connect.ApiServiceTaskExecProcedure, "task", t.ID)
	x, err := v.opts.Exec(ctx, t.Placement.Node, askOf(t.ID, begin))
	if err != nil {
		return &execError{code: string(engine.Refused), message: err.Error(), hint: fmt.Sprintf("the task is on node %s; see whether it is ready", node)}
	}
	defer x.Close()
	log.Info("command inside a task begins", "node", node, "program", begin.GetCommand()[0], "arguments", len(begin.GetCommand())-1, "user", begin.GetUser(), "dir", begin.GetDir(),
		"env", slices.Sorted(maps.Keys(begin.GetEnv())), "tty", begin.GetTty() != nil)
	go hearExec(stream, x) // ends when this function has returned, since only that ends a read that waits
	code, err := tellExec(stream, x, &apiv1.TaskExecStarted{Task: string(t.ID), Node: node})
	if err != nil { // its text may have a value of the environment
		log.Info("command inside a task ended", "error_code", refusalOf(err).word)
		return err
	}
	log.Info("command inside a task ended", "exit_code", code)
	return nil
}

// checkExec returns what is wrong with a request, all of it.
func checkExec(begin *apiv1.TaskExecBegin) []cluster.Problem {
	if begin == nil {
		return []cluster.Problem{{Summary: "the first message does not say what to run"}}
	}
	var out []cluster.Problem
	if len(begin.GetCommand()) == 0 || begin.GetCommand()[0] == "" {
		out = append(out, cluster.Problem{Path: "command", Summary: "there is no command"})
	}
	if dir := begin.GetDir(); dir != "" && !path.IsAbs(dir) {
		out = append(out, cluster.Problem{Path: "dir", Summary: fmt.Sprintf("the working directory %q does not begin with a slash", dir)})
	}
	size := 0
	for _, arg := range begin.GetCommand() {
		size += len(arg)
	}
	for _, name := range slices.Sorted(maps.Keys(begin.GetEnv())) {
		if size += len(name) + len(begin.GetEnv()[name]); name == "" || strings.Contains(name, "=") {
			out = append(out, cluster.Problem{Path: "env", Summary: fmt.Sprintf("no environment variable can be called %q", name)})
		}
	}
	if size > maxExecBytes {
		out = append(out, cluster.Problem{
			Path: "command", Summary: fmt.Sprintf("the command and its environment have %d bytes, more than %d", size, maxExecBytes), Detail: "send what is long as standard input",
		})
	}
	return out
}

func askOf(task cluster.TaskID, begin *apiv1.TaskExecBegin) *agentv1.ExecBegin {
	out := &agentv1.ExecBegin{
		Task: string(task), Command: begin.GetCommand(), User: begin.GetUser(), Dir: begin.GetDir(), Env: begin.GetEnv(), Stdin: begin.GetStdin(),
	}
	if size := begin.GetTty(); size != nil {
		out.Tty = &agentv1.ExecWindow{Rows: size.GetRows(), Columns: size.GetColumns()}
	}
	return out
}

// hearExec passes on what the client says, until it says no more.
func hearExec(stream *connect.BidiStream[apiv1.TaskExecRequest, apiv1.TaskExecResponse], x Exec) {
	for {
		m, err := stream.Receive()
		if err != nil {
			// Where the client is gone, the context ends as well.
			x.CloseWrite()
			return
		}
		switch what := m.GetMessage().(type) {
		case *apiv1.TaskExecRequest_Stdin:
			if x.Write(what.Stdin) != nil {
				return // it has ended
			}
		case *apiv1.TaskExecRequest_StdinEnd:
			x.CloseWrite()
		case *apiv1.TaskExecRequest_Resize:
			x.Resize(what.Resize.GetRows(), what.Resize.GetColumns())
		}
	}
}

// tellExec passes on what comes of the command, to its end, and returns its exit code.
func tellExec(stream *connect.BidiStream[apiv1.TaskExecRequest, apiv1.TaskExecResponse], x Exec, started *apiv1.TaskExecStarted) (int32, error) {
	for {
		m, err := x.Receive()
		if err != nil {
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return 0, err
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, &execError{code: "unavailable", message: err.Error(), hint: "the command was ended; see whether the node is ready"}
		}
		out := &apiv1.TaskExecResponse{}
		switch what := m.GetMessage().(type) {
		case *agentv1.ExecOutput_Started:
			out.Message = &apiv1.TaskExecResponse_Started{Started: started}
		case *agentv1.ExecOutput_Stdout:
			out.Message = &apiv1.TaskExecResponse_Stdout{Stdout: what.Stdout}
		case *agentv1.ExecOutput_Stderr:
			out.Message = &apiv1.TaskExecResponse_Stderr{Stderr: what.Stderr}
		case *agentv1.ExecOutput_End:
			if what.End.GetErr() != "" {
				return 0, refusedExec(what.End)
			}
			out.Message = &apiv1.TaskExecResponse_End{End: &apiv1.TaskExecEnd{ExitCode: what.End.GetExitCode()}}
		default:
			continue
		}
		if err := stream.Send(out); err != nil {
			return 0, err
		}
		if end := out.GetEnd(); end != nil {
			return end.GetExitCode(), nil
		}
	}
}

// refusedExec is what an agent says instead of an exit code. Of the driver's codes those are passed on by which programs decide.
func refusedExec(end *agentv1.ExecEnd) error {
	code := string(engine.Refused)
	switch end.GetCode() {
	case "command_not_found", "not_executable":
		code = end.GetCode()
	}
	return &execError{code: code, message: end.GetErr()}
}
