package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/top"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// The sections of top.
const (
	topStalls = "stalls"
	topJobs   = "jobs"
	topNodes  = "nodes"
)

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Show stalls, jobs and nodes in the terminal as they change", Args: takes(0, 0),
		Long: `Shows what waits, by cause and longest first, then jobs and nodes, as they change. Tab goes from list to list, the arrows or j and k from row to row, enter shows all of one:
each node with each reason, the job with its slots, the node with its tasks. / shows only rows that have a text, ? all keys, q leaves.

It needs a terminal; ` + "`setpoint status`, `setpoint stalls` and `setpoint job ls` say the same once, and with --watch again and again." + ``,
		Example: "  setpoint top",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !a.terminal(a.in) || !a.terminal(a.out) {
				return refuse("`setpoint status` says once how the cluster is, `setpoint stalls --watch` and `setpoint job ls --watch` go on.", "top needs a terminal")
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			style := a.style(a.out)
			style.Columns = 0
			return top.Run(cmd.Context(), top.Options{Source: &topSource{s}, Style: style, In: a.in, Out: a.out, Environ: a.environ()})
		},
	}
}

// topSource asks a server for what top shows.
type topSource struct{ s *server }

// topShot is what it answered.
type topShot struct {
	status *apiv1.GetStatusResponse
	causes []*stallCause
	jobs   []*apiv1.Job
	nodes  []*apiv1.Node
}

// Look implements top.Source.
func (x *topSource) Look(ctx context.Context) (top.Shot, error) { return x.look(ctx) }

func (x *topSource) look(ctx context.Context) (*topShot, error) {
	status, err := ask(ctx, x.s, x.s.GetStatus, &apiv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	stalls, err := listStalls(ctx, x.s, &apiv1.ListStallsRequest{})
	if err != nil {
		return nil, err
	}
	jobs, err := listJobs(ctx, x.s)
	if err != nil {
		return nil, err
	}
	nodes, err := listNodes(ctx, x.s)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, (*apiv1.Node).GetDecommissioned)
	slices.SortStableFunc(jobs, func(a, b *apiv1.Job) int { return cmp.Compare(jobRank(a), jobRank(b)) })
	slices.SortStableFunc(nodes, func(a, b *apiv1.Node) int { return cmp.Compare(nodeRank(a), nodeRank(b)) })
	return &topShot{status: status, causes: causesOf(stalls), jobs: jobs, nodes: nodes}, nil
}

// Watch implements top.Source. Whatever the server says, it is asked again; unless it does not let this caller in any more, which no waiting changes.
func (x *topSource) Watch(ctx context.Context, told func(top.Shot, error)) error {
	return watch(ctx, x.s, func(ctx context.Context) error {
		shot, err := x.look(ctx)
		if code := connect.CodeOf(err); err != nil && (code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied) {
			return err
		}
		if !errors.Is(ctx.Err(), context.Canceled) {
			told(shot, err)
		}
		return nil
	})
}

// jobRank orders jobs: what needs a look first, then what is under way.
func jobRank(j *apiv1.Job) int {
	switch j.GetState() {
	case "stalled", "failed", "paused":
		return 0
	case "starting", "updating", "rebalancing", "stopping":
		return 1
	}
	return 2
}

// nodeRank does the same of nodes.
func nodeRank(n *apiv1.Node) int {
	switch {
	case n.GetState() == "down":
		return 0
	case n.GetState() != "ready":
		return 1
	case n.GetAvailability() != "active":
		return 2
	}
	return 3
}

// Screen implements top.Shot.
func (x *topShot) Screen(now time.Time, style console.Style) top.Screen {
	return top.Screen{Title: x.title(style), Sections: []top.Section{x.stallSection(now, style), x.jobSection(now, style), x.nodeSection(now, style)}}
}

func (x *topShot) title(style console.Style) string {
	st := x.status
	ready := style.Green("ready")
	if !st.GetReady() {
		ready = style.Red("! not ready: " + st.GetNotReady())
	}
	parts := []string{style.Bold("Setpoint ") + ready}
	for _, p := range st.GetPlugins() {
		if p.GetState() != "running" {
			parts = append(parts, style.Red(fmt.Sprintf("! plugin %s: %s", p.GetName(), p.GetState())))
		}
	}
	return strings.Join(append(parts, "tasks: "+tally(st.GetTasks()), fmt.Sprintf("revision %d", st.GetRevision())), "  ")
}

