package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// The exit codes of task exec when there is none of the command's. They are those of shells and container engines, so that 0 to 4 are the command's own.
const (
	exitNoExec        = 125 // it did not run, or nobody saw how it ended
	exitNotExecutable = 126
	exitNoCommand     = 127
)

// execChunk is how much standard input is sent in one message, in bytes.
const execChunk = 32 << 10

func (a *app) taskExec() *cobra.Command {
	var stdin, tty bool
	var env []string
	begin := &apiv1.TaskExecBegin{}
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "exec [FLAGS] ID [--] COMMAND [ARG]...", Short: "Run a further command inside a task; JOB/SLOT is the slot's newest", Args: takes(2, -1),
		Long: `Runs a command where a task runs: on its node, with its environment, user, directory, limits and privileges. Its output comes back on the stream on which
it was written, and its exit code is that of this command: 128 and the signal's number, if a signal ended it. 125: it did not run, or nobody saw how it ended;
126: it is no program that can run; 127: there is no such command.

With -it there is a terminal: keys go to the command as they are typed, Ctrl-C too. Without one Ctrl-C ends this command, and with it the one in the task. That ends, with
all that it started, whenever this command, the server, the agent or the task does.`,
		Example: "  setpoint task exec web/1 -- cat /etc/hosts\n  setpoint task exec -it web/1 sh\n  setpoint task exec -i --user postgres db/1 -- psql <dump.sql",
		RunE: func(cmd *cobra.Command, args []string) error {
			begin.Task, begin.Command, begin.Stdin = args[0], args[1:], stdin
			if begin.Command[0] == "--" {
				if begin.Command = begin.Command[1:]; len(begin.Command) == 0 {
					return refuse("Usage: "+cmd.UseLine(), "%s: an argument is missing", cmd.CommandPath())
				}
			}
			var err error
			if begin.Env, err = parseEnv(env); err != nil {
				return err
			}
			if tty {
				if stdin && !console.IsTerminal(a.in) {
					return refuse("Leave out -t to send what is not typed.", "-t with -i takes a terminal, and standard input is none")
				}
				begin.Tty = a.windowSize()
				if term := a.env("TERM"); begin.Env["TERM"] == "" && term != "" {
					begin.Env["TERM"] = term // what is printed there is shown here
				}
			}
			return a.exec(cmd.Context(), begin)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the task is the command's
	flags.BoolVarP(&stdin, "interactive", "i", false, "pass on standard input")
	flags.BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	flags.StringVarP(&begin.User, "user", "u", "", "run it as this `user`, by name or number, with :GROUP if not the user's own (default: the task's)")
	flags.StringVarP(&begin.Dir, "workdir", "w", "", "run it in this `directory`, from the root (default: the task's)")
	flags.StringArrayVarP(&env, "env", "e", nil, "set a variable of its environment, `NAME=VALUE`; may be repeated")
	return cmd
}

func parseEnv(entries []string) (map[string]string, error) {
	out := make(map[string]string, len(entries))
	for _, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, refuse("Say NAME=VALUE.", "bad --env %q", entry)
		}
		out[name] = value
	}
	return out, nil
}

func (a *app) windowSize() *apiv1.WindowSize {
	rows, columns := console.Size(a.in, a.out, a.errOut)
	return &apiv1.WindowSize{Rows: uint32(rows), Columns: uint32(columns)}
}

// exec runs a command inside a task, and returns its exit code as an error that is shown already.
func (a *app) exec(ctx context.Context, begin *apiv1.TaskExecBegin) error {
	// A terminal that is closed is no reason to leave another one as it is.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	s, err := a.connect()
	if err != nil {
		return err
	}
	x := &execution{app: a, begin: begin, stream: s.TaskExec(ctx)}
	code, err := x.run(ctx)
	switch {
	case ctx.Err() != nil:
		return &failure{code: exitNoExec, text: "interrupted: the command in the task is ended"}
	case err != nil:
		return noExec(refusal(s.Addr(), err), err)
	case code != 0:
		return errShown(code)
	}
	return nil
}

