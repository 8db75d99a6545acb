package daemon

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/dispatch"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// renewEvery is how often it is looked whether a certificate is due. It is short for those that were issued by a clock that was wrong and has been put right.
const renewEvery = 10 * time.Second

// certificates keeps the cluster's authorities and issues the server's own certificates, and the local administrator's. Owner: the server. It is safe for use by
// several goroutines.
type certificates struct {
	dir    datadir.Dir
	name   string
	hosts  []string
	holder *pki.Holder // of the server's pairs, one for each authority

	register *pki.Register // of all that was issued, but the server's own

	mu          sync.Mutex // held while authorities or files change, and guards outside
	authorities atomic.Pointer[pki.Authorities]
	outside     outside
}

// administrator is who acts with the credential in the server's data directory.
func administrator() pki.Identity { return pki.Identity{Role: pki.RoleAdmin, Name: "admin"} }

func newCertificates(dir datadir.Dir, cfg *config.Config, state *engine.State) (*certificates, error) {
	from := outside{files: cfg.TLS.Authority}
	if _, err := os.Stat(dir.Authority()); errors.Is(err, fs.ErrNotExist) && state.Revision > 0 && !from.named() {
		return nil, &pki.FileError{
			Op: "load authority", Path: dir.Authority(), Err: fmt.Errorf("it is gone, and the state of cluster %s is there", state.ClusterID),
			Hint: "restore it from a backup; or, for a new authority, make an empty directory of that name: then each agent and each person has to join again",
		}
	}
	if from.named() {
		if err := from.begin(dir.Authority(), state.ClusterID); err != nil {
			return nil, err
		}
	}
	authorities, err := pki.LoadOrCreateAuthorities(dir.Authority(), state.ClusterID, time.Now())
	if err != nil {
		return nil, err
	}
	register, err := pki.OpenRegister(dir.Certificates(), time.Now())
	if err != nil {
		return nil, err
	}
	c := &certificates{dir: dir, name: cfg.Name, hosts: hostsOf(cfg), holder: new(pki.Holder), register: register, outside: from}
	c.authorities.Store(&authorities)
	return c, c.renew()
}

// Authorities returns the cluster's authorities as they are now.
func (c *certificates) Authorities() pki.Authorities { return *c.authorities.Load() }

// Sign issues a certificate.
func (c *certificates) Sign(now time.Time, id pki.Identity, request []byte) ([]byte, error) {
	chain, err := c.Authorities().Current.Sign(now, id, request)
	if err != nil {
		return nil, err
	}
	return chain, c.note(chain, now)
}

// note registers what was issued, before anybody has it.
func (c *certificates) note(chain []byte, now time.Time) error {
	block, _ := pem.Decode(chain)
	if block == nil {
		return errors.New("register a certificate: it is not in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("register a certificate: %w", err)
	}
	return c.register.Add(cert, now)
}

// Issued returns to whom a certificate was issued, though its time may have ended. The errors are pki.ErrNotIssued and pki.ErrRevoked.
func (c *certificates) Issued(cert *x509.Certificate) (pki.Identity, error) {
	id, err := c.Authorities().Issued(cert)
	if err == nil {
		err = c.Check(id, pki.Serial(cert))
	}
	return id, err
}

// CertificatePEM returns the certificate of the authority that issues.
func (c *certificates) CertificatePEM() []byte { return c.Authorities().Current.CertificatePEM() }

// Fingerprint returns its fingerprint.
func (c *certificates) Fingerprint() pki.Fingerprint { return c.Authorities().Current.Fingerprint() }

// trusted returns the fingerprints of all authorities, the newest first.
func (c *certificates) trusted() []pki.Fingerprint {
	var out []pki.Fingerprint
	for _, a := range c.Authorities().All() {
		out = append(out, a.Fingerprint())
	}
	return out
}

// serves reports whether a credential still does: its authority is trusted, and it was not revoked.
func (c *certificates) serves(who pki.Credential) bool {
	return slices.Contains(c.trusted(), who.Authority) && c.Check(who.Identity, who.Serial) == nil
}

// rotate makes a new authority.
func (c *certificates) rotate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outside.named() {
		return pki.ErrOutside
	}
	authorities, err := pki.Rotate(c.dir.Authority(), time.Now())
	if err != nil {
		return err
	}
	c.authorities.Store(&authorities)
	return c.issue()
}

// retire ends trust in the old authority.
func (c *certificates) retire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := pki.Retire(c.dir.Authority()); err != nil {
		return err
	}
	c.authorities.Store(&pki.Authorities{Current: c.Authorities().Current})
	if err := os.Remove(c.dir.RetiringPair()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the server's old certificate: %w", err)
	}
	return c.issue()
}

