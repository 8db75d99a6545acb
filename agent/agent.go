package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/machine"
	"github.com/setpointd/setpoint/agent/secrets"
	"github.com/setpointd/setpoint/agent/state"
	"github.com/setpointd/setpoint/agent/worker"
	"github.com/setpointd/setpoint/core/pki"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	// haltLimit is how long tasks may take to stop when the agent stops them at its own end.
	haltLimit = 10 * time.Second
	// farewell is how long the agent tries, at its end, to tell the server the last of what it observed.
	farewell = 2 * time.Second
	// describeEvery is how often the agent looks whether its machine has changed.
	describeEvery = 20 * time.Second
	// describeTimeout is how long that may take; a driver that does not answer in time is left out.
	describeTimeout = 5 * time.Second
)

// Config is what an agent needs. DataDir, Server, Drivers and Log are required.
type Config struct {
	DataDir string // created if missing
	Server  string // HOST:PORT
	Token   string // with which it joins; not needed once it has
	Name    string // wanted when it joins; empty: the host's name
	Labels  map[string]string
	// Capacity replaces what is found: cpu and memory that are not zero, and all units.
	Capacity cluster.Resources
	Drivers  []driver.Driver
	// Attributes of the node, which go before those that are found; AttributesDir has scripts that find more (machine.Scripts).
	Attributes    map[string]string
	AttributesDir string
	SecretsDir    string // where secrets are kept in memory, on a tmpfs or ramfs; empty: secrets.DefaultPath
	Log           hclog.Logger
	// StopTasksOnExit is asked when Run's context ends: if it reports true, all tasks are stopped, and that is reported. Otherwise, and if it is nil, they run
	// on, and the next agent finds them.
	StopTasksOnExit func() bool
	Version         string
	// Now tells the time by which certificates are renewed; nil: the system's.
	Now func() time.Time
}

// Agent is a node's agent.
type Agent struct {
	cfg     Config
	holder  *pki.Holder
	process string // random: which run of the agent this is
	file    *state.File
	set     *worker.Set
	execs   execCount
	period  atomic.Int64 // of the server's heartbeats in nanoseconds, as it said last; 0: it has not yet

	secrets   *secrets.Dir // nil: there is none, for the reason noSecrets
	noSecrets string

	// Owner: whoever describes the machine, which are the join and then one session after the other.
	scripts    *machine.Scripts
	complained string // what was in the way of the last description
}

// LeftError ends an agent whose node the server does not want any more.
type LeftError struct {
	Reason string // the server's
}

// Error says why, and what to do to come back.
func (e *LeftError) Error() string {
	return fmt.Sprintf("%s: its tasks are stopped; to join again, use an empty data directory and a join token", e.Reason)
}

