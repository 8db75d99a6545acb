package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/view"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func (a *app) taskCommand() *cobra.Command {
	return group("task", "See tasks, why they wait, and what they print; run commands in them, and stop single ones",
		a.taskList(), named(a.taskInspect()), a.taskWhy(), a.taskHistory(), a.taskLogs(), a.taskExec(), a.orTry(a.asks(a.taskStop(), tryStopTask), tryStopTask))
}

func (a *app) taskList() *cobra.Command {
	var job, node string
	var all bool
	var unknown sync.Once
	cmd := list(a, &cobra.Command{
		Use: "ls", Short: "List tasks: those that are not dead, and the last dead one of each slot",
		Example: "  setpoint task ls --job web --watch\n  setpoint task ls --node n1 -o wide\n  setpoint task ls --job web -o name | xargs -n1 setpoint task stop",
	}, &listing[*apiv1.Task]{
		fetch: func(ctx context.Context, s *server) ([]*apiv1.Task, error) {
			tasks, err := listTasks(ctx, s, &apiv1.ListTasksRequest{Job: job, Node: node, All: true})
			if err != nil {
				return nil, err
			}
			if len(tasks) == 0 && job != "" {
				note, err := noSuchJob(ctx, s, job)
				if err != nil {
					return nil, err
				}
				if note != "" {
					unknown.Do(func() { fmt.Fprintln(a.errOut, note) })
				}
			}
			if !all {
				tasks = withoutHistory(tasks)
			}
			sortTasks(tasks)
			return tasks, nil
		},
		view: viewed(view.OfTasks), columns: taskColumns(),
	})
	cmd.Flags().StringVar(&job, "job", "", "only tasks of this `job`")
	cmd.Flags().StringVar(&node, "node", "", "only tasks on this `node`")
	cmd.Flags().BoolVar(&all, "all", false, "all dead tasks that are still known, too")
	return cmd
}

// noSuchJob returns a note if there is no job of that name, and "" if there is. A name that is none would look like a job without anything; but of one that was removed
// there is nothing any more, and nothing is wrong with asking.
func noSuchJob(ctx context.Context, s *server, job string) (string, error) {
	_, err := ask(ctx, s, s.GetJob, &apiv1.GetJobRequest{Job: job})
	if client.IsNotFound(err) {
		return fmt.Sprintf("Note: there is no job %q; %s", job, client.Detail(err).GetHint()), nil
	}
	return "", err
}

func taskColumns() []column[*apiv1.Task] {
	return []column[*apiv1.Task]{
		{"ID", func(_ pen, t *apiv1.Task) string { return t.GetId() }, always},
		{"NODE", func(_ pen, t *apiv1.Task) string { return t.GetNode() }, always},
		{"PHASE", func(p pen, t *apiv1.Task) string { return phaseText(p.style, t.GetPhase()) }, always},
		{"FOR", func(p pen, t *apiv1.Task) string { return ago(p.now, phaseSince(t)) }, ages},
		{"VERSION", func(_ pen, t *apiv1.Task) string { return fmt.Sprint(t.GetJobVersion()) }, always},
		{"DESIRED", func(_ pen, t *apiv1.Task) string { return t.GetDesired().GetState() }, wide},
		{"OBSERVED", func(_ pen, t *apiv1.Task) string { return t.GetObserved().GetState() }, wide},
		{"PORTS", func(_ pen, t *apiv1.Task) string {
			var ports []string
			for _, p := range t.GetPorts() {
				ports = append(ports, fmt.Sprintf("%s=%d", p.GetName(), p.GetNumber()))
			}
			return strings.Join(ports, " ")
		}, wide},
		{"MADE FOR", func(_ pen, t *apiv1.Task) string { return t.GetWhy() }, wide},
		{"WHY", func(_ pen, t *apiv1.Task) string { return taskNote(t) }, long},
	}
}

func listTasks(ctx context.Context, s *server, req *apiv1.ListTasksRequest) ([]*apiv1.Task, error) {
	return pages(func(token string) (*apiv1.ListTasksResponse, error) {
		req.PageToken = token
		return ask(ctx, s, s.ListTasks, req)
	}, func(r *apiv1.ListTasksResponse) ([]*apiv1.Task, string) { return r.GetTasks(), r.GetNextPageToken() })
}

