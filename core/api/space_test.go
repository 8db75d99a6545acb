package api_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/pki"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func TestAFullStoreKeepsNobodyWaiting(t *testing.T) {
	var full atomic.Bool
	s := serve(t, func(o *api.Options) {
		o.Full = full.Load
	})
	s.engine.stuck = &full
	c := s.as(pki.RoleOperator)
	for _, when := range []string{"while it waits", "from the start"} {
		_, err := c.ScaleJob(t.Context(), connect.NewRequest(&apiv1.ScaleJobRequest{Job: "web", Count: 1}))
		if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "no space left") || client.Detail(err).GetCode() != "no_space" {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, err := c.ListJobs(t.Context(), connect.NewRequest(&apiv1.ListJobsRequest{})); err != nil {
		t.Errorf("reading: %v", err)
	}
}

// fullTokens are tokens on a disk that is full.
type fullTokens struct{ api.Tokens }

func (fullTokens) Create(context.Context, pki.Role, string, time.Duration) (pki.Token, pki.StoredToken, error) {
	return pki.Token{}, pki.StoredToken{}, fmt.Errorf("save join tokens: %w", &fs.PathError{Op: "write", Path: "tokens.json", Err: syscall.ENOSPC})
}

// What does not fit beside the store is told as such too, and not as a fault of the server.
func TestAFullDiskBesideTheStore(t *testing.T) {
	s := serve(t, func(o *api.Options) { o.Tokens = fullTokens{o.Tokens} })
	_, err := s.as(pki.RoleAdmin).CreateToken(t.Context(), connect.NewRequest(&apiv1.CreateTokenRequest{}))
	if detail := client.Detail(err); connect.CodeOf(err) != connect.CodeResourceExhausted || detail.GetCode() != "no_space" || !strings.Contains(detail.GetHint(), "free space") {
		t.Errorf("%v, %v", err, detail)
	}
}
