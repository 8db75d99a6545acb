package sdktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// drawDrain draws a node of the given id that is to be emptied, and what is on it.
func (j *judge) drawDrain(id cluster.NodeID) sdk.DrainRequest {
	req := sdk.DrainRequest{Node: j.c.cases.Node(j.r, id), Waited: pick(j.r, []time.Duration{0, time.Minute, 2 * time.Hour})}
	req.Node.Spec.Availability = cluster.Drain
	req.Deadline = pick(j.r, []time.Duration{0, time.Hour})
	for i := range j.r.IntN(12) {
		req.Tasks = append(req.Tasks, j.drawTask(i))
	}
	return req
}

func (j *judge) drawTask(i int) sdk.DrainTask {
	r := j.r
	out := Task(pick(r, []string{"web", "db", "log"}), uint64(i+1))
	out.JobType = pick(r, []string{cluster.TypeReplicated, cluster.TypeBatch, "global"})
	out.OnDrain = pick(r, []cluster.OnDrain{cluster.DrainFirst, cluster.DrainLast})
	out.Desired = pick(r, []cluster.DesiredState{cluster.DesiredRunning, cluster.DesiredComplete, cluster.DesiredShutdown})
	out.Observed = pick(r, []cluster.ObservedState{cluster.ObservedNone, cluster.Starting, cluster.Running})
	out.Healthy = r.IntN(3) > 0
	out.Priority = r.IntN(101)
	out.Labels = map[string]string{pick(r, j.c.words.keys): pick(r, j.c.words.values)}
	return out
}

// drain tells the plugin of the node and asks about it.
func (j *judge) drain(h *Host, req sdk.DrainRequest) *pluginv1.DrainAnswer {
	h.UpdateNode(req.Node)
	a, failure := h.Drain(req)
	if failure != nil {
		h.fail(ruleOf(failure), "%s", failureText(failure))
	}
	return a
}

func tasksText(tasks []sdk.DrainTask) string {
	var out []string
	for i := range tasks {
		t := &tasks[i]
		out = append(out, fmt.Sprintf("%s (%s, desired %s, observed %s, %s)", shorten(string(t.ID)), t.JobType, t.Desired, t.Observed, t.OnDrain))
	}
	if len(out) == 0 {
		return "no tasks"
	}
	return "tasks " + strings.Join(out, ", ")
}

// valid asks about drains and slots, and checks that the answers speak of what there is.
func (c *checker) valid(j *judge) {
	h := j.host(j.running(), Options{MaxMessageBytes: smallMessages})
	nodes := j.drawNodes(8)
	h.SetNodes(nodes...)
	j.sent = func() string { return "nodes: " + nodesText(nodes) }
	a := c.cases.register(h).answers()
	for i := range a.jobs {
		for _, s := range a.jobs[i].Slots {
			if len(s.Key) > cluster.MaxNodeNameLen || strings.ContainsAny(string(s.Key), "/\n\x00") {
				j.broken(Violation{
					Got:  fmt.Sprintf("%s has a slot with the key %q", jobText(c.cases.Jobs[i]), shortenTo(string(s.Key), 300)),
					Want: fmt.Sprintf("keys of at most %d bytes without / and line breaks, since they are part of task ids", cluster.MaxNodeNameLen),
				})
			}
		}
	}
	for i, x := range a.classes {
		for id, v := range x.Verdicts {
			if !v.Allowed && v.Code == "" {
				j.broken(Violation{Got: fmt.Sprintf("%s: node %s is refused without a code", classText(c.cases.Classes[i]), id)})
			}
		}
	}
	if !c.is(sdk.InterfaceDrainer) {
		return
	}
	for range c.cases.Rounds {
		req := j.drawDrain("n00")
		j.sent = func() string { return strings.TrimPrefix(j.drainSent(req), "\n") }
		if v := validDrain(req, j.drain(h, req)); v != nil {
			j.broken(*v)
		}
	}
}

// validDrain returns what an answer about a drain says that cannot be.
func validDrain(req sdk.DrainRequest, a *pluginv1.DrainAnswer) *Violation {
	bad := func(want, format string, args ...any) *Violation {
		return &Violation{Got: fmt.Sprintf(format, args...), Want: want}
	}
	said := map[string]bool{}
	find := func(id string) int {
		return slices.IndexFunc(req.Tasks, func(t sdk.DrainTask) bool { return string(t.ID) == id })
	}
	for _, x := range a.Transitions {
		i := find(x.Task)
		switch {
		case i < 0:
			return bad("tasks of the request only", "a transition of task %q", shorten(x.Task))
		case said[x.Task]:
			return bad("each task at most once", "two answers about task %s", x.Task)
		case x.To != cluster.DesiredShutdown.String() && x.To != cluster.DesiredRemove.String():
			return bad("shutdown or remove", "a transition of task %s to %q", x.Task, x.To)
		case x.To == cluster.DesiredShutdown.String() && !req.Tasks[i].Desired.Before(cluster.DesiredShutdown):
			return bad("nothing about it, or remove", "a transition of task %s to shutdown, which it was told before", x.Task)
		}
		said[x.Task] = true
	}
	for _, k := range a.Kept {
		switch {
		case find(k.Task) < 0:
			return bad("tasks of the request only", "task %q is kept", shorten(k.Task))
		case said[k.Task]:
			return bad("each task at most once", "two answers about task %s", k.Task)
		case k.GetStall().GetCode() == "":
			return bad("a code that says why", "task %s is kept without a code", k.Task)
		}
		said[k.Task] = true
	}
	return nil
}
