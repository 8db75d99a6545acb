package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/daemon"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/datadir"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/devcluster"
	"github.com/setpointd/setpoint/core/config"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// How long parts of a dev cluster's life may take.
const (
	joinTime = 10 * time.Minute // for which a join token of its own agents serves
	stopTime = time.Minute      // for which agents are waited for that stop their tasks
)

func (a *app) devCommand() *cobra.Command {
	var files []string
	var nodes int
	var listen, pages, level, engine string
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole cluster on this machine: a server and some agents", Args: takes(0, 0),
		Example: "  setpoint dev\n  setpoint dev --nodes 5 --data-dir /tmp/first-look",
		Long: `Runs a whole cluster on this machine: this process is the server, and each node's agent is a process of its own. One line is printed when all of it is
ready, one with a link to the dashboard, and one for each plugin that does not serve by then; the log is in the data directory, and so are address and credentials
for other commands. The link logs in once, within two minutes; ` + "`setpoint dashboard`" + ` makes another.

Agents and tasks outlive a server that is killed, and another ` + "`setpoint dev`" + ` on the same data directory takes them up again; agents that do not run are
started. SIGTERM, or Ctrl-C, ends the agents and their tasks too.

The nodes are called n1, n2 and so on, have 4 cores and 8 GiB to give each, and the labels zone (a and b in turn) and disk=hdd. They run processes, and with
--docker-host also containers of the engine there, which they share. More join with
` + "`setpoint agent --join $(setpoint token create)@HOST:PORT --name n4 --data-dir DIR/agents/n4`.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes < 0 || nodes > 100 {
				return refuse("It is a number from 0 to 100.", "bad --nodes %d", nodes)
			}
			if engine != "" {
				if err := config.ValidateDockerHost(engine); err != nil {
					return refuse(err.Error()+".", "bad --docker-host")
				}
			}
			for _, address := range []string{listen, strings.TrimPrefix(pages, noDashboard)} {
				if err := checkListen(address); err != nil {
					return err
				}
			}
			dir, err := a.serverDir(false)
			if err != nil {
				return err
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			read := func() (*config.Config, error) {
				cfg, err := a.loadConfig(files)
				if err != nil {
					return nil, err
				}
				cfg.Override(dir, listen)
				cfg.Dashboard.Listen = devDashboard(pages, cfg)
				if level != "" {
					cfg.Log.Level = level
				}
				return cfg, nil
			}
			cfg, err := read()
			if err != nil {
				return err
			}
			return a.dev(cmd.Context(), cfg, read, devNodes(nodes, engine))
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how `many` nodes there are")
	cmd.Flags().StringVar(&listen, "listen", "", "where to listen, `HOST:PORT` (default: what the configuration says, or 127.0.0.1:7480)")
	cmd.Flags().StringVar(&pages, "dashboard", "", "where the dashboard listens, `HOST:PORT`, or off (default: what the configuration says, or the port after that of --listen)")
	cmd.Flags().StringVar(&level, "log-level", "", "trace, debug, info, warn or error, for the log in the data directory")
	cmd.Flags().StringVar(&engine, "docker-host", "", "the `address` of a Docker engine, such as "+config.DockerHost+", for the driver docker (default: none)")
	cmd.Flags().StringArrayVar(&files, "config", nil, "a configuration `file` or a directory of them; may be repeated")
	return cmd
}

// noDashboard is where the dashboard listens if it is not to.
const noDashboard = "off"

