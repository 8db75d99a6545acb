package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/setpointd/setpoint/client"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

const (
	sampleEvery = 200 * time.Millisecond
	// lag is how long what the server says may differ from what is true on the nodes.
	lag = time.Second
	// settling is how long it may after a start of the server: the longest pause that an agent makes before it tries to reach the server again, and a bit.
	settling = 10 * time.Second
	// lagSamples is in how many samples in a row it must differ besides, so that a sampler that was itself held up accuses nobody.
	lagSamples = 4
	// returning is how long a node that was cut off has to end what was replaced meanwhile.
	returning = 10 * time.Second
	// underWay is for how long after an acknowledgement what was sent before it may still arrive.
	underWay = 500 * time.Millisecond
	// forgetting is how long after a deletion something may still name what was deleted.
	forgetting = 10 * time.Second
	// mentionsEvery is in which of so many samples one looks for what names something deleted.
	mentionsEvery = 5
	// thereAndBack is how often in a row a stall may have changed there and back between two samples.
	thereAndBack = 2
	// mostViolations are reported in full; one fault shows in many samples.
	mostViolations = 20
)

// Sampler compares, five times a second, what the server says with what is true on the nodes, and makes the test fail when an invariant does not hold:
//
//	V1 a slot has at most one task alive, one more while a start-first replacement may run, and those on a node that is or was just cut off
//	V2 what a node's tasks reserve is what the server says is used, the rest is free, and neither is less than nothing
//	V3 no agent begins to start a task later than a drain or pause of its node was acknowledged, or while its node is down
//	V4 a task that has not advanced for 5 s says why, one that runs or has ended does not; since stays as long as a stall does
//	V5 what is listed as running is what is alive on nodes that can be reached, with a second's delay; for ten seconds after a start of the server agents may
//	   be backing off, and nothing is said of them
//	V6 no task, job, port, stall, event or line of the server's log names a job 10 s after its removal, or a task 10 s after its record went; as long as a
//	   process of it is alive, something may
//
// V7 (no panic, and no more files, threads and memory at the end than at the beginning) is held when the cluster ends, V8 (every command ends in time, with
// a documented code) where commands are run.
type Sampler struct {
	c      *Cluster
	client *client.Client
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time

	mu      sync.Mutex // guards what follows
	samples int
	said    map[string]bool

	differs map[string]difference // V5
	still   map[string]stillness  // V4, by task
	stalls  map[string]stallSeen  // V4, by task and stall
	down    map[string][]span     // V3, by node
	memory  memory                // V6

	reserved map[string]int64 // V2, milli-CPU by task
}

type difference struct {
	since   time.Time
	samples int
}

type stillness struct {
	state string
	since time.Time
}

type stallSeen struct {
	since, changed time.Time
	content        string
	again          int // how often in a row changed moved and the content was the same; it may have changed there and back between two samples
}

// view is what the server said in one sample.
type view struct {
	at    time.Time
	same  bool // nodes and tasks are of one revision
	nodes []*apiv1.Node
	tasks []*apiv1.Task
	lives []Life
	procs []Process

	seen   time.Time      // when the server's answers were complete
	starts []Attempt      // all that were begun so far
	said   []mention      // since the sample before
	jobs   []string       // only with said
	stalls []*apiv1.Stall // only with said
}

func newSampler(c *Cluster) *Sampler {
	c.t.Helper()
	addr := c.addr
	if c.net != nil {
		addr = c.net.relay(c.addr)
	}
	api, err := client.New(client.Options{Addr: addr, Pair: c.path("server/admin.pem")})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := newJudge(c)
	s.client, s.cancel, s.done, s.began = api, cancel, make(chan struct{}), time.Now()
	go func() { // stop waits for it
		defer close(s.done)
		s.run(ctx)
	}()
	return s
}

// newJudge returns a sampler that looks at nothing by itself.
func newJudge(c *Cluster) *Sampler {
	return &Sampler{
		c: c, said: map[string]bool{}, differs: map[string]difference{}, still: map[string]stillness{}, stalls: map[string]stallSeen{},
		down: map[string][]span{}, memory: newMemory(c.path("server.log")), reserved: map[string]int64{},
	}
}

func (s *Sampler) stop() {
	s.cancel()
	<-s.done
	s.client.Close()
}

// Samples returns how many samples were taken.
func (s *Sampler) Samples() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.samples
}

func (s *Sampler) run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.c.opts.SampleEvery, sampleEvery))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		away := s.c.serverAway.Load() // or it came while an answer was waited for
		v, err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away && !s.c.serverAway.Load():
			s.violate("sample", "look at the cluster: %v", err)
		case err == nil:
			s.check(v)
		}
		if err != nil { // what lasts over a time in which nothing was seen is not known
			clear(s.differs)
			clear(s.still)
			clear(s.stalls)
		}
	}
}

