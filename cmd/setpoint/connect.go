package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/pki"
)

// server is a server that commands ask.
type server = client.Client

// dir returns the data directory that was named, or the default one.
func (a *app) dir() (datadir.Dir, error) {
	for _, dir := range []string{a.dataDir, a.env("SETPOINT_DATA_DIR")} {
		if dir != "" {
			return datadir.Dir(dir), nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", refuse("Name it with --data-dir or SETPOINT_DATA_DIR.", "no data directory: %v", err)
	}
	return datadir.Dir(filepath.Join(home, ".setpoint")), nil
}

// connect finds a server's address and the credential for it. Nothing is sent yet. As long as the data directory does not have them the error is a *noServer.
func (a *app) connect() (*server, error) {
	dir, err := a.dir()
	if err != nil {
		return nil, err
	}
	address, err := a.address(dir)
	if err != nil {
		return nil, err
	}
	opts := client.Options{Addr: address, Pair: dir.Credential(), Outdated: sync.OnceFunc(a.warnOfRotation)}
	if !a.addressed() {
		opts.Where = func() string {
			now, _ := dir.ReadAddress() // one that cannot be read is where it was
			return now
		}
	}
	s, err := client.New(opts)
	var file *pki.FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing(dir, err)
	case errors.As(err, &file):
		return nil, err
	case err != nil:
		return nil, refuse("Servers speak TLS only.", "%v", err)
	}
	a.warnOfExpiry(s.Pair())
	return s, nil
}

// addressed reports whether the server's address was given, so that what the data directory says of it does not count.
func (a *app) addressed() bool { return a.addr != "" || a.env("SETPOINT_ADDR") != "" }

func (a *app) address(dir datadir.Dir) (string, error) {
	if a.addressed() {
		return cmp.Or(a.addr, a.env("SETPOINT_ADDR")), nil
	}
	addr, err := dir.ReadAddress()
	if err != nil {
		return "", missing(dir, err)
	}
	return addr, nil
}

// missing says where address and credentials come from, if that is what is missing.
func missing(dir datadir.Dir, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &noServer{failure{
		code: exitError, text: fmt.Sprintf("no server has written its address and credentials to %s", dir),
		hint: "--data-dir or SETPOINT_DATA_DIR names the folder that `setpoint dev` or `setpoint server` uses, or that `setpoint login` wrote.",
	}}
}

// noServer is what a data directory without address or credential is.
type noServer struct{ failure }

// Unwrap returns the failure, for what is to be said of it.
func (e *noServer) Unwrap() error { return &e.failure }

// ask makes one call. The error is one for people, and wraps what the server sent.
func ask[Req, Res any](ctx context.Context, s *server, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	res, err := call(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, refusal(s.Addr(), err)
	}
	return res.Msg, nil
}

// callError is the error of a call: what people read, and what the server sent.
type callError struct {
	*failure
	cause error
}

// Unwrap returns both.
func (e *callError) Unwrap() []error { return []error{e.failure, e.cause} }

// pages collects all pages of a list.
func pages[Res, Item any](next func(token string) (*Res, error), items func(*Res) ([]Item, string)) ([]Item, error) {
	var all []Item
	token := ""
	for {
		res, err := next(token)
		if err != nil {
			return nil, err
		}
		page, more := items(res)
		all = append(all, page...)
		if more == "" {
			return all, nil
		}
		token = more
	}
}