// devDashboard returns where the dashboard of a dev cluster listens, "" if it is not to: where it was said, or at the port after the API's.
func devDashboard(said string, cfg *config.Config) string {
	switch {
	case said == noDashboard:
		return ""
	case said != "":
		return said
	case cfg.Dashboard.Listen != "":
		return cfg.Dashboard.Listen
	}
	host, text, err := net.SplitHostPort(cfg.Listen.API)
	port, badPort := strconv.Atoi(text)
	if err != nil || badPort != nil {
		return ""
	}
	if port != 0 {
		port++
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// dev runs a server and its agents until the context ends; then it stops the server, and after it agents and tasks, so that no server replaces what ends.
func (a *app) dev(ctx context.Context, cfg *config.Config, read func() (*config.Config, error), nodes []devcluster.Node) error {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(cfg.DataDir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d := &devRun{nodes: nodes}
	hangUps, stop := hangUps()
	defer stop()
	s, err := daemon.Open(ctx, daemon.Options{
		Config: cfg, Version: version, Log: daemon.NewLogger("setpoint", cfg.Log, log), Settled: d.settled, Reconfigure: hangUps, Reread: read,
	})
	if err != nil {
		return startError(err)
	}
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	served := make(chan error, 1)
	go func() {
		err := s.Run(serving)
		stopServing()
		served <- errors.Join(err, s.Close())
	}()
	err = d.start(serving, s, cfg)
	if err == nil {
		fmt.Fprintf(a.out, "ready: %s, %s, data in %s\n", s.Address(), d.count(s), cfg.DataDir)
		link, failed := s.DashboardLink()
		if failed == nil && link != "" {
			fmt.Fprintf(a.out, "dashboard: %s\n", link)
		}
		away := s.Away()
		for _, name := range slices.Sorted(maps.Keys(away)) {
			fmt.Fprintf(a.out, "plugin %s does not serve: %s\n", name, away[name])
		}
		<-serving.Done()
	}
	stopServing()
	failed := <-served
	if ctx.Err() == nil {
		// What ended by itself leaves agents and tasks to the next run, as one that is killed does.
		return errors.Join(err, failed)
	}
	return errors.Join(failed, d.stop(context.WithoutCancel(ctx)))
}

// devRun is the agents of one run of `dev`.
type devRun struct {
	nodes  []devcluster.Node
	agents atomic.Pointer[devcluster.Cluster] // nil until they were started
}

// devNodes returns the nodes of a dev cluster. An engine's address gives them the driver docker.
func devNodes(count int, engine string) []devcluster.Node {
	drivers := []string{cluster.DriverProcess, cluster.DriverSim}
	var more []string
	if engine != "" {
		drivers, more = append(drivers, cluster.DriverDocker), []string{"--docker-host", engine}
	}
	var out []devcluster.Node
	for i := range count {
		zone := string(rune('a' + i%2))
		out = append(out, devcluster.Node{Name: fmt.Sprintf("n%d", i+1), Args: slices.Concat([]string{
			"--cpu", "4", "--memory", "8GiB", "--driver", strings.Join(drivers, ","), "--label", "zone=" + zone, "--label", "disk=hdd",
		}, more)})
	}
	return out
}

// start starts the agents, or finds them again, and waits until all is ready.
func (d *devRun) start(ctx context.Context, s *daemon.Server, cfg *config.Config) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	token, err := s.Token(ctx, joinTime)
	if err != nil {
		return err
	}
	agents, err := devcluster.Start(ctx, devcluster.Options{
		Dir: datadir.Dir(cfg.DataDir).Nodes(), Nodes: d.nodes, Executable: exe, Server: strings.TrimPrefix(s.Address(), "https://"), Token: token.Text(),
		Env: agentEnv(os.Environ()),
	})
	d.agents.Store(agents)
	if err != nil {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	return errors.Join(agents.Joined(), s.Revoke(ctx, token))
}

// agentEnv leaves out what is meant for commands.
func agentEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, "SETPOINT_") })
}

// settled returns which agent has not reported yet. One that has ended is not waited for: its node was decommissioned, or its log says why.
func (d *devRun) settled(s *daemon.Server) error {
	agents := d.agents.Load()
	if agents == nil {
		return errors.New("the agents are being started")
	}
	for _, n := range d.nodes {
		if !s.Connected(n.Name) && agents.Alive(n.Name) {
			return fmt.Errorf("the agent of node %s has not reported yet", n.Name)
		}
	}
	return nil
}

// count says how many of the nodes are there.
func (d *devRun) count(s *daemon.Server) string {
	there := 0
	for _, n := range d.nodes {
		if s.Connected(n.Name) {
			there++
		}
	}
	if there == len(d.nodes) {
		return console.Count(int64(there), "node")
	}
	return fmt.Sprintf("%d of %d nodes", there, len(d.nodes))
}

// stop ends all agents with their tasks.
func (d *devRun) stop(ctx context.Context) error {
	if agents := d.agents.Load(); agents != nil {
		return agents.Stop(ctx, stopTime)
	}
	return nil
}
