package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Rebuild returns a turn of the past from what its commit wrote, for those who watch from an old revision: puts are records of the vocabulary, deleted are the
// keys of records, such as task/web/1/7. Which sections changed follows from the times that they carry, so changes of labels, of a description and of a slot's
// books are not told. The turn's state has the records that were written and no others; there is no state before it. It panics if a put is no record.
func Rebuild(rev cluster.Revision, now cluster.Time, puts []any, deleted []string) Turn {
	var out []cluster.Change
	st := NewState("")
	st.Revision, st.Now = rev, now
	by := map[string]string{}
	for _, v := range puts {
		if r, ok := v.(*cluster.Removals); ok && r.Revision == rev {
			by = removedBy(r, deleted)
		}
		if err := st.Restore(v); err != nil {
			panic(err)
		}
		out = append(out, rebuilt(v, rev, now)...)
	}
	for _, key := range deleted {
		kind, id, _ := strings.Cut(key, "/")
		switch kind {
		case "task":
			out = append(out, cluster.RemoveTask{Task: cluster.TaskID(id)})
		case "job":
			out = append(out, cluster.RemoveJob{Job: id})
		case "node":
			out = append(out, cluster.RemoveNode{Node: cluster.NodeID(id)})
		case "stall":
			out = append(out, cluster.RemoveStall{Key: id})
		case "notice":
			out = append(out, cluster.RemoveNotice{Key: id})
		}
	}
	t := Turn{State: st}
	for _, c := range out {
		t.Changes = append(t.Changes, Authored{By: c.Owner(), Change: c, For: cmp.Or(askedBy(c), by[removedKey(c)])})
	}
	return t
}

// askedBy returns who asked for a change, as far as its record says.
func askedBy(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.PutJob:
		return c.Job.Control.AskedBy
	case cluster.AddNode:
		return c.Node.Spec.AskedBy
	case cluster.SetNodeSpec:
		return c.Spec.AskedBy
	}
	return ""
}

func rebuilt(v any, rev cluster.Revision, now cluster.Time) []cluster.Change {
	var out []cluster.Change
	add := func(changed bool, c cluster.Change) {
		if changed {
			out = append(out, c)
		}
	}
	switch v := v.(type) {
	case *cluster.Task:
		fresh := v.CreatedRev == rev
		add(fresh, cluster.AddTask{Task: v})
		add(!fresh && v.Desired.Since == now, cluster.SetDesired{Task: v.ID, Desired: v.Desired})
		add(v.Placed() && v.Placement.Since == now, cluster.SetPlacement{Task: v.ID, Placement: v.Placement})
		add(v.Observed.State != cluster.ObservedNone && v.Observed.At == now, cluster.SetObserved{Task: v.ID, Observed: v.Observed})
		add(v.Condition.State == cluster.Gone && v.Condition.Since == now, cluster.SetCondition{Task: v.ID, Condition: v.Condition})
	case *cluster.Node:
		add(v.Created == rev, cluster.AddNode{Node: v})
		add(v.Created != rev && v.Status.Since == now, cluster.SetNodeStatus{Node: v.ID, Status: v.Status})
		add((v.Spec.AskedRev == rev || v.Seen[cluster.FieldAvailability] == rev) && v.Created != rev, cluster.SetNodeSpec{Node: v.ID, Spec: v.Spec})
		add(v.Drain.State != cluster.DrainNone && v.Drain.Since == now, cluster.SetDrain{Node: v.ID, Drain: v.Drain})
	case *cluster.Job:
		add(v.Control.ChangedRev == rev || v.Control.AskedRev == rev, cluster.PutJob{Job: v})
		add(v.Rebalance.Ask != 0 && v.Rebalance.Since == now, cluster.SetRebalance{Job: v.Name, Rebalance: v.Rebalance})
		add(v.Update.State != cluster.UpdateNone && v.Update.Since == now, cluster.SetUpdate{Job: v.Name, Update: v.Update})
	case *cluster.Stall:
		add(v.Changed == now, cluster.PutStall{Stall: v})
	case *cluster.Notice:
		add(v.Sent == now, cluster.PutNotice{Notice: v})
	}
	return out
}

// removals says who removed the jobs and nodes that a turn deleted; nil if it deleted none.
func removals(t Turn, deletes []any) *cluster.Removals {
	gone := map[string]string{}
	for _, v := range deletes {
		switch v := v.(type) {
		case *cluster.Job:
			gone[removedKey(cluster.RemoveJob{Job: v.Name})] = ""
		case *cluster.Node:
			gone[removedKey(cluster.RemoveNode{Node: v.ID})] = ""
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, a := range t.Changes {
		if key := removedKey(a.Change); key != "" {
			if _, deleted := gone[key]; deleted {
				gone[key] = a.For
			}
		}
	}
	out := &cluster.Removals{Revision: t.State.Revision}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		out.By = append(out.By, gone[key])
	}
	return out
}

// removedBy returns who removed the jobs and nodes among deleted keys.
func removedBy(r *cluster.Removals, deleted []string) map[string]string {
	var keys []string
	for _, key := range deleted {
		if kind, _, _ := strings.Cut(key, "/"); kind == "job" || kind == "node" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out := map[string]string{}
	for i, key := range keys {
		if i < len(r.By) {
			out[key] = r.By[i]
		}
	}
	return out
}

// removedKey returns the key of the job or node that a change removes; "" for any other.
func removedKey(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.RemoveJob:
		return "job/" + c.Job
	case cluster.RemoveNode:
		return "node/" + string(c.Node)
	}
	return ""
}
