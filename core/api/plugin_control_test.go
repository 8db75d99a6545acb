package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// fakeOperator answers what a test says.
type fakeOperator struct {
	tail    int
	shadows []*apiv1.ShadowPluginRequest
	err     error
}

func (o *fakeOperator) Inspect(string) (*apiv1.GetPluginResponse, error) {
	return &apiv1.GetPluginResponse{Path: "/p", MirrorRevision: 7}, o.err
}

func (o *fakeOperator) Logs(_ context.Context, _ string, tail int, _ bool, yield func([]*apiv1.PluginLine) error) error {
	o.tail = tail
	return errors.Join(yield([]*apiv1.PluginLine{{Text: "one"}, {Text: "two"}}), o.err)
}

func (o *fakeOperator) Reload(context.Context, string) (*apiv1.ReloadPluginResponse, error) {
	return &apiv1.ReloadPluginResponse{After: &apiv1.PluginProcess{Version: "2"}}, o.err
}

func (o *fakeOperator) Shadow(_ context.Context, req *apiv1.ShadowPluginRequest) (*apiv1.ShadowPluginResponse, error) {
	o.shadows = append(o.shadows, req)
	c := &apiv1.PluginComparison{Total: 3, Differences: []*apiv1.PluginDifference{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}}
	return &apiv1.ShadowPluginResponse{Comparison: c}, o.err
}

func serveOperator(t *testing.T) (*server, *fakeOperator) {
	t.Helper()
	o := &fakeOperator{}
	s := serve(t, func(opts *api.Options) { opts.PluginOperator = o })
	s.plugins.list = []api.Plugin{{Name: "constraint", State: "running"}}
	return s, o
}

func TestPluginIsInspected(t *testing.T) {
	s, _ := serveOperator(t)
	res, err := s.as(pki.RoleReader).GetPlugin(t.Context(), connect.NewRequest(&apiv1.GetPluginRequest{Plugin: "constraint"}))
	if err != nil || res.Msg.GetPlugin().GetState() != "running" || res.Msg.GetMirrorRevision() != 7 {
		t.Errorf("%v, %v", res, err)
	}
	_, err = s.as(pki.RoleReader).GetPlugin(t.Context(), connect.NewRequest(&apiv1.GetPluginRequest{Plugin: "nobody"}))
	if !client.IsNotFound(err) {
		t.Errorf("unknown: %v", err)
	}
}

func TestPluginLogsAreSent(t *testing.T) {
	s, o := serveOperator(t)
	stream, err := s.as(pki.RoleReader).PluginLogs(t.Context(), connect.NewRequest(&apiv1.PluginLogsRequest{Plugin: "constraint", Tail: -5}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for stream.Receive() {
		for _, l := range stream.Msg().GetLines() {
			got = append(got, l.GetText())
		}
	}
	if strings.Join(got, " ") != "one two" || stream.Err() != nil || o.tail != -1 {
		t.Errorf("got %v, %v; asked for %d", got, stream.Err(), o.tail)
	}
}

func TestReloadThatIsRefused(t *testing.T) {
	s, o := serveOperator(t)
	if _, err := s.as(pki.RoleReader).ReloadPlugin(t.Context(), connect.NewRequest(&apiv1.ReloadPluginRequest{Plugin: "constraint"})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a reader: %v", err)
	}
	res, err := s.as(pki.RoleOperator).ReloadPlugin(t.Context(), connect.NewRequest(&apiv1.ReloadPluginRequest{Plugin: "constraint"}))
	if err != nil || res.Msg.GetAfter().GetVersion() != "2" {
		t.Errorf("%v, %v", res, err)
	}
	o.err = &api.PluginError{Code: "plugin_invalid", Message: "it babbles", Hint: "mend it"}
	_, err = s.as(pki.RoleOperator).ReloadPlugin(t.Context(), connect.NewRequest(&apiv1.ReloadPluginRequest{Plugin: "constraint"}))
	if d := client.Detail(err); connect.CodeOf(err) != connect.CodeAborted || d.GetCode() != "plugin_invalid" || d.GetHint() != "mend it" || !strings.Contains(err.Error(), "it babbles") {
		t.Errorf("refused: %v, %v", err, d)
	}
}

func TestShadowIsAnAdministrators(t *testing.T) {
	s, o := serveOperator(t)
	ask := func(role pki.Role, path string) (*connect.Response[apiv1.ShadowPluginResponse], error) {
		return s.as(role).ShadowPlugin(t.Context(), connect.NewRequest(&apiv1.ShadowPluginRequest{Plugin: "constraint", Path: path, Limit: 2}))
	}
	if _, err := ask(pki.RoleOperator, "/x"); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an operator: %v", err)
	}
	if _, err := ask(pki.RoleAdmin, "x"); connect.CodeOf(err) != connect.CodeInvalidArgument || len(o.shadows) > 0 {
		t.Errorf("a relative path: %v", err)
	}
	res, err := ask(pki.RoleAdmin, "/x")
	if err != nil || res.Msg.GetComparison().GetTotal() != 3 || len(res.Msg.GetComparison().GetDifferences()) != 2 {
		t.Errorf("%v, %v", res, err)
	}
}

func TestServerWithoutOperator(t *testing.T) {
	s := serve(t, nil)
	_, err := s.as(pki.RoleReader).GetPlugin(t.Context(), connect.NewRequest(&apiv1.GetPluginRequest{Plugin: "constraint"}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("%v", err)
	}
}
