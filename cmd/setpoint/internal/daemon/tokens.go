package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
)

// maxTokens limits how many tokens there are; expired ones do not count.
const maxTokens = 1000

// tokens keeps the hashes of join tokens in one file.
type tokens struct {
	path    string
	trusted func() []pki.Fingerprint // of the cluster's authorities, the newest first

	mu     sync.Mutex // guards stored and the file
	stored []pki.StoredToken
}

// openTokens reads the file, if there is one.
func openTokens(dir datadir.Dir, trusted func() []pki.Fingerprint) (*tokens, error) {
	t := &tokens{path: dir.Tokens(), trusted: trusted}
	text, err := os.ReadFile(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("load join tokens: %w", err)
	}
	if err := json.Unmarshal(text, &t.stored); err != nil {
		return nil, fmt.Errorf("load join tokens from %s: %w; remove the file to revoke all", t.path, err)
	}
	return t, nil
}

// Create makes a token. A lifetime of 0 means that it does not expire; without a name its bearer says it.
func (t *tokens) Create(_ context.Context, role pki.Role, name string, lifetime time.Duration) (pki.Token, pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	kept := slices.DeleteFunc(slices.Clone(t.stored), func(s pki.StoredToken) bool { return !s.Expires.IsZero() && s.Expires.Before(now) })
	if len(kept) >= maxTokens {
		return pki.Token{}, pki.StoredToken{}, &engine.OpError{
			Kind: engine.Refused, Message: fmt.Sprintf("there are %d join tokens, which is the limit", len(kept)), Hint: "revoke some with token rm",
		}
	}
	token := pki.NewToken(t.trusted()[0])
	stored := token.Store(role, now, lifetime)
	stored.Name = name
	return token, stored, t.save(append(kept, stored))
}

// List returns what is kept of the tokens, oldest first.
func (t *tokens) List(context.Context) ([]pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.stored), nil
}

// Revoke forgets a token.
func (t *tokens) Revoke(_ context.Context, hash pki.TokenHash) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(t.stored), func(s pki.StoredToken) bool { return s.Hash == hash })
	if len(kept) == len(t.stored) {
		return &engine.OpError{Kind: engine.NotFound, Message: "there is no such join token", Hint: "token ls lists those that there are"}
	}
	return t.save(kept)
}

// Verify returns what the bearer of a token becomes.
func (t *tokens) Verify(ctx context.Context, token pki.Token) (pki.Role, error) {
	stored, err := t.Find(ctx, token)
	return stored.Role, err
}

// Find returns what is kept of a token.
func (t *tokens) Find(_ context.Context, token pki.Token) (pki.StoredToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pki.FindToken(t.stored, t.trusted(), token, time.Now())
}

// save writes the tokens and keeps them once they are on disk. The caller holds the lock.
func (t *tokens) save(stored []pki.StoredToken) error {
	text, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return fmt.Errorf("save join tokens: %w", err)
	}
	if err := datadir.WriteFile(t.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("save join tokens: %w", err)
	}
	t.stored = stored
	return nil
}
