package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/core/store"
	"github.com/setpointd/setpoint/core/store/bolt"
	"github.com/setpointd/setpoint/core/store/mem"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// openStore takes hold of the storage. One that is new belongs to the cluster of the authority that is there, or to a new one.
func openStore(dir datadir.Dir, all *config.Config) (store.Backend, error) {
	initial, cfg := store.Head{}, all.Store
	authority, err := pki.LoadAuthority(dir.Authority())
	switch from := (&outside{files: all.TLS.Authority}); {
	case err == nil:
		initial.ClusterID = authority.ClusterID()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case from.named():
		if err := from.load(""); err != nil {
			return nil, err
		}
		initial.ClusterID = from.latest.ClusterID()
	}
	retention := store.Retention{Revisions: cfg.Retention.Revisions, Age: cfg.Retention.Age, Bytes: cfg.Retention.Bytes}
	if cfg.Kind == config.StoreMemory {
		backend, err := mem.Open(mem.NewDisk(initial), mem.Options{Retention: retention})
		if err != nil {
			return nil, err
		}
		return backend, nil
	}
	if err := os.MkdirAll(filepath.Dir(cfg.File), 0o700); err != nil {
		return nil, err
	}
	backend, err := bolt.Open(cfg.File, bolt.Options{Retention: retention, Initial: initial, MaxSize: int(cfg.MaxSize), AnyFilesystem: cfg.AnyFilesystem})
	if err != nil {
		return nil, err
	}
	return backend, nil
}

// loadState reads everything that was committed.
func loadState(ctx context.Context, backend store.Backend) (*engine.State, error) {
	st := engine.NewState("")
	var head store.Head
	err := engine.Uncollected(func() (err error) {
		head, err = store.Journal{Backend: backend}.Load(ctx, engine.NewPreparer, st.Restore)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	st.ClusterID, st.Revision = head.ClusterID, cluster.Revision(head.Revision)
	st.Now = cluster.Time{Engine: head.Engine, Wall: head.Wall.UnixNano()}
	return st, nil
}

// retryAfter is how long a commit waits before it tries again for which there was no space.
const retryAfter = time.Second

// committer makes turns durable. While there is no space it tries the same turn again: reads go on, and nothing changes.
type committer struct {
	journal store.Journal
	log     hclog.Logger
	stop    <-chan struct{}
	retry   time.Duration
	full    atomic.Bool
}

// Commit makes one turn durable. That there is no space is an error only once the server stops.
func (c *committer) Commit(ctx context.Context, rev cluster.Revision, now cluster.Time, puts, deletes []any) error {
	for {
		err := c.journal.Commit(ctx, rev, now, puts, deletes)
		if !errors.Is(err, store.ErrNoSpace) {
			c.full.Store(false)
			return err
		}
		if !c.full.Swap(true) {
			c.log.Error("no space to commit, nothing changes until there is", "revision", uint64(rev), "error", err)
		}
		select {
		case <-c.stop:
			return err
		case <-time.After(c.retry):
		}
	}
}
