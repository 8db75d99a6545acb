// Package sim runs a whole cluster in one goroutine from a seed: the real engine and the real logic of plugins, with agents, operators and faults that it
// plays itself, in time that it makes.
//
// It imports the engine, the store's memory backend and the SDK; nothing imports it but tests. What its agents record of their processes is the truth that
// invariants are checked against.
package sim