// hostsOf returns the names and addresses at which the server is reached.
func hostsOf(cfg *config.Config) []string {
	hosts := []string{"127.0.0.1", "::1", "localhost"}
	for _, address := range []string{cfg.Listen.API, cfg.Advertise, cfg.Dashboard.Listen, cfg.Dashboard.Advertise} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	hosts = append(hosts, cfg.TLS.Names...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// renew issues the certificates that are missing or due.
func (c *certificates) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.issue()
}

// follow has the authority be the one that the files from outside have, if there are some.
func (c *certificates) follow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.outside.named() {
		return nil
	}
	now, err := c.outside.look(c.dir.Authority(), c.Authorities())
	if err != nil {
		return err
	}
	c.authorities.Store(&now)
	return nil
}

// issue does so; the caller holds the lock.
func (c *certificates) issue() error {
	server := pki.Identity{Role: pki.RoleServer, Name: c.name}
	var pairs []*pki.Pair
	for i, authority := range c.Authorities().All() {
		path := c.dir.ServerPair()
		if i > 0 {
			path = c.dir.RetiringPair()
		}
		pair, err := authority.LoadOrIssue(path, time.Now(), server, c.hosts...)
		if err != nil {
			return fmt.Errorf("issue the server's certificate: %w", err)
		}
		pairs = append(pairs, pair.WithChain(c.outside.chainOf(authority)))
	}
	if !slices.EqualFunc(pairs, c.holder.Pairs(), func(a, b *pki.Pair) bool { return a.Certificate().Equal(b.Certificate()) }) {
		c.holder.Set(pairs...)
	}
	return c.issueAdmin()
}

// issueAdmin issues the local administrator's certificate, and another one when it was revoked: who may read the data directory has the authority's key anyway.
func (c *certificates) issueAdmin() error {
	admin := administrator()
	pair, err := c.Authorities().Current.LoadOrIssue(c.dir.AdminPair(), time.Now(), admin)
	if err == nil && c.register.Check(pair.Identity(), pki.Serial(pair.Certificate())) != nil {
		if err = os.Remove(c.dir.AdminPair()); err == nil {
			pair, err = c.Authorities().Current.LoadOrIssue(c.dir.AdminPair(), time.Now(), admin)
		}
	}
	if err == nil {
		err = c.register.Add(pair.Certificate(), time.Now())
	}
	if err != nil {
		return fmt.Errorf("issue the administrator's certificate: %w", err)
	}
	return nil
}

// Check returns pki.ErrRevoked for a certificate that was revoked.
func (c *certificates) Check(id pki.Identity, serial string) error {
	return c.register.Check(id, serial)
}

// List returns the certificates that are registered.
func (c *certificates) List() []pki.Listed { return c.register.List() }

// Revoke ends certificates before their time.
func (c *certificates) Revoke(v pki.Revocation) ([]pki.Issued, error) {
	revoke := c.register.RevokeSerial
	if v.Name != "" {
		revoke = c.register.RevokeName
	}
	out, err := revoke(v)
	if err != nil {
		return nil, err
	}
	return out, c.renew() // the local administrator's may be among them
}

// keep renews certificates in time, until the context ends. One that cannot be renewed now is tried again.
func (c *certificates) keep(ctx context.Context, log hclog.Logger) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.follow(); err == nil {
			said = ""
		} else if text := err.Error(); text != said {
			said = text
			log.Error("authority from outside not taken", "error", err)
		}
		if err := c.renew(); err != nil {
			log.Warn("certificates not renewed", "error", err)
		}
	}
}

// authorities lets operators look at the cluster's authority and replace it.
type authorities struct {
	certs      *certificates
	dispatcher *dispatch.Dispatcher
}

// Authorities returns them as they are now.
func (a authorities) Authorities() pki.Authorities { return a.certs.Authorities() }

// Rotate makes a new authority; connected agents hear of it with their next heartbeat.
func (a authorities) Rotate(context.Context) error { return a.certs.rotate() }

// Retire ends trust in the old one, and the sessions of those who are known by it.
func (a authorities) Retire(context.Context) error {
	if err := a.certs.retire(); err != nil {
		return err
	}
	a.dispatcher.Retire()
	return nil
}

// Nodes returns by which authority connected nodes are known.
func (a authorities) Nodes() map[cluster.NodeID]pki.Fingerprint { return a.dispatcher.Authorities() }
