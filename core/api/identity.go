package api

import (
	"context"
	"net/http"

	"github.com/setpointd/setpoint/core/pki"
)

// caller is who calls, as the connection says.
type caller struct {
	pki.Credential
	err error
}

type callerKey struct{}

// identified gives each request's context who calls. The holder of a certificate that was revoked is nobody.
func (a *API) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c caller
		if c.Credential, c.err = pki.PeerCredential(r.TLS); c.err == nil && a.opts.Certificates != nil {
			c.err = a.opts.Certificates.Check(c.Identity, c.Serial)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// callerOf returns what is known of who calls; nothing if no certificate was shown.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// IdentityFrom returns who calls, from the verified certificate of the request's connection. The error is pki.ErrNoCertificate if it has
// none.
func IdentityFrom(ctx context.Context) (pki.Identity, error) {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return pki.Identity{}, pki.ErrNoCertificate
	}
	return c.Identity, c.err
}

// AuthorityFrom returns by which authority's certificate the caller is known. The error is that of IdentityFrom.
func AuthorityFrom(ctx context.Context) (pki.Fingerprint, error) {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return pki.Fingerprint{}, pki.ErrNoCertificate
	}
	return c.Authority, c.err
}

// author returns for whom the engine records what a call changes. The caller's role was checked.
func author(ctx context.Context) string {
	id, err := IdentityFrom(ctx)
	if err != nil {
		return ""
	}
	return id.Name
}