// noExec gives an error the exit code by which it is told from the command's own.
func noExec(shown, err error) error {
	code := exitNoExec
	switch client.Detail(err).GetCode() {
	case "command_not_found":
		code = exitNoCommand
	case "not_executable":
		code = exitNotExecutable
	}
	var f *failure
	if errors.As(shown, &f) {
		f.code = code
		if client.Detail(err) == nil && !unreachable(err) && connect.CodeOf(err) != connect.CodePermissionDenied && connect.CodeOf(err) != connect.CodeUnauthenticated {
			f.text = "the connection to the server broke, and the command in the task is ended: " + f.text
		}
		return shown
	}
	return &failure{code: code, text: shown.Error()}
}

// execution is a command inside a task, while this one waits for it.
type execution struct {
	app    *app
	begin  *apiv1.TaskExecBegin
	stream *connect.BidiStreamForClient[apiv1.TaskExecRequest, apiv1.TaskExecResponse]

	sending sync.Mutex // held while a message is sent
}

func (x *execution) send(m *apiv1.TaskExecRequest) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	return x.stream.Send(m)
}

// run passes on what comes from either side until the command has ended. The terminal is then as it was.
func (x *execution) run(ctx context.Context) (code int, err error) {
	defer x.stream.CloseResponse() //nolint:errcheck // what it says, Receive says too
	defer x.stream.CloseRequest()  //nolint:errcheck // the same
	// A stream on which nothing goes up hears of its context's end only by this.
	defer context.AfterFunc(ctx, func() { _ = x.stream.CloseRequest() })()
	if err := x.send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_Begin{Begin: x.begin}}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err // after EOF, Receive tells why
	}
	for {
		m, err := x.stream.Receive()
		if err != nil {
			return 0, err
		}
		switch what := m.GetMessage().(type) {
		case *apiv1.TaskExecResponse_Started:
			restore, err := x.started(ctx)
			if err != nil {
				return 0, err
			}
			defer restore()
		case *apiv1.TaskExecResponse_Stdout:
			_, err = x.app.out.Write(what.Stdout)
		case *apiv1.TaskExecResponse_Stderr:
			_, err = x.app.errOut.Write(what.Stderr)
		case *apiv1.TaskExecResponse_End:
			return int(what.End.GetExitCode()), nil
		}
		if err != nil {
			return 0, fmt.Errorf("print its output: %w", err)
		}
	}
}

// started begins to pass on what is typed. The function takes back what was done to the terminal.
func (x *execution) started(ctx context.Context) (restore func(), err error) {
	restore = func() {}
	if x.begin.GetTty() != nil {
		if x.begin.GetStdin() {
			if restore, err = console.Raw(x.app.in); err != nil {
				return nil, fmt.Errorf("have the terminal pass on each key: %w", err)
			}
		}
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		context.AfterFunc(ctx, func() { signal.Stop(resized) })
		resized <- syscall.SIGWINCH // it may have changed meanwhile
		go x.follow(ctx, resized)   // ends with the context, which is this command's
	}
	if x.begin.GetStdin() {
		go x.feed() // ends with the input or, as nothing ends a read from a terminal, with this process
	}
	return restore, nil
}

// follow tells each new size of the terminal.
func (x *execution) follow(ctx context.Context, resized <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
		}
		if x.send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_Resize{Resize: x.app.windowSize()}}) != nil {
			return
		}
	}
}

// feed sends standard input to its end.
func (x *execution) feed() {
	buf := make([]byte, execChunk)
	for {
		n, err := x.app.in.Read(buf)
		if n > 0 && x.send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_Stdin{Stdin: buf[:n]}}) != nil {
			return // Receive tells why
		}
		if err != nil {
			_ = x.send(&apiv1.TaskExecRequest{Message: &apiv1.TaskExecRequest_StdinEnd{StdinEnd: true}}) // the same
			return
		}
	}
}
