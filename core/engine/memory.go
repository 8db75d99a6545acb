package engine

// GCPercent is by how many percent the memory of a process whose engine keeps a large state should grow before garbage is collected, for debug.SetGCPercent. Go's
// own 100 asks for twice what lives. A state has few pointers for its size, so that collecting more often costs little.
const GCPercent = 50
