package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// The kinds of event.
const (
	NodeJoined         = "node_joined"
	NodeRemoved        = "node_removed"
	NodeDescribed      = "node_described"
	NodeState          = "node_state"
	NodeDrain          = "node_drain"
	NodeAvailability   = "node_availability"
	NodeLabels         = "node_labels"
	NodeDecommissioned = "node_decommissioned"
	JobCreated         = "job_created"
	JobVersion         = "job_version"
	JobChanged         = "job_changed"
	JobRemoved         = "job_removed"
	JobUpdate          = "job_update"
	JobRebalance       = "job_rebalance"
	SlotCreated        = "slot_created"
	SlotChanged        = "slot_changed"
	SlotRemoved        = "slot_removed"
	TaskCreated        = "task_created"
	TaskPlaced         = "task_placed"
	TaskDesired        = "task_desired"
	TaskObserved       = "task_observed"
	TaskCondition      = "task_condition"
	TaskRemoved        = "task_removed"
	Stalled            = "stalled"
	StallChanged       = "stall_changed"
	StallCleared       = "stall_cleared"
)

// eventsOf returns what people are told of a turn. Bookkeeping is left out.
func eventsOf(turn engine.Turn) []*apiv1.Event {
	if turn.Before == nil {
		turn.Before = engine.NewState(turn.State.ClusterID)
	}
	var out []*apiv1.Event
	at := timestamp(turn.State.Now)
	for _, a := range turn.Changes {
		e := eventOf(turn, a.Change)
		if e == nil {
			continue
		}
		e.Revision, e.Time, e.Author, e.By = uint64(turn.State.Revision), at, string(a.By), a.For
		out = append(out, e)
	}
	return out
}

func eventOf(turn engine.Turn, c cluster.Change) *apiv1.Event {
	switch c := c.(type) {
	case cluster.AddNode, cluster.SetNodeSpec, cluster.RemoveNode, cluster.SetNodeDescription, cluster.SetNodeStatus, cluster.SetDrain:
		return nodeEvent(turn, c)
	case cluster.PutJob, cluster.RemoveJob, cluster.SetUpdate, cluster.SetRebalance:
		return jobEvent(turn, c)
	case cluster.PutSlot:
		return slotEvent(turn, c.Slot)
	case cluster.RemoveSlot:
		return eventOfSlot(SlotRemoved, c.Job, c.Key, "removed")
	case cluster.PutStall:
		return stallEvent(turn, c.Stall)
	case cluster.RemoveStall:
		return clearedEvent(turn, c.Key)
	}
	return taskEvent(turn, c)
}

func nodeEvent(turn engine.Turn, c cluster.Change) *apiv1.Event {
	event := func(kind string, id cluster.NodeID, format string, args ...any) *apiv1.Event {
		name := nodeName(turn.State, id)
		if turn.State.Node(id) == nil {
			name = nodeName(turn.Before, id)
		}
		return &apiv1.Event{
			Kind: kind, Subject: &apiv1.Subject{Kind: string(cluster.SubjectNode), Id: string(id)}, Node: name, NodeId: string(id),
			Text: name + " " + fmt.Sprintf(format, args...),
		}
	}
	switch c := c.(type) {
	case cluster.AddNode:
		return event(NodeJoined, c.Node.ID, "joined")
	case cluster.RemoveNode:
		return event(NodeRemoved, c.Node, "was removed")
	case cluster.SetNodeDescription:
		return event(NodeDescribed, c.Node, "described itself")
	case cluster.SetNodeStatus:
		return event(NodeState, c.Node, "is %s", c.Status.State)
	case cluster.SetDrain:
		switch c.Drain.State {
		case cluster.DrainNone:
			return event(NodeDrain, c.Node, "is not drained any more")
		case cluster.Draining:
			return event(NodeDrain, c.Node, "is draining: %d left", c.Drain.Left)
		case cluster.Drained:
			if c.Drain.Lost > 0 {
				return event(NodeDrain, c.Node, "is drained, %d lost, not confirmed", c.Drain.Lost)
			}
			return event(NodeDrain, c.Node, "is drained")
		}
	case cluster.SetNodeSpec:
		kind, text := specChange(turn, c)
		return event(kind, c.Node, "%s", text)
	}
	return nil
}

// fromLog reports whether a turn was read from the log, which has what was written and not what was there before.
func fromLog(turn engine.Turn) bool { return turn.Before.Revision+1 != turn.State.Revision }

// specChange says what an operator changed about a node.
func specChange(turn engine.Turn, c cluster.SetNodeSpec) (kind, text string) {
	before, now := turn.Before.Node(c.Node), &c.Spec
	if n := turn.State.Node(c.Node); fromLog(turn) && n != nil && n.Seen[cluster.FieldLabels] == turn.State.Revision {
		before = &cluster.Node{Spec: cluster.NodeSpec{Availability: now.Availability, Decommissioned: now.Decommissioned}}
	}
	switch {
	case now.Decommissioned && (before == nil || !before.Spec.Decommissioned):
		return NodeDecommissioned, "was decommissioned"
	case before == nil || before.Spec.Availability != now.Availability:
		return NodeAvailability, "was set to " + string(now.Availability)
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(now.Labels)) {
		if old, ok := before.Spec.Labels[key]; !ok || old != now.Labels[key] {
			parts = append(parts, key+"="+now.Labels[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before.Spec.Labels)) {
		if _, ok := now.Labels[key]; !ok {
			parts = append(parts, key+"-")
		}
	}
	return NodeLabels, strings.TrimSpace("was labelled " + strings.Join(parts, " "))
}

func jobEvent(turn engine.Turn, c cluster.Change) *apiv1.Event {
	event := func(kind, job, text string) *apiv1.Event {
		return &apiv1.Event{Kind: kind, Subject: &apiv1.Subject{Kind: string(cluster.SubjectJob), Id: job}, Job: job, Text: job + " " + text}
	}
	switch c := c.(type) {
	case cluster.RemoveJob:
		return event(JobRemoved, c.Job, "was removed")
	case cluster.PutJob:
		kind, text := jobChange(turn, c.Job)
		return event(kind, c.Job.Name, text)
	case cluster.SetUpdate:
		if c.Update.State == cluster.UpdateNone {
			return nil
		}
		text := fmt.Sprintf("update to version %d: %s, %d of %d moved", c.Update.To, c.Update.State, c.Update.Moved, c.Update.Total)
		if c.Update.Message != "" {
			text += ": " + c.Update.Message
		}
		return event(JobUpdate, c.Job, text)
	case cluster.SetRebalance:
		text := fmt.Sprintf("rebalance: %d moved", c.Rebalance.Moved)
		if c.Rebalance.Ended {
			text += ", ended"
		}
		return event(JobRebalance, c.Job, text)
	}
	return nil
}

// jobChange says what was asked of a job.
func jobChange(turn engine.Turn, job *cluster.Job) (kind, text string) {
	before, now := turn.Before.Job(job.Name), &job.Control
	if fromLog(turn) && before == nil && job.CreatedRev != turn.State.Revision {
		before = &cluster.Job{Control: *now}
		before.Control.Stopped, before.Control.UpdateHold = false, false
		if now.ChangedRev == turn.State.Revision {
			before.Control.Version = 0
		}
	}
	switch {
	case before == nil:
		return JobCreated, "was created"
	case now.Version != before.Control.Version:
		reason := ""
		if v := slices.IndexFunc(now.Versions, func(v cluster.JobVersion) bool { return v.Version == now.Version }); v >= 0 {
			reason = now.Versions[v].Reason
		}
		return JobVersion, strings.TrimSuffix(fmt.Sprintf("has version %d: %s", now.Version, reason), ": ")
	case now.Stopped && !before.Control.Stopped:
		return JobChanged, "was told to stop"
	case !now.Stopped && before.Control.Stopped:
		return JobChanged, "was told to start"
	case now.UpdateHold != before.Control.UpdateHold && now.UpdateHold:
		return JobChanged, "update was paused"
	case now.Resumes != before.Control.Resumes, now.UpdateHold != before.Control.UpdateHold:
		return JobChanged, "update was resumed"
	case now.Rebalances != before.Control.Rebalances:
		return JobChanged, "is to be rebalanced"
	case now.RebalancesEnded != before.Control.RebalancesEnded && now.Cancelled != before.Control.Cancelled:
		return JobChanged, "update and rebalance were cancelled"
	case now.RebalancesEnded != before.Control.RebalancesEnded:
		return JobChanged, "rebalance was cancelled"
	case now.Cancelled != before.Control.Cancelled:
		return JobChanged, "update was cancelled"
	}
	return JobChanged, "was changed"
}

func eventOfSlot(kind, job string, key cluster.SlotKey, text string) *apiv1.Event {
	id := job + "/" + string(key)
	return &apiv1.Event{Kind: kind, Subject: &apiv1.Subject{Kind: string(cluster.SubjectSlot), Id: id}, Job: job, Text: id + " " + text}
}

func slotEvent(turn engine.Turn, s *cluster.Slot) *apiv1.Event {
	before := turn.Before.Slot(s.Job, s.Key)
	switch {
	case before == nil:
		return eventOfSlot(SlotCreated, s.Job, s.Key, "is a new slot")
	case s.Unwanted && !before.Unwanted:
		return eventOfSlot(SlotChanged, s.Job, s.Key, "is not wanted any more")
	case !s.Unwanted && before.Unwanted:
		return eventOfSlot(SlotChanged, s.Job, s.Key, "is wanted again")
	case s.Held != "" && before.Held == "":
		return eventOfSlot(SlotChanged, s.Job, s.Key, "is held: "+s.Held)
	case s.Held == "" && before.Held != "":
		return eventOfSlot(SlotChanged, s.Job, s.Key, "is not held any more")
	case s.Failed && !before.Failed:
		return eventOfSlot(SlotChanged, s.Job, s.Key, "failed: its tasks did not end well, and it gets no other")
	case s.Done && !before.Done:
		return eventOfSlot(SlotChanged, s.Job, s.Key, "needs no task any more")
	}
	return nil
}
