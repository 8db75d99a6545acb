package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
)

// renewEvery is how often it is looked whether a certificate is due. It is short for those that were issued by a clock that was wrong and has been put right.
const renewEvery = 10 * time.Second

// certificates are those that the server needs: its own, and the administrator's for commands on this machine.
type certificates struct {
	dir       datadir.Dir
	name      string
	hosts     []string
	authority *pki.Authority
	holder    *pki.Holder
}

// newCertificates loads the cluster's authority, or makes it, and issues what is missing or due. Of a cluster that has done something already the authority is
// not made anew by the way, since none of its agents would know it: then the error is a *pki.FileError, unless somebody made an empty directory for it.
func newCertificates(dir datadir.Dir, cfg *config.Config, state *engine.State) (*certificates, error) {
	if _, err := os.Stat(dir.Authority()); errors.Is(err, fs.ErrNotExist) && state.Revision > 0 {
		return nil, &pki.FileError{
			Op: "load authority", Path: dir.Authority(), Err: fmt.Errorf("it is gone, and the state of cluster %s is there", state.ClusterID),
			Hint: "restore it from a backup; or, for a new authority, make an empty directory of that name: then each agent and each person has to join again",
		}
	}
	authority, err := pki.LoadOrCreateAuthority(dir.Authority(), state.ClusterID, time.Now())
	if err != nil {
		return nil, err
	}
	c := &certificates{dir: dir, name: cfg.Name, hosts: hostsOf(cfg), authority: authority, holder: new(pki.Holder)}
	return c, c.renew()
}

// hostsOf returns the names and addresses at which the server is reached.
func hostsOf(cfg *config.Config) []string {
	hosts := []string{"127.0.0.1", "::1", "localhost"}
	for _, address := range []string{cfg.Listen.API, cfg.Advertise} {
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
	server := pki.Identity{ClusterID: c.authority.ClusterID(), Role: pki.RoleServer, Name: c.name}
	pair, err := c.authority.LoadOrIssue(c.dir.ServerPair(), time.Now(), server, c.hosts...)
	if err != nil {
		return fmt.Errorf("issue the server's certificate: %w", err)
	}
	c.holder.Set(pair)
	admin := pki.Identity{ClusterID: c.authority.ClusterID(), Role: pki.RoleAdmin, Name: "admin"}
	if _, err := c.authority.LoadOrIssue(c.dir.AdminPair(), time.Now(), admin); err != nil {
		return fmt.Errorf("issue the administrator's certificate: %w", err)
	}
	return nil
}

// keep renews certificates in time, until the context ends. One that cannot be renewed now is tried again.
func (c *certificates) keep(ctx context.Context, log hclog.Logger) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.renew(); err != nil {
			log.Warn("certificates not renewed", "error", err)
		}
	}
}
