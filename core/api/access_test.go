package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestEveryCallHasARole(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{apiv1.File_setpoint_api_v1_api_proto, agentv1.File_setpoint_agent_v1_agent_proto} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				procedure := "/" + string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				if !api.HasRole(procedure) {
					t.Errorf("%s is not in the table of who may call what", procedure)
				}
			}
		}
	}
}

func TestRolesAreChecked(t *testing.T) {
	s := serve(t, nil)
	s.engine.answer(func(engine.Op) (any, error) { return nil, &engine.OpError{Kind: engine.NotFound, Message: "asked"} })
	calls := map[string]func(*client.Client) error{
		"read": func(c *client.Client) error {
			_, err := c.GetStatus(t.Context(), connect.NewRequest(&apiv1.GetStatusRequest{}))
			return err
		},
		"change": func(c *client.Client) error {
			_, err := c.StartJob(t.Context(), connect.NewRequest(&apiv1.StartJobRequest{Job: "web"}))
			if client.IsNotFound(err) {
				return nil // the engine was asked
			}
			return err
		},
		"tokens": func(c *client.Client) error {
			_, err := c.ListTokens(t.Context(), connect.NewRequest(&apiv1.ListTokensRequest{}))
			return err
		},
		"watch": func(c *client.Client) error {
			stream, err := c.WatchEvents(t.Context(), connect.NewRequest(&apiv1.WatchEventsRequest{}))
			if err != nil {
				return err
			}
			stream.Receive()
			return errors.Join(stream.Err(), stream.Close())
		},
	}
	allowed := map[pki.Role][]string{
		pki.RoleReader:   {"read", "watch"},
		pki.RoleOperator: {"read", "watch", "change"},
		pki.RoleAdmin:    {"read", "watch", "change", "tokens"},
		pki.RoleNode:     nil,
		pki.RoleServer:   nil,
	}
	for role, may := range allowed {
		c := s.as(role)
		for name, call := range calls {
			err := call(c)
			switch {
			case strings.Contains(strings.Join(may, " "), name):
				if err != nil {
					t.Errorf("%s, %s: %v, want it to be allowed", role, name, err)
				}
			case connect.CodeOf(err) != connect.CodePermissionDenied:
				t.Errorf("%s, %s: %v, want code %v", role, name, err, connect.CodePermissionDenied)
			}
		}
	}
	if s.engine.by != "someone" {
		t.Errorf("a command is recorded as that of %q, want the certificate's name", s.engine.by)
	}
}

func TestWithoutCertificateNothingIsAnswered(t *testing.T) {
	s := serve(t, nil)
	status, body := s.get("/setpoint.api.v1.ApiService/GetStatus?connect=v1&encoding=json&message=%7B%7D")
	if status != http.StatusUnauthorized || !strings.Contains(body, "unauthenticated") {
		t.Errorf("got %d %s, want %d", status, body, http.StatusUnauthorized)
	}
}

func TestPanicOfACallIsAnAnswer(t *testing.T) {
	s := serve(t, nil)
	s.engine.answer(func(engine.Op) (any, error) { panic("planted") })
	c := s.as(pki.RoleAdmin)
	_, err := c.StartJob(t.Context(), connect.NewRequest(&apiv1.StartJobRequest{Job: "web"}))
	if connect.CodeOf(err) != connect.CodeInternal || strings.Contains(err.Error(), "planted") {
		t.Errorf("got %v, want code %v and no details", err, connect.CodeInternal)
	}
	s.engine.answer(func(engine.Op) (any, error) { return nil, engine.ErrStopped })
	if _, err := c.StartJob(t.Context(), connect.NewRequest(&apiv1.StartJobRequest{Job: "web"})); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("after a panic the server answered %v, want code %v", err, connect.CodeUnavailable)
	}
}
