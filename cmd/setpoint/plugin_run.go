package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/core/pluginhost"
	"github.com/setpointd/setpoint/sdk"
)

const (
	attachWait = 30 * time.Second       // for the server to say whether it uses the plugin
	detachWait = 10 * time.Second       // for it to use its own again
	endWait    = 5 * time.Second        // for the program to end, once it was interrupted
	lookPeriod = 100 * time.Millisecond // between looks for a reply
)

func (a *app) pluginRun() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "run --attach NAME [-- PATH ARGS...]", Short: "Have the server use a plugin that runs in this terminal", Args: takes(0, -1),
		Example: "  setpoint plugin run --attach gpu -- ./bin/gpu",
		Long: `Runs a plugin's program in this terminal, and has the server whose data directory is named use it in the place of its own process of the plugin NAME,
until the program ends or is interrupted. The server never ends the program, and gives it an hour for each answer, so it can stand in a debugger:

  setpoint plugin run --attach gpu -- ./gpu
  setpoint plugin run --attach gpu -- dlv exec ./gpu

Without a program it attaches to one that runs already and was started with --debug, whose line SETPOINT_REATTACH_PLUGINS=… is in the environment.

Who may write to the server's data directory may do this: root, or the user who runs the server. What depends on the plugin waits while it does not answer.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				return refuse("Usage: "+cmd.UseLine(), "no plugin is named: --attach says in whose place the program runs")
			}
			if len(args) == 0 {
				return a.attachRunning(cmd.Context(), name)
			}
			return a.runAttached(cmd.Context(), name, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&name, "attach", "", "the `NAME` of a plugin in the server's configuration")
	return cmd
}

// attachRunning has the server use a plugin that says in the environment where it is.
func (a *app) attachRunning(ctx context.Context, name string) error {
	text := a.env(sdk.ReattachEnv)
	if text == "" {
		return refuse("Name a program after --, or start one with --debug and set the variable that it prints.", "there is nothing to attach: %s is not set", sdk.ReattachEnv)
	}
	at, err := oneAttachment(text, name)
	if err != nil {
		return err
	}
	held, err := a.attach(ctx, name, at)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return held.release(a.out)
}

// oneAttachment reads the value of the variable that a waiting plugin prints, and chooses what it says of that plugin, or of the only one.
func oneAttachment(text, name string) (sdk.Attachment, error) {
	all, err := sdk.ParseReattach(text)
	if err != nil {
		return sdk.Attachment{}, refuse("Set the variable to what the plugin prints.", "%v", err)
	}
	if at, ok := all[name]; ok {
		return at, nil
	}
	if len(all) != 1 {
		return sdk.Attachment{}, refuse("", "%s says nothing of %s: %s", sdk.ReattachEnv, name, text)
	}
	for _, at := range all {
		return at, nil
	}
	return sdk.Attachment{}, nil
}

// runAttached runs a program in this terminal and has the server use it.
func (a *app) runAttached(ctx context.Context, name string, argv []string) (err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), sdk.DebugEnv+"=1")
	cmd.Stdin, cmd.Stderr = a.in, a.errOut
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	if err := cmd.Start(); err != nil {
		return refuse("Give the path of the plugin's executable.", "run %s: %v", argv[0], err)
	}
	program := &inTerminal{cmd: cmd, said: make(chan string, 1), ended: make(chan struct{})}
	program.watching.Go(func() { program.follow(stdout, a.out) })
	defer func() { err = errors.Join(err, program.end()) }()
	var text string
	select {
	case text = <-program.said:
	case <-program.ended:
		return &failure{
			code: exitError, text: fmt.Sprintf("%s ended without saying how to attach to it: %s", argv[0], cmd.ProcessState),
			hint: "A plugin made with the SDK does when " + sdk.DebugEnv + "=1 is in its environment.",
		}
	case <-ctx.Done():
		return nil
	}
	at, err := oneAttachment(text, name)
	if err != nil {
		return err
	}
	held, err := a.attach(ctx, name, at)
	if err != nil {
		return err
	}
	select {
	case <-program.ended:
		fmt.Fprintf(a.out, "%s ended: %s\n", argv[0], cmd.ProcessState)
	case <-ctx.Done():
	}
	return held.release(a.out)
}

// inTerminal is a plugin's program that shares this terminal, from which it gets the same signals.
type inTerminal struct {
	cmd      *exec.Cmd
	said     chan string // how to attach to it
	ended    chan struct{}
	watching sync.WaitGroup
}

// follow passes on what the program writes, but for how to attach to it, and waits for its end.
func (p *inTerminal) follow(from io.Reader, to io.Writer) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		value, ok := strings.CutPrefix(strings.TrimSpace(line), sdk.ReattachEnv+"='")
		if ok && len(p.said) == 0 {
			p.said <- strings.TrimSuffix(value, "'")
		} else if line != "" {
			_, _ = io.WriteString(to, line)
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait() // how it ended is in its state
	close(p.ended)
}

// end interrupts the program, and kills it if that is not enough.
func (p *inTerminal) end() error {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.ended:
			p.watching.Wait()
			return nil
		default:
		}
		_ = p.cmd.Process.Signal(sig)
		timer := time.NewTimer(endWait)
		select {
		case <-p.ended:
		case <-timer.C:
		}
		timer.Stop()
	}
	select {
	case <-p.ended:
		return nil
	default:
		return fmt.Errorf("the program with pid %d does not end", p.cmd.Process.Pid)
	}
}

// attachment is a file that asks the server to use a plugin.
type attachment struct{ path, reply, name string }

// attach asks the server whose data directory is named to use a plugin, and waits for its reply or for ctx to end. What it returns must be released either way.
func (a *app) attach(ctx context.Context, name string, at sdk.Attachment) (*attachment, error) {
	dir, err := a.dir()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir.Attachments()); err != nil {
		return nil, &failure{
			code: exitError, text: fmt.Sprintf("no server takes plugins from terminals in %s: %v", dir, err),
			hint: "--data-dir or SETPOINT_DATA_DIR names the folder that `setpoint dev` or `setpoint server` uses, and this user must be able to enter it.",
		}
	}
	h := &attachment{path: pluginhost.AttachPath(dir.Attachments(), name), reply: pluginhost.ReplyPath(dir.Attachments(), name), name: name}
	if other := attachedNow(h.path); other != 0 {
		return nil, refuse("End it first.", "the process %d is attached as plugin %s already", other, name)
	}
	_ = os.Remove(h.reply) // of one that was attached before
	if err := pluginhost.WriteAttachment(h.path, at); err != nil {
		return nil, err
	}
	reply, err := h.await(ctx, at.Socket)
	if ctx.Err() != nil {
		return h, nil
	}
	if err == nil && reply.Error != "" {
		err = &failure{code: exitError, text: reply.Error}
	}
	if err != nil {
		_ = os.Remove(h.path)
		return nil, err
	}
	fmt.Fprintf(a.errOut, "The server uses the process %d as plugin %s. Ctrl-C has it use its own again.\n", at.PID, name)
	return h, nil
}

// attachedNow returns the process that a file names, if that still listens; 0 if not.
func attachedNow(path string) int {
	var at sdk.Attachment
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &at) != nil {
		return 0
	}
	conn, err := net.DialTimeout("unix", at.Socket, time.Second)
	if err != nil {
		return 0
	}
	_ = conn.Close()
	return at.PID
}

// await waits for what the server says of a socket.
func (h *attachment) await(ctx context.Context, socket string) (pluginhost.AttachReply, error) {
	ctx, cancel := context.WithTimeout(ctx, attachWait)
	defer cancel()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		var reply pluginhost.AttachReply
		text, err := os.ReadFile(h.reply)
		if err == nil && json.Unmarshal(text, &reply) == nil && (reply.Socket == socket || reply.Socket == "") {
			return reply, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return reply, &failure{
					code: exitError, text: fmt.Sprintf("the server did not say within %s whether it uses the plugin %s", attachWait, h.name),
					hint: "`setpoint status` shows whether it runs, and `setpoint plugin ls` whether it has a plugin of that name.",
				}
			}
			return reply, ctx.Err()
		}
	}
}

// release has the server use its own process again, and waits until it does.
func (h *attachment) release(w io.Writer) error {
	if err := os.Remove(h.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("detach plugin %s: %w", h.name, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // once more is enough
	defer stop()
	timer := time.NewTimer(detachWait)
	defer timer.Stop()
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		if _, err := os.Stat(h.reply); errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(w, "The server uses its own process of plugin %s again.\n", h.name)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errShown(exitError)
		case <-timer.C:
			return &failure{code: exitError, text: fmt.Sprintf("the server has not said within %s that it uses its own process of plugin %s again", detachWait, h.name)}
		}
	}
}
