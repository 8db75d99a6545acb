package sdk

import (
	"context"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Filter decides on which nodes a task may run.
type Filter interface {
	// Compile turns a job's requirements into a Matcher. A *Stall error is shown on the job's waiting tasks (a constraint that cannot be parsed, say); nil,
	// nil means that this filter does not care about such tasks. Compile is called from several goroutines at once.
	Compile(ctx context.Context, req CompileRequest) (Matcher, error)
}

// CompileRequest is what jobs of one class have in common.
type CompileRequest struct {
	JobType  string
	Labels   map[string]string
	Settings Settings // what the job says to this plugin; empty if nothing
}

// Matcher judges nodes for one class. It is called by one goroutine at a time and must depend on the node alone, besides what it was compiled with.
type Matcher interface {
	// Match returns nil if tasks may run on the node, or a *Stall: the code and fact behind the refusal, and whether it evicts. The node must not be changed
	// and not be kept.
	Match(n *cluster.Node) error
}

// MatchFunc is a Matcher that is nothing but its Match.
type MatchFunc func(n *cluster.Node) error

// Match calls f.
func (f MatchFunc) Match(n *cluster.Node) error { return f(n) }

// Ranker is optional on a Matcher.
type Ranker interface {
	// Rank says how welcome the task is on a node that it may use, from -100 to 100; what lies beyond is cut off. The ranks of several filters are added.
	Rank(n *cluster.Node) int
}

// Expirer is optional on a Matcher.
type Expirer interface {
	// Expires says how long the answers hold if nothing changes; after that the class is compiled again. Zero or less: for ever.
	Expires() time.Duration
}
