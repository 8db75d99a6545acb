package api

import (
	"fmt"
	"strings"

	"github.com/setpointd/setpoint/core/engine"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// stallView returns a stall as people look at it, with what it is about.
func stallView(s *engine.State, stall *cluster.Stall) *apiv1.Stall {
	v := &apiv1.Stall{
		Subject: &apiv1.Subject{Kind: string(stall.Subject.Kind), Id: stall.Subject.ID},
		Code:    string(stall.Code), Source: stall.Source, Message: stall.Message, Since: timestamp(stall.Since),
		Changed: timestamp(stall.Changed), Facts: factsView(&stall.Facts), Clears: stall.Clears,
	}
	if v.GetMessage() == "" {
		v.Message = sentence(stall)
	}
	about(s, stall.Subject, v)
	return v
}

// about fills in which job, slot, task and node a subject belongs to.
func about(s *engine.State, subject cluster.Subject, v *apiv1.Stall) {
	switch subject.Kind {
	case cluster.SubjectTask:
		v.Task = subject.ID
		v.Job, v.Slot = partsOfTask(subject.ID)
		if t := s.Task(cluster.TaskID(subject.ID)); t != nil && t.Placed() {
			v.NodeId, v.Node = string(t.Placement.Node), nodeName(s, t.Placement.Node)
		}
	case cluster.SubjectSlot:
		v.Job, v.Slot, _ = strings.Cut(subject.ID, "/")
	case cluster.SubjectGroup, cluster.SubjectJob, cluster.SubjectUpdate:
		v.Job = subject.Job()
	case cluster.SubjectNode:
		v.NodeId, v.Node = subject.ID, nodeName(s, cluster.NodeID(subject.ID))
	case cluster.SubjectPlugin, cluster.SubjectCluster:
	}
}

func partsOfTask(id string) (job, slot string) {
	j, key, _, err := cluster.TaskID(id).Parts()
	if err != nil {
		return "", ""
	}
	return j, string(key)
}

func factsView(f *cluster.Facts) *apiv1.Facts {
	v := &apiv1.Facts{Nodes: int64(f.Nodes)}
	for _, e := range f.Excluded {
		v.Excluded = append(v.Excluded, &apiv1.Exclusion{Source: e.Source, Code: string(e.Code), Detail: e.Detail, Count: int64(e.Count)})
	}
	return v
}

// sentence says a stall from its facts alone, for one that has no message of its own.
func sentence(stall *cluster.Stall) string {
	if len(stall.Facts.Excluded) == 0 {
		return string(stall.Code)
	}
	reasons := make([]string, len(stall.Facts.Excluded))
	for i, e := range stall.Facts.Excluded {
		reasons[i] = strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Count, e.Code, e.Detail))
	}
	return fmt.Sprintf("no node can run it (%d nodes: %s)", stall.Facts.Nodes, strings.Join(reasons, ", "))
}

// nameNodes adds to the facts of a stall which nodes each reason excludes, as far as they are excluded for the same reason still.
func nameNodes(f *apiv1.Facts, nodes []engine.WhyNode) {
	for _, n := range nodes {
		if len(n.Reasons) == 0 {
			continue
		}
		if e := exclusionOf(f, n.Reasons[0]); e != nil {
			e.Nodes = append(e.Nodes, n.Name)
		}
	}
}

// exclusionOf returns the exclusion under which a node with that first reason was counted, or nil. A reason's detail has amounts, that of an
// exclusion is the name of what lacks.
func exclusionOf(f *apiv1.Facts, r engine.WhyReason) *apiv1.Exclusion {
	var same *apiv1.Exclusion
	for _, e := range f.GetExcluded() {
		if e.GetSource() != r.Source || e.GetCode() != string(r.Code) || int(e.GetCount()) == len(e.GetNodes()) {
			continue
		}
		if strings.Contains(r.Detail, e.GetDetail()) && (same == nil || len(e.GetDetail()) > len(same.GetDetail())) {
			same = e
		}
	}
	return same
}