func (s *Sampler) look(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second+4*s.c.opts.SampleEvery) // whoever looks rarely has much to look at
	defer cancel()
	v := view{at: time.Now()}
	nodes, listed, err := s.listNodes(ctx)
	if err != nil {
		return v, err
	}
	v.nodes = nodes
	tasks, revisions, err := s.list(ctx, "")
	if err != nil {
		return v, err
	}
	v.seen = time.Now()
	v.tasks = tasks
	revisions = append(revisions, listed...)
	v.same = !slices.ContainsFunc(revisions, func(r uint64) bool { return r != revisions[0] })
	s.lookForReservations(ctx, v.tasks)
	v.lives = s.c.Lives("")
	v.procs = s.c.Processes()
	v.starts = s.c.Attempts()
	if s.Samples()%mentionsEvery == 0 {
		err = s.lookForMentions(ctx, &v)
	}
	return v, err
}

// listNodes returns all nodes, and of which revision each page was.
func (s *Sampler) listNodes(ctx context.Context) (nodes []*apiv1.Node, revisions []uint64, err error) {
	token := ""
	for {
		page, err := s.client.ListNodes(ctx, connect.NewRequest(&apiv1.ListNodesRequest{PageSize: 1000, PageToken: token}))
		if err != nil {
			return nil, nil, err
		}
		nodes, revisions = append(nodes, page.Msg.GetNodes()...), append(revisions, page.Msg.GetRevision())
		if token = page.Msg.GetNextPageToken(); token == "" {
			return nodes, revisions, nil
		}
	}
}

// list returns all tasks that are known, dead ones too, of one job unless that is empty, and of which revision each page was.
func (s *Sampler) list(ctx context.Context, job string) (tasks []*apiv1.Task, revisions []uint64, err error) {
	token := ""
	for {
		page, err := s.client.ListTasks(ctx, connect.NewRequest(&apiv1.ListTasksRequest{Job: job, All: true, PageSize: 1000, PageToken: token}))
		if err != nil {
			return nil, nil, err
		}
		tasks, revisions = append(tasks, page.Msg.GetTasks()...), append(revisions, page.Msg.GetRevision())
		if token = page.Msg.GetNextPageToken(); token == "" {
			return tasks, revisions, nil
		}
	}
}

// NodesNow returns the nodes as the server says they are. Unlike commands, it asks over a connection that there is already, and costs next to nothing.
func (c *Cluster) NodesNow() []*apiv1.Node {
	c.t.Helper()
	nodes, _, err := c.Sampler.listNodes(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

// Ready counts the nodes that the server says are ready.
func (c *Cluster) Ready() int {
	c.t.Helper()
	ready := 0
	for _, n := range c.NodesNow() {
		if n.GetState() == "ready" {
			ready++
		}
	}
	return ready
}

// StallsNow returns a job's stalls, over a connection that there is already.
func (c *Cluster) StallsNow(job string) []*apiv1.Stall {
	c.t.Helper()
	res, err := c.Sampler.client.ListStalls(context.Background(), connect.NewRequest(&apiv1.ListStallsRequest{Job: job}))
	if err != nil {
		c.t.Fatal(err)
	}
	return res.Msg.GetStalls()
}

// Listed returns all tasks of a job that are known, dead ones too, and how long the server took to list them.
func (c *Cluster) Listed(job string) ([]*apiv1.Task, time.Duration) {
	c.t.Helper()
	began := time.Now()
	tasks, _, err := c.Sampler.list(context.Background(), job)
	if err != nil {
		c.t.Fatal(err)
	}
	return tasks, time.Since(began)
}

func (s *Sampler) check(v view) {
	s.mu.Lock()
	s.samples++
	s.mu.Unlock()
	s.oneAlive(v)
	s.sums(v)
	s.closed(v)
	s.whileDown(v)
	s.explained(v)
	s.listed(v)
	s.forgotten(v)
}

// violate fails the test, once for each key.
func (s *Sampler) violate(key, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[key] || len(s.said) == mostViolations || slices.Contains(s.c.opts.Unchecked, key[:min(2, len(key))]) {
		return
	}
	s.said[key] = true
	s.c.t.Errorf("%s %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// alive returns the tasks that are alive now, and where.
func (s *Sampler) alive(v view) map[string]string {
	out := make(map[string]string)
	for _, l := range v.lives {
		if l.AliveAt(v.at) {
			out[l.Task] = l.Node
		}
	}
	for _, p := range v.procs {
		out[p.Task] = p.Node
	}
	return out
}

// away returns the nodes that are cut off, or were within the last so long.
func (s *Sampler) away(long time.Duration) map[string]bool {
	out := make(map[string]bool)
	for _, a := range s.c.allAgents() {
		if a.cutWithin(long) {
			out[a.Node.Name] = true
		}
	}
	return out
}
