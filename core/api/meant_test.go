package api_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// A name that is none is answered with those that are spelled almost like it, wherever it was looked up.
func TestMeant(t *testing.T) {
	s := serve(t, nil)
	s.engine.set(9, node("a", "rack-1"), job("web", 2), slot("web", "1"), slot("web", "2"), job("unlike", 1))
	c := s.as(pki.RoleReader)
	jobNamed := func(name string) error {
		_, err := c.GetJob(t.Context(), connect.NewRequest(&apiv1.GetJobRequest{Job: name}))
		return err
	}
	nodeNamed := func(name string) error {
		_, err := c.ListTasks(t.Context(), connect.NewRequest(&apiv1.ListTasksRequest{Node: name}))
		return err
	}
	taskNamed := func(name string) error {
		_, err := c.GetTask(t.Context(), connect.NewRequest(&apiv1.GetTaskRequest{Task: name}))
		return err
	}
	for _, tt := range []struct {
		look func(string) error
		name string
		want string // at the beginning of the hint
	}{
		{jobNamed, "wbe", `Is "web" meant? job ls lists`},
		{jobNamed, "xyz", "job ls lists"},
		{nodeNamed, "rack1", `Is "rack-1" meant? node ls lists`},
		{taskNamed, "wbe/2", `Is "web/2" meant? task ls`},
		{taskNamed, "wbe/2/7", `Is "web/2" meant? task ls`},
		{taskNamed, "web", `Is "web/1" meant? task ls`},
		{taskNamed, "xyz/1", "task ls"},
		{taskNamed, "web/9", "task ls"},
	} {
		err := tt.look(tt.name)
		if hint := client.Detail(err).GetHint(); !client.IsNotFound(err) || !strings.HasPrefix(hint, tt.want) {
			t.Errorf("%s: %v with the hint %q, want %q", tt.name, err, hint, tt.want)
		}
	}
}