// New checks a configuration and returns an agent. Nothing is read or written before Run.
func New(cfg Config) (*Agent, error) {
	var problems []error
	for what, missing := range map[string]bool{
		"no data directory": cfg.DataDir == "", "no server": cfg.Server == "", "no driver": len(cfg.Drivers) == 0, "no log": cfg.Log == nil,
	} {
		if missing {
			problems = append(problems, errors.New(what))
		}
	}
	if cfg.Name != "" {
		if err := cluster.ValidateNodeName(cfg.Name); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("make agent: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Agent{cfg: cfg, holder: pki.NewHolder(nil), process: rand.Text(), scripts: machine.NewScripts(cfg.AttributesDir)}, nil
}

// Run joins the cluster if the agent has not yet, and then runs tasks until the context ends; that alone is no error. It returns a
// *state.InUseError if another agent uses the data directory, and a *LeftError once the node was decommissioned and its tasks have stopped.
func (a *Agent) Run(ctx context.Context) (err error) {
	a.file, err = state.Open(a.cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.file.Close()) }()
	a.openSecrets()
	if err := a.enter(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	tasks, revision, err := a.file.Load()
	if err != nil {
		return fmt.Errorf("%w; without the file the agent stops what runs here and begins anew", err)
	}
	id := a.holder.Pair().Identity()
	a.cfg.Log.Info("agent starts", "node", id.NodeID, "name", id.Name, "cluster", id.ClusterID, "tasks", len(tasks), "revision", revision)
	a.set = worker.New(worker.Options{
		Store: a.file, Drivers: a.cfg.Drivers, Node: id.Name, Cluster: id.ClusterID, Log: a.cfg.Log, Secrets: a.secrets, NoSecrets: a.noSecrets,
	}, tasks, revision)
	a.set.Cut(a.lastContact())
	return a.work(ctx)
}

// openSecrets finds out whether this machine can keep secrets in memory. An agent that cannot runs all tasks that need none.
func (a *Agent) openSecrets() {
	path, err := a.cfg.SecretsDir, error(nil)
	if path == "" {
		path, err = secrets.DefaultPath(a.cfg.DataDir)
	}
	if err == nil {
		a.secrets, err = secrets.Open(path)
	}
	if err != nil {
		a.noSecrets = err.Error()
		a.cfg.Log.Warn("tasks that need secrets are rejected here", "error", err, "hint", "name a directory on a tmpfs or ramfs with secrets_dir")
	}
}

// work runs the worker set and the sessions until the context ends or the server has the node leave.
func (a *Agent) work(ctx context.Context) error {
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	workEnded := make(chan error, 1)
	go func() { workEnded <- a.set.Run(working) }()
	talking, stopTalk := context.WithCancel(context.WithoutCancel(ctx))
	talkEnded := make(chan error, 1)
	go func() { talkEnded <- a.talk(talking) }()

	var err error
	select {
	case <-ctx.Done():
		if stop := a.cfg.StopTasksOnExit; stop != nil && stop() {
			a.halt()
		}
		stopTalk()
		err = <-talkEnded
	case err = <-talkEnded:
		a.cfg.Log.Warn("agent leaves", "reason", err)
		if haltErr := a.set.Halt(ctx, -1); haltErr != nil {
			err = errors.Join(err, haltErr)
		}
	}
	stopTalk()
	a.execs.close()
	stopWork()
	return errors.Join(err, <-workEnded)
}

// halt stops all tasks at the agent's own end.
func (a *Agent) halt() {
	ctx, cancel := context.WithTimeout(context.Background(), haltLimit+farewell)
	defer cancel()
	if err := a.set.Halt(ctx, haltLimit); err != nil {
		a.cfg.Log.Error("not all tasks were stopped", "error", err)
	}
}

// talk holds one session after the other until the context ends. The error is a *LeftError.
func (a *Agent) talk(ctx context.Context) error {
	select {
	case <-a.set.Ready(): // what runs here is known: the full report is whole
	case <-ctx.Done():
		return nil
	}
	var wait backoff
	said := ""
	for {
		began := time.Now()
		err := a.converse(ctx)
		var left *LeftError
		if errors.As(err, &left) {
			return left
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxPause {
			wait.reset()
		}
		wait.most = a.longest(err)
		next := wait.next()
		level := severity(err)
		if errors.Is(err, errRenewed) {
			level = hclog.Info
		}
		if err.Error() == said {
			level = hclog.Debug // it was said before
		}
		said = err.Error()
		a.cfg.Log.Log(level, "session ended", "error", err, "retry_in", next)
		if !pause(ctx, next) {
			return nil
		}
	}
}

// longest returns the longest pause after a session that ended so. A server that starts again gives its nodes no more than their grace, which is several heartbeats:
// one that nobody heard of is asked for about once a heartbeat. One that refuses the agent is not.
func (a *Agent) longest(err error) time.Duration {
	if severity(err) >= hclog.Error || connect.CodeOf(err) == connect.CodeResourceExhausted {
		return maxPause
	}
	return min(max(cmp.Or(time.Duration(a.period.Load()), defaultPeriod), firstPause), maxPause)
}

// describe looks at the machine.
func (a *Agent) describe(ctx context.Context) cluster.NodeDescription {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	d, err := machine.Describe(ctx, machine.Options{
		Drivers: a.cfg.Drivers, Capacity: a.cfg.Capacity, Version: a.cfg.Version, Attributes: a.cfg.Attributes, Scripts: a.scripts,
	})
	if _, said := d.Attributes[secrets.Attribute]; !said {
		d.Attributes[secrets.Attribute] = secrets.Unavailable
		if a.secrets != nil {
			d.Attributes[secrets.Attribute] = secrets.InMemory
		}
	}
	switch {
	case err == nil:
		a.complained = ""
	case err.Error() != a.complained: // it is said once
		a.complained = err.Error()
		a.cfg.Log.Warn("machine described in part", "error", err)
	}
	return d
}
