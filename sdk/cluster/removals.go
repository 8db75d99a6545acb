package cluster

// Removals says who had jobs and nodes removed in one turn, which nothing else tells once their records are gone. A store has one, of the newest turn that
// removed any; those before it are in the store's log. It is no part of a cluster's state.
type Removals struct {
	Revision Revision // of the turn
	By       []string // one for each job and node that it removed, in the order of their keys in the store
}