func (x *topShot) stallSection(now time.Time, style console.Style) top.Section {
	s := top.Section{
		Name: topStalls, Note: style.Green("nothing waits"), Empty: "nothing waits",
		Headings: []string{"CODE", "WAITING", "FOR", "WHY", "CLEARS WHEN"}, Long: []string{"WAITING", "WHY", "CLEARS WHEN"},
	}
	waiting, causes := 0, 0
	for _, c := range x.causes {
		code := "  " + c.code
		if !c.quiet {
			code = style.Red("! " + c.code)
			waiting += len(c.stalls)
			causes++
		}
		s.Rows = append(s.Rows, top.Row{Key: c.key, Cells: []string{code, c.waiting(), console.Since(now, c.since), c.why(), c.oldest().GetClears()}})
	}
	if waiting > 0 {
		s.Note = style.Red("! " + thingsWait(waiting) + ", " + console.Count(int64(causes), "cause"))
	}
	return s
}

func thingsWait(n int) string {
	if n == 1 {
		return "1 thing waits"
	}
	return fmt.Sprintf("%d things wait", n)
}

func (x *topShot) jobSection(now time.Time, style console.Style) top.Section {
	s := top.Section{
		Name: topJobs, Note: style.Faint(fmt.Sprint(len(x.jobs))), Empty: "there are no jobs; `setpoint job run FILE` makes one",
		Headings: []string{"NAME", "TYPE", "STATE", "UP", "VERSION", "STALLS", "FOR", "UPDATE"}, Long: []string{"NAME", "UPDATE"},
	}
	for _, j := range x.jobs {
		stalls := ""
		if n := len(j.GetStalls()); n > 0 {
			stalls = style.Red(fmt.Sprintf("! %d", n))
		}
		s.Rows = append(s.Rows, top.Row{Key: j.GetName(), Cells: []string{
			j.GetName(), j.GetType(), jobState(style, j.GetState()), upOf(j), versionOf(j), stalls, ago(now, j.GetChanged()), movement(j),
		}})
	}
	return s
}

// movement says how far an update or a rebalance of a job has come; "" if none is under way.
func movement(j *apiv1.Job) string {
	switch u := j.GetUpdate(); u.GetState() {
	case "updating", "paused":
		return top.Bar(u.GetMoved(), u.GetTotal(), 10) + " " + updateText(u)
	}
	if r := j.GetRebalance(); r.GetActive() {
		return "rebalance " + rebalanceText(r)
	}
	return ""
}

func (x *topShot) nodeSection(now time.Time, style console.Style) top.Section {
	s := top.Section{
		Name: topNodes, Note: style.Faint(tally(x.status.GetNodes())), Empty: "there are no nodes; `setpoint token create` lets one join",
		Headings: []string{"NAME", "STATE", "FOR", "AVAILABILITY", "TASKS", "CPU", "MEMORY", "LABELS"}, Long: []string{"NAME", "LABELS"},
	}
	for _, n := range x.nodes {
		used, capacity := n.GetUsed(), n.GetCapacity()
		state := nodeState(style, n)
		if n.GetState() != "ready" {
			state = style.Red("! ") + state
		}
		s.Rows = append(s.Rows, top.Row{Key: n.GetName(), Cells: []string{
			n.GetName(), state, ago(now, n.GetSince()), availability(style, n), fmt.Sprint(n.GetTasks()),
			fill(used.GetMilliCpu(), capacity.GetMilliCpu()), fill(used.GetMemoryBytes(), capacity.GetMemoryBytes()), pairs(n.GetLabels()),
		}})
	}
	return s
}

// fill draws how full something is, with the number beside it.
func fill(used, capacity int64) string {
	percent := int64(0)
	if capacity > 0 {
		percent = used * 100 / capacity
	}
	return fmt.Sprintf("%s %3d%%", top.Bar(used, capacity, 8), percent)
}
