package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// hangingExec has a command start that says and takes nothing.
type hangingExec struct {
	*fakeServer
	ended chan struct{}
}

// TaskExec lasts as long as its client.
func (f *hangingExec) TaskExec(ctx context.Context, stream *connect.BidiStream[apiv1.TaskExecRequest, apiv1.TaskExecResponse]) error {
	if _, err := stream.Receive(); err != nil {
		return err
	}
	err := stream.Send(&apiv1.TaskExecResponse{Message: &apiv1.TaskExecResponse_Stdout{Stdout: []byte("begun")}})
	<-ctx.Done()
	close(f.ended)
	return err
}

// shownOnce has a value once something was written to it.
type shownOnce chan struct{}

func (s shownOnce) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

// A command that neither writes nor reads is interrupted all the same.
func TestExecIsInterrupted(t *testing.T) {
	f := &hangingExec{ended: make(chan struct{})}
	f.fakeServer = newFakeWith(t, f)
	ctx, interrupt := context.WithCancel(t.Context())
	var errOut bytes.Buffer
	shown := make(shownOnce, 1)
	a := &app{in: strings.NewReader(""), out: shown, errOut: &errOut, env: func(string) string { return "" }}
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, []string{"--data-dir", string(f.dir), "task", "exec", "web/1", "sleep", "1000"})
	}()
	<-shown
	interrupt()
	for _, c := range []struct {
		what string
		of   func() bool
	}{
		{"the call goes on", func() bool {
			select {
			case <-f.ended:
				return true
			case <-time.After(20 * time.Second):
				return false
			}
		}},
		{"the command goes on", func() bool {
			select {
			case got := <-code:
				return got == exitNoExec && strings.Contains(errOut.String(), "interrupted")
			case <-time.After(20 * time.Second):
				return false
			}
		}},
	} {
		if !c.of() {
			t.Errorf("%s: %s", c.what, errOut.String())
		}
	}
}
