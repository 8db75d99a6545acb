package engine

import "github.com/setpointd/setpoint/sdk/cluster"

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
