package engine

import (
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// words keeps one copy of each text while a state is loaded: what is decoded has a copy of its own in each record, and a job's name stands in all its tasks.
type words map[string]string

func same[T ~string](w words, text *T) {
	if *text == "" {
		return
	}
	if known, ok := w[string(*text)]; ok {
		*text = T(known)
		return
	}
	w[string(*text)] = string(*text)
}

func (w words) node(n *cluster.Node) {
	same(w, &n.ID)
	same(w, &n.Spec.Availability)
	same(w, &n.Status.State)
}

// slot makes the slot's key a part of its id, which is kept anyhow.
func (w words) slot(s *cluster.Slot, id string) {
	same(w, &s.Job)
	s.Key = cluster.SlotKey(id[len(s.Job)+1:])
	same(w, &s.Held)
	same(w, &s.AvoidNode)
	same(w, &s.NotUpWhy)
	same(w, &s.MovedBy)
	same(w, &s.Leaves)
	same(w, &s.Claim)
	w.nodes(s.Nodes)
}

// task makes the task's slot a part of its id.
func (w words) task(t *cluster.Task) {
	same(w, &t.Job)
	if prefix := t.Job + "/" + string(t.Slot) + "/"; strings.HasPrefix(string(t.ID), prefix) {
		t.Slot = cluster.SlotKey(t.ID[len(t.Job)+1 : len(prefix)-1])
	}
	same(w, &t.Why)
	same(w, &t.Avoid)
	w.nodes(t.Nodes)
	same(w, &t.Desired.Reason)
	same(w, &t.Desired.By)
	same(w, &t.Placement.Node)
	same(w, &t.Observed.Message)
	same(w, &t.Condition.State)
	same(w, &t.Condition.Reason)
	for i := range t.Reserve.Ports {
		same(w, &t.Reserve.Ports[i].Name)
	}
	for i := range t.Placement.Ports {
		same(w, &t.Placement.Ports[i].Name)
	}
}

func (w words) nodes(ids []cluster.NodeID) {
	for i := range ids {
		same(w, &ids[i])
	}
}
