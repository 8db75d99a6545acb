package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/client"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Detail implements top.Source: what commands print of one thing.
func (x *topSource) Detail(ctx context.Context, section, key string, style console.Style) (string, error) {
	var out strings.Builder
	switch section {
	case topStalls:
		return x.causeDetail(ctx, key, style)
	case topJobs:
		res, err := ask(ctx, x.s, x.s.GetJob, &apiv1.GetJobRequest{Job: key})
		if err != nil {
			return "", err
		}
		j := res.GetJob()
		j.Stalls = stallsOf(ctx, x.s, j)
		writeJob(&out, style, time.Now(), j)
	case topNodes:
		res, err := ask(ctx, x.s, x.s.GetNode, &apiv1.GetNodeRequest{Node: key})
		if err != nil {
			return "", err
		}
		tasks, err := listTasks(ctx, x.s, &apiv1.ListTasksRequest{Node: key})
		if err != nil {
			return "", err
		}
		sortTasks(tasks)
		writeNode(&out, style, time.Now(), res.GetNode())
		fmt.Fprintln(&out)
		writeTasks(&out, style, tasks)
	default:
		return "", errors.New("there is no section " + section)
	}
	return out.String(), nil
}

// maxListed is how many of those that wait for one cause are listed.
const maxListed = 100

// causeDetail says all of a cause: every reason of the task that has waited longest, and what else waits.
func (x *topSource) causeDetail(ctx context.Context, key string, style console.Style) (string, error) {
	stalls, err := listStalls(ctx, x.s, &apiv1.ListStallsRequest{})
	if err != nil {
		return "", err
	}
	causes := causesOf(stalls)
	i := slices.IndexFunc(causes, func(c *stallCause) bool { return c.key == key })
	if i < 0 {
		return style.Green("Nothing waits for this any more."), nil
	}
	var out strings.Builder
	c, now := causes[i], time.Now()
	writeStall(&out, style, now, c.oldest())
	if task := c.oldest().GetTask(); task != "" {
		why, err := ask(ctx, x.s, x.s.WhyTask, &apiv1.WhyTaskRequest{Task: task})
		switch {
		case err == nil:
			fmt.Fprintln(&out)
			writeWhy(&out, style, why)
		case !client.IsNotFound(err): // it may have ended since
			return "", err
		}
	}
	if len(c.stalls) > 1 {
		fmt.Fprintf(&out, "\n%s for this:\n", thingsWait(len(c.stalls)))
		for _, s := range c.stalls[:min(len(c.stalls), maxListed)] {
			fmt.Fprintf(&out, "  %s  %s\n", stallSubject(s), ago(now, s.GetSince()))
		}
		if more := len(c.stalls) - maxListed; more > 0 {
			fmt.Fprintf(&out, "  … and %d more\n", more)
		}
	}
	return out.String(), nil
}

// stallCause is all that waits for the same.
type stallCause struct {
	key    string
	code   string
	detail string // what of the code it is, such as a constraint
	since  time.Time
	quiet  bool // it is as it should be: a job works its slots off in turn
	stalls []*apiv1.Stall
}

// causesOf groups stalls, which are sorted by how long they have lasted: what waits as it should comes last, otherwise what has waited longest comes first.
func causesOf(stalls []*apiv1.Stall) []*stallCause {
	var out []*stallCause
	found := map[string]*stallCause{}
	for _, s := range stalls {
		detail := ""
		for _, e := range s.GetFacts().GetExcluded() {
			if e.GetCode() == s.GetCode() && e.GetDetail() != "" {
				detail = e.GetDetail()
				break
			}
		}
		key := strings.Join([]string{s.GetCode(), s.GetSource(), detail}, "|")
		c := found[key]
		if c == nil {
			c = &stallCause{key: key, code: s.GetCode(), detail: detail, since: timeOf(s.GetSince()), quiet: s.GetCode() == string(cluster.CodeWaitingForTurn)}
			found[key], out = c, append(out, c)
		}
		c.stalls = append(c.stalls, s)
	}
	slices.SortStableFunc(out, func(a, b *stallCause) int {
		switch {
		case a.quiet == b.quiet:
			return 0
		case a.quiet:
			return 1
		}
		return -1
	})
	return out
}

func (c *stallCause) oldest() *apiv1.Stall { return c.stalls[0] }

// waiting names what waits, or says how many of what kind.
func (c *stallCause) waiting() string {
	if len(c.stalls) == 1 {
		return stallSubject(c.stalls[0])
	}
	kinds := map[string]int64{}
	for _, s := range c.stalls {
		kinds[s.GetSubject().GetKind()]++
	}
	if len(kinds) == 1 {
		return console.Count(int64(len(c.stalls)), c.stalls[0].GetSubject().GetKind())
	}
	return fmt.Sprintf("%d things", len(c.stalls))
}

// why is the cause in one line.
func (c *stallCause) why() string {
	message := strings.TrimSuffix(c.oldest().GetMessage(), " Clears when: "+c.oldest().GetClears()+".")
	if len(c.stalls) > 1 && c.detail != "" {
		return c.detail
	}
	return message
}
