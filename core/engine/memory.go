package engine

import "runtime/debug"

// GCPercent is by how many percent the memory of a process whose engine keeps a large state should grow before garbage is collected, for debug.SetGCPercent. Go's
// own 100 asks for twice what lives. A state has few pointers for its size, so that collecting more often costs little.
const GCPercent = 50

// Uncollected calls load with the collection of garbage off. While a state is loaded nearly everything that is allocated stays, so that looking for garbage again and
// again, as the state grows, takes a tenth of the time and finds little. A limit of memory (GOMEMLIMIT) holds as ever.
func Uncollected(load func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return load()
}
