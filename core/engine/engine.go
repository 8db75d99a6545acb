package engine

import (
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/core/reconcile"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Config is what an engine is started with.
type Config struct {
	ClusterID string
	Plugins   []string      // names of the plugins that are configured; until one has described itself it may be a filter, and nothing is placed
	Heartbeat time.Duration // period in which something is to be heard of a node
	Silent    time.Duration // without a word for so long, a node is silent; 0: two periods
	Down      time.Duration // without a word for so long, a node is down; 0: three periods

	HeardPerSecond   int // with more nodes than this times Heartbeat, all three are longer in the same proportion; 0: never
	ReturnsPerSecond int // so many agents a second come back after the server's start: all nodes get as much more grace then; 0: none

	ReplaceEvery time.Duration    // the tasks of at most one node that went down are replaced in so long; 0: of all at once
	Pools        []Pool           // of addresses, each name once
	Strategy     cluster.Strategy // for jobs that say nothing; "": spread
	MaxChanges   int              // of one turn, about; 0: 4,000
	Sweep        time.Duration    // everything is looked at once more in so long, to catch what was missed; 0: never

	// Doubt has every decision made a second time, from nothing but the state, and panics if it comes out otherwise. It costs what it is the point of the first
	// one to save, and is for tests.
	Doubt bool
}

func (c Config) withDefaults() Config {
	if c.Heartbeat == 0 {
		c.Heartbeat = time.Second
	}
	if c.Silent == 0 {
		c.Silent = 2 * c.Heartbeat
	}
	if c.Down == 0 {
		c.Down = 3 * c.Heartbeat
	}
	if c.Strategy == "" {
		c.Strategy = cluster.StrategySpread
	}
	if c.MaxChanges == 0 {
		c.MaxChanges = 4000
	}
	return c
}

// Engine owns the state. Step is called by one goroutine at a time, which is the only one to touch any field but published and the queue.
type Engine struct {
	cfg       Config
	published atomic.Pointer[State]
	queue     queue

	// Owner of all that follows: the goroutine that calls Step.

	work    *State // what the newest turn made, and during a turn what becomes of it
	base    *State // during a turn: what the one before made, which is published or will be before this one is
	rev     cluster.Revision
	changes []Authored
	touched map[record]struct{}
	replies []Reply
	packer  packer
	seen    *cluster.Task // the task of work that was asked for last; nil: it was changed since
	more    bool          // the turn ended early: go on at once
	asking  string        // who asks for the command that is carried out; "": none is
	acks    []func()

	index    map[cluster.NodeID]uint32
	byIndex  []cluster.NodeID // "" where free
	ledger   ledger
	pools    map[string]*place.Pool
	groups   map[string]*group
	groupsOf map[string]map[string]*group // the same, by job
	claims   map[string]*cluster.Slot     // slots for which room is kept, by JOB/KEY
	noRoom   map[string]bool              // jobs of which some slot cannot move for want of room

	agents    map[cluster.NodeID]*agent
	monitorAt time.Duration // engine time at which to look at all nodes again
	crowd     crowd
	lookNow   bool         // something was heard that may change a node's state
	started   cluster.Time // when New was called
	recorder  *Recorder    // nil: nothing is recorded
	phase     func(Phase)  // is told of each phase of a turn as it begins; nil: nobody wants to know. What is decided does not depend on it
	still     bool         // nodes keep their states: this is a copy, on which something is tried

	plugins       map[string]*pluginState
	strangersGone bool                         // nothing is left of what plugins have said that are not configured
	pluginNames   []string                     // sorted
	jobClasses    map[string]map[string]uint32 // job → plugin → class
	answered      map[string]bool              // jobs whose slots a plugin decides
	question      uint64

	books        map[string]*reconcile.Book // of jobs, by name
	dirtyJobs    map[string]bool
	leftOver     map[string]bool         // those of them for which the turn before had no room
	onTheWay     map[string]bool         // jobs of which the last decision changed something, and whether a task was placed since
	dirtyNodes   map[cluster.NodeID]bool // whose drain or use changed
	changedNodes map[uint32]bool         // whose room, readiness or availability changed
	wakes        alarms                  // when jobs are to be looked at again

	requestsByAge btree.Map[string, string] // ids of requests that are remembered

	sweep sweep
}

// agent is what is known of a node's agent. It is not stored.
type agent struct {
	session   uint64
	reported  bool
	confirmed bool                    // an operator said that its silence means that it is down
	named     map[cluster.TaskID]bool // in the full report under way
	last      cluster.Time
	grace     cluster.Time // when it was given one more: at the server's start, and after a mass silence
	strays    int          // that it still stops
	spoke     bool         // it has reported every task that it knows once since the server started
}

// New returns an engine that continues from a state, which it takes over. now is the moment of the start: engine time goes on from the state's.
func New(cfg Config, st *State, now cluster.Time) *Engine {
	st.words = nil
	st.compact()
	e := blank(cfg, st)
	e.started = now
	e.load(now)
	return e
}

// Record has a recorder write down what the engine is given and decides. It is called before the first Step.
func (e *Engine) Record(r *Recorder, program string) {
	r.Begin(program, e.cfg, e.work, e.started)
	e.recorder = r
}

// blank returns an engine that has not looked at the state yet.
func blank(cfg Config, st *State) *Engine {
	e := &Engine{
		cfg: cfg.withDefaults(), work: st, rev: st.Revision, touched: map[record]struct{}{}, pools: newPools(cfg.Pools),
		index: map[cluster.NodeID]uint32{}, groups: map[string]*group{}, groupsOf: map[string]map[string]*group{}, claims: map[string]*cluster.Slot{}, noRoom: map[string]bool{}, agents: map[cluster.NodeID]*agent{},
		plugins: map[string]*pluginState{}, jobClasses: map[string]map[string]uint32{}, answered: map[string]bool{},
		books: map[string]*reconcile.Book{}, dirtyJobs: map[string]bool{}, leftOver: map[string]bool{}, onTheWay: map[string]bool{}, dirtyNodes: map[cluster.NodeID]bool{}, changedNodes: map[uint32]bool{}, wakes: newAlarms(),
	}
	e.queue.init()
	return e
}

// load derives from the state what is kept beside it.
func (e *Engine) load(now cluster.Time) {
	st := e.work
	e.lookNow = true
	for _, name := range e.cfg.Plugins {
		e.plugin(name)
	}
	if nodes := st.nodes.Len(); nodes > 0 {
		e.ledger.jobsOnNode = min(st.jobs.Len(), st.tasks.Len()/nodes)
	}
	for n := range st.Nodes() {
		i := e.indexOf(n.ID)
		e.ledger.describe(i, n)
		e.agents[n.ID] = &agent{last: now, grace: now}
		e.block(n.ID, e.agents[n.ID])
		e.dirtyNodes[n.ID] = true
	}
	e.ledger.jobsOnNode = 0 // of a node that joins, nothing is known
	for j := range st.Jobs() {
		e.register(j)
		e.dirtyJobs[j.Name] = true
	}
	st.slots.Scan(func(id string, s packedSlot) bool {
		if s.has(slotKeeps) {
			e.keepClaim(s.unpack(id))
		}
		return true
	})
	for r := range values(st.requests) {
		e.requestsByAge.Set(age(r), r.ID())
	}
	e.loadTasks()
	e.published.Store(st)
}

// View returns the newest committed state.
func (e *Engine) View() *State { return e.published.Load() }

// Config returns what the engine was started with, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }
