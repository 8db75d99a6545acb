package api

import (
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func taskEvent(turn engine.Turn, c cluster.Change) *apiv1.Event {
	switch c := c.(type) {
	case cluster.AddTask:
		return eventOfTask(turn, TaskCreated, c.Task.ID, because("was created", c.Task.Why))
	case cluster.SetDesired:
		text := fmt.Sprintf("should go to %s", c.Desired.State)
		if c.Desired.By != "" {
			text += ", says " + c.Desired.By
		}
		return eventOfTask(turn, TaskDesired, c.Task, because(text, c.Desired.Reason))
	case cluster.SetPlacement:
		return eventOfTask(turn, TaskPlaced, c.Task, "was placed on "+nodeName(turn.State, c.Placement.Node))
	case cluster.SetObserved:
		return eventOfTask(turn, TaskObserved, c.Task, observedText(&c.Observed))
	case cluster.SetCondition:
		return eventOfTask(turn, TaskCondition, c.Task, because("is "+string(c.Condition.State), c.Condition.Reason))
	case cluster.RemoveTask:
		return eventOfTask(turn, TaskRemoved, c.Task, "was forgotten")
	}
	return nil
}

func eventOfTask(turn engine.Turn, kind string, id cluster.TaskID, text string) *apiv1.Event {
	e := &apiv1.Event{
		Kind: kind, Subject: &apiv1.Subject{Kind: string(cluster.SubjectTask), Id: string(id)}, Task: string(id), Text: string(id) + " " + text,
	}
	e.Job, _ = partsOfTask(string(id))
	t, s := turn.State.Task(id), turn.State
	if t == nil {
		t, s = turn.Before.Task(id), turn.Before
	}
	if t != nil && t.Placed() {
		e.NodeId, e.Node = string(t.Placement.Node), nodeName(s, t.Placement.Node)
	}
	return e
}

func observedText(o *cluster.Observed) string {
	text := "is " + o.State.String()
	if o.State == cluster.Running && !o.Healthy {
		text += ", not healthy"
	}
	if o.State == cluster.Failed && o.Err == "" {
		text += fmt.Sprintf(", exit code %d", o.ExitCode)
	}
	return because(because(text, o.Message), o.Err)
}

func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// eventOfStall returns an event about what waits. A group is shown as its job.
func eventOfStall(s *engine.State, kind string, stall *cluster.Stall, text string) *apiv1.Event {
	var v apiv1.Stall
	about(s, stall.Subject, &v)
	subject := stall.Subject
	if subject.Kind == cluster.SubjectGroup {
		subject = cluster.Subject{Kind: cluster.SubjectJob, ID: v.GetJob()}
	}
	name := subject.ID
	if subject.Kind == cluster.SubjectNode {
		name = v.GetNode()
	}
	return &apiv1.Event{
		Kind: kind, Subject: &apiv1.Subject{Kind: string(subject.Kind), Id: subject.ID}, Job: v.GetJob(), Task: v.GetTask(), Node: v.GetNode(),
		NodeId: v.GetNodeId(), Text: strings.TrimSpace(name + " " + text),
	}
}

func stallEvent(turn engine.Turn, stall *cluster.Stall) *apiv1.Event {
	message := stall.Message
	if message == "" {
		message = sentence(stall)
	}
	before := stallOf(turn.Before, stall.Key())
	if before == nil {
		return eventOfStall(turn.State, Stalled, stall, because("waits, "+string(stall.Code), message))
	}
	return eventOfStall(turn.State, StallChanged, stall, because("still waits, "+string(stall.Code), message))
}

func clearedEvent(turn engine.Turn, key string) *apiv1.Event {
	stall := stallOf(turn.Before, key)
	if stall == nil {
		subject, _ := subjectOf(key)
		return eventOfStall(turn.State, StallCleared, &cluster.Stall{Subject: subject}, "does not wait any more")
	}
	return eventOfStall(turn.Before, StallCleared, stall, "does not wait any more: "+string(stall.Code))
}

// stallOf returns the stall of that key, or nil.
func stallOf(s *engine.State, key string) *cluster.Stall {
	subject, ok := subjectOf(key)
	if !ok {
		return nil
	}
	for _, stall := range s.StallsOf(subject) {
		if stall.Key() == key {
			return stall
		}
	}
	return nil
}

// subjectOf returns the subject in a stall's key.
func subjectOf(key string) (cluster.Subject, bool) {
	text, _, _ := strings.Cut(key, "|")
	kind, id, ok := strings.Cut(text, ":")
	return cluster.Subject{Kind: cluster.SubjectKind(kind), ID: id}, ok
}
