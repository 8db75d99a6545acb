package reconcile

import "github.com/setpointd/setpoint/sdk/cluster"

// Node says how far a node's drain has come. A node that is not being drained has no progress.
func Node(v View, id cluster.NodeID, now cluster.Time) Result {
	var r Result
	n := v.Node(id)
	if n == nil {
		return r
	}
	is := cluster.DrainStatus{}
	if n.Spec.Availability == cluster.Drain {
		is.State = cluster.Drained
		for t := range v.TasksOn(id) {
			switch {
			case t.Dead():
			case n.Down():
				is.Lost++
			default:
				is.Left++
				is.State = cluster.Draining
			}
		}
	}
	is.Since = n.Drain.Since
	if is.State != n.Drain.State {
		is.Since = now
	}
	if is.State == cluster.DrainNone {
		is.Since = cluster.Time{}
	}
	if is != n.Drain {
		r.add(cluster.SetDrain{Node: id, Drain: is})
	}
	return r
}