// withoutHistory leaves out dead tasks, but for the newest of each slot.
func withoutHistory(tasks []*apiv1.Task) []*apiv1.Task {
	newest := map[string]*apiv1.Task{}
	for _, t := range tasks {
		slot := t.GetJob() + "/" + t.GetSlot()
		if old := newest[slot]; t.GetDead() && (old == nil || timeOf(old.GetCreated()).Before(timeOf(t.GetCreated()))) {
			newest[slot] = t
		}
	}
	return slices.DeleteFunc(tasks, func(t *apiv1.Task) bool { return t.GetDead() && newest[t.GetJob()+"/"+t.GetSlot()] != t })
}

// sortTasks orders tasks by job, slot (numbers as such) and age.
func sortTasks(tasks []*apiv1.Task) {
	slices.SortStableFunc(tasks, func(a, b *apiv1.Task) int {
		return cmp.Or(cmp.Compare(a.GetJob(), b.GetJob()), compareSlots(a.GetSlot(), b.GetSlot()), timeOf(a.GetCreated()).Compare(timeOf(b.GetCreated())))
	})
}

func compareSlots(a, b string) int {
	m, errA := strconv.ParseUint(a, 10, 63)
	n, errB := strconv.ParseUint(b, 10, 63)
	if errA == nil && errB == nil {
		return cmp.Compare(m, n)
	}
	return cmp.Compare(a, b)
}

func writeTasks(w io.Writer, style console.Style, tasks []*apiv1.Task) {
	(&listing[*apiv1.Task]{columns: taskColumns()}).write(w, style, false, tasks)
}

// phaseSince returns since when a task is in its phase.
func phaseSince(t *apiv1.Task) *timestamppb.Timestamp {
	switch {
	case t.GetPhase() == "stopping":
		return t.GetDesired().GetSince()
	case t.GetPhase() == "lost" || t.GetPhase() == "gone":
		return t.GetCondition().GetSince()
	case t.GetObserved().GetState() == "" && !t.GetDead():
		return t.GetCreated()
	}
	return t.GetObserved().GetAt()
}

// taskNote is what matters most about a task beside its phase.
func taskNote(t *apiv1.Task) string {
	o := t.GetObserved()
	switch {
	case len(t.GetStalls()) > 0:
		s := t.GetStalls()[0]
		first, _, _ := strings.Cut(s.GetMessage(), "\n")
		return s.GetCode() + ": " + first
	case o.GetErr() != "":
		return o.GetErr()
	case t.GetCondition().GetReason() != "":
		return t.GetCondition().GetReason()
	case t.GetDesired().GetReason() != "" && t.GetPhase() != "running":
		return t.GetDesired().GetReason()
	}
	return o.GetMessage()
}

func phaseText(style console.Style, phase string) string {
	switch phase {
	case "running", "complete":
		return style.Green(phase)
	case "stalled", "failed", "rejected", "lost", "gone", "unhealthy":
		return style.Red(phase)
	case "pending", "starting", "stopping":
		return style.Yellow(phase)
	}
	return phase
}

func (a *app) taskInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect ID", Short: "Show all of a task; JOB/SLOT is the slot's newest", Args: takes(1, 1),
		Example: "  setpoint task inspect web/1",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.GetTask, &apiv1.GetTaskRequest{Task: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfTask(res.GetTask()), func(w io.Writer, style console.Style) { writeTask(w, style, time.Now(), res.GetTask()) })
		},
	}
}

func writeTask(w io.Writer, style console.Style, now time.Time, t *apiv1.Task) {
	d, o, c := t.GetDesired(), t.GetObserved(), t.GetCondition()
	rows := console.NewTable(style.Bold(t.GetId()), phaseText(style, t.GetPhase()))
	rows.Row("job", fmt.Sprintf("%s, version %d", t.GetJob(), t.GetJobVersion()))
	rows.Row("made for", t.GetWhy()+", "+ago(now, t.GetCreated())+" ago")
	rows.Row("node", t.GetNode())
	rows.Row("desired", sentence(d.GetState(), "by "+d.GetBy(), ago(now, d.GetSince())+" ago", d.GetReason()))
	if o.GetState() == "" {
		rows.Row("observed", "nothing yet")
	} else {
		rows.Row("observed", sentence(o.GetState(), ago(now, o.GetAt())+" ago", o.GetMessage(), o.GetErr()))
	}
	if o.GetExitCode() != 0 || o.GetState() == "complete" || o.GetState() == "failed" {
		rows.Row("exit code", fmt.Sprint(o.GetExitCode()))
	}
	rows.Row("condition", sentence(c.GetState(), c.GetReason()))
	for _, p := range t.GetPorts() {
		rows.Row("port "+p.GetName(), fmt.Sprint(p.GetNumber()))
	}
	for _, g := range t.GetAddresses() {
		rows.Row("address "+g.GetName(), g.GetAddress()+" of pool "+g.GetPool())
	}
	if spec := t.GetSpec(); spec != nil {
		rows.Row("driver", spec.GetDriver())
		rows.Row("command", strings.Join(spec.GetCommand(), " "))
	}
	rows.Write(w, console.Style{})
	writeStalls(w, style, now, t.GetStalls())
}

