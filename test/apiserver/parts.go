package apiserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/setpointd/setpoint/core/api"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// noPlugins are the plugins of a server that has none.
type noPlugins struct{}

// Plugins implements api.Plugins.
func (noPlugins) Plugins() []api.Plugin { return nil }

// CheckJob implements api.Plugins.
func (noPlugins) CheckJob(context.Context, cluster.JobSpec) []cluster.Problem { return nil }

// Trial implements api.Plugins.
func (noPlugins) Trial(context.Context, string, []engine.Class, []engine.IndexedNode) ([]engine.ClassVerdict, error) {
	return nil, errors.New("there are no plugins")
}

// noLogs are the logs of nodes on which nothing runs.
type noLogs struct{}

// OpenLogs implements api.Logs.
func (noLogs) OpenLogs(context.Context, cluster.NodeID, *agentv1.LogRequest) (io.ReadCloser, error) {
	return nil, errors.New("nothing is printed here")
}

// tokens keeps tokens in memory.
type tokens struct {
	authority *pki.Authority

	mu     sync.Mutex // guards stored
	stored []pki.StoredToken
}

// Find implements api.Tokens.
func (t *tokens) Find(_ context.Context, token pki.Token) (pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pki.FindToken(t.stored, []pki.Fingerprint{t.authority.Fingerprint()}, token, time.Now())
}

// Create implements api.Tokens.
func (t *tokens) Create(_ context.Context, role pki.Role, name string, lifetime time.Duration) (pki.Token, pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	token := pki.NewToken(t.authority.Fingerprint())
	stored := token.Store(role, time.Now(), lifetime)
	stored.Name = name
	t.stored = append(t.stored, stored)
	return token, stored, nil
}

// List implements api.Tokens.
func (t *tokens) List(context.Context) ([]pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]pki.StoredToken(nil), t.stored...), nil
}

// Revoke implements api.Tokens.
func (t *tokens) Revoke(_ context.Context, hash pki.TokenHash) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.stored {
		if s.Hash == hash {
			t.stored = append(t.stored[:i], t.stored[i+1:]...)
			return nil
		}
	}
	return &engine.OpError{Kind: engine.NotFound, Message: "there is no such token", Hint: "token ls lists those that there are"}
}