// sentence joins the parts that say something.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" || s == "by " }), ", ")
}

func (a *app) taskWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Show every reason that keeps a task from each node; JOB/SLOT is the slot's newest", Args: takes(1, 1),
		Example: "  setpoint task why web/1",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.connect()
			if err != nil {
				return err
			}
			res, err := ask(cmd.Context(), s, s.WhyTask, &apiv1.WhyTaskRequest{Task: args[0]})
			if err != nil {
				return err
			}
			return a.print(view.OfWhy(res), func(w io.Writer, style console.Style) {
				writeWhy(w, style, res)
				writeStalls(w, style, time.Now(), elsewhere(res.GetTask().GetStalls()))
			})
		},
	}
}

// elsewhere returns the stalls that are not about nodes, which the table of nodes does not show.
func elsewhere(stalls []*apiv1.Stall) []*apiv1.Stall {
	return slices.DeleteFunc(slices.Clone(stalls), func(s *apiv1.Stall) bool { return len(s.GetFacts().GetExcluded()) > 0 })
}

func writeWhy(w io.Writer, style console.Style, why *apiv1.WhyTaskResponse) {
	t := why.GetTask()
	fmt.Fprintf(w, "%s: %s\n", style.Bold(t.GetId()), phaseText(style, t.GetPhase()))
	if why.GetSentence() != "" {
		fmt.Fprintln(w, "  "+style.Red(why.GetSentence()))
	}
	if why.GetExceeds() != "" {
		fmt.Fprintf(w, "  It exceeds every node: no node has as much %s, even empty.\n", why.GetExceeds())
	}
	table := console.NewTable("NODE", "BY", "REASON", "DETAIL")
	for _, n := range why.GetNodes() {
		if len(n.GetReasons()) == 0 {
			table.Row(n.GetNode(), "", style.Green("fits"), "")
		}
		name := n.GetNode()
		for _, r := range n.GetReasons() {
			table.Row(name, r.GetSource(), r.GetCode(), r.GetDetail())
			name = " "
		}
	}
	if len(why.GetNodes()) > 0 {
		fmt.Fprintln(w)
		table.Write(w, style)
	}
}

func (a *app) taskLogs() *cobra.Command {
	var follow bool
	var tail int64
	var stream, since string
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print what a task printed; JOB/SLOT is the slot's newest", Args: takes(1, 1),
		Long: `Prints what a task printed and its node still keeps, of both streams in the order in which it came. How much is kept is a setting of the node's agent
and of the task's job.`,
		Example: "  setpoint task logs web/1 -f --tail 20\n  setpoint task logs web/1/7 --since 10m --stream stderr",
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := &apiv1.TaskLogsRequest{Task: args[0], Stream: stream, Follow: follow, Tail: tail}
			if since != "" {
				from, err := parseSince(since, time.Now())
				if err != nil {
					return err
				}
				ask.Since = timestamppb.New(from)
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			logs, err := s.TaskLogs(cmd.Context(), connect.NewRequest(ask))
			if err != nil {
				return refusal(s.Addr(), err)
			}
			defer logs.Close() //nolint:errcheck // what it says, Err says too
			for logs.Receive() {
				if _, err := a.out.Write(logs.Msg().GetData()); err != nil {
					return fmt.Errorf("print logs: %w", err)
				}
			}
			if err := logs.Err(); err != nil {
				return refusal(s.Addr(), err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it prints")
	cmd.Flags().Int64Var(&tail, "tail", -1, "only the last so many `lines` of what is there")
	cmd.Flags().StringVar(&stream, "stream", "", "stdout or stderr (default: both)")
	cmd.Flags().StringVar(&since, "since", "", "only what was printed since a `time`: so long ago (10m, 1h30m), or such as 2026-01-02T15:04:05Z")
	return cmd
}

// parseSince reads a time, or how long ago it was.
func parseSince(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, refuse("Say how long ago, such as 10m or 1h30m, or when, such as 2026-01-02T15:04:05Z.", "bad --since %q", text)
	}
	return at, nil
}
