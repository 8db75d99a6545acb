package sdk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// What holds where the core does not say, and bounds for what it says.
const (
	defaultDeadline   = 5 * time.Second
	defaultMessage    = 1 << 20
	smallestMessage   = 16 << 10
	callPatience      = 10 * time.Millisecond
	applyPatience     = 250 * time.Millisecond
	closePatience     = time.Second
	protocolMinor     = 1
	incomingQueueSize = 16
)

// limits are what the core asks for in a session.
type limits struct {
	deadline time.Duration // of one answer
	message  int           // bytes
}

func limitsOf(hello *pluginv1.Hello) limits {
	l := limits{deadline: time.Duration(hello.DeadlineNs), message: int(hello.MaxMessageBytes)}
	if l.deadline <= 0 {
		l.deadline = defaultDeadline
	}
	if l.message <= 0 {
		l.message = defaultMessage
	}
	l.message = max(l.message, smallestMessage)
	return l
}

// session is one conversation with the core. Owner: the goroutine of run, which alone reads and writes the fields, except where they say otherwise.
type session struct {
	plugin *Plugin         // never changed
	log    hclog.Logger    // never changed
	ctx    context.Context //nolint:containedctx // of everything in the session
	limits limits          // never changed
	inbox  *inbox          // by any goroutine
	pool   *pool           // by any goroutine

	mirror    mirror
	classes   map[uint32]*class
	order     []*class // the same by id, made on demand; nil once classes have changed
	jobs      map[string]*job
	questions map[uint64]*question
	outbox    *outbox
	calls     []work // begun by the event at hand
	applying  *applying
	runners   sync.WaitGroup
}

// applying is a revision whose answers are awaited before the core is told that it was applied.
type applying struct {
	revision uint64
	waiting  int // subjects that are awaited
	timer    *time.Timer
}

// stream is the side of the conversation that the transport offers.
type stream interface {
	Send(m *pluginv1.FromPlugin) error
	Recv() (*pluginv1.FromCore, error)
}

func newSession(ctx context.Context, p *Plugin, log hclog.Logger, hello *pluginv1.Hello) *session {
	s := &session{
		plugin: p, log: log, ctx: ctx, limits: limitsOf(hello), inbox: newInbox(),
		classes: make(map[uint32]*class), jobs: make(map[string]*job), questions: make(map[uint64]*question),
	}
	s.outbox = newOutbox(s.limits.message)
	s.outbox.add(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Ready{Ready: &pluginv1.Ready{Protocol: protocolMinor}}})
	s.pool = newPool(runtime.GOMAXPROCS(0), callPatience, s.limits.deadline, func() { s.inbox.call(s.blocked) })
	return s
}

// serveSession holds one conversation until the stream or ctx ends. It returns what went wrong, or nil. opened is called with the session's handle once it
// may be used, and may be nil.
func serveSession(ctx context.Context, p *Plugin, log hclog.Logger, st stream, opened func(Session)) error {
	first, err := st.Recv()
	if err != nil {
		return fmt.Errorf("receive hello: %w", err)
	}
	hello := first.GetHello()
	if hello == nil {
		return protocolError("the first message is not hello")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(ctx, p, log, hello)
	in, ended := make(chan *pluginv1.FromCore, incomingQueueSize), make(chan error, 2)
	out, sent := make(chan *pluginv1.FromPlugin, 1), make(chan struct{}, 1)
	go receive(ctx, st, in, ended) // ends with the stream, which ends when this function returns
	var sender sync.WaitGroup
	sender.Go(func() { send(st, out, sent, ended) })
	if opened != nil {
		opened(&handle{session: s})
	}
	s.startRunners()
	err = s.run(in, ended, out, sent)
	cancel()
	close(out)
	s.close()
	if err == nil {
		sender.Wait()
	}
	return err
}

func receive(ctx context.Context, st stream, in chan<- *pluginv1.FromCore, ended chan<- error) {
	for {
		m, err := st.Recv()
		if err != nil {
			ended <- fmt.Errorf("receive: %w", err)
			return
		}
		select {
		case in <- m:
		case <-ctx.Done():
			return
		}
	}
}

func send(st stream, out <-chan *pluginv1.FromPlugin, sent chan<- struct{}, ended chan<- error) {
	for m := range out {
		if err := st.Send(m); err != nil {
			ended <- fmt.Errorf("send: %w", err)
			return
		}
		sent <- struct{}{}
	}
}

// run takes one event after another until the conversation ends.
func (s *session) run(in <-chan *pluginv1.FromCore, ended <-chan error, out chan<- *pluginv1.FromPlugin, sent <-chan struct{}) error {
	free := true
	for {
		if free && !s.outbox.empty() {
			if m := s.outbox.next(s); m != nil {
				out <- m // has room: the sender has taken all before
				free = false
			}
		}
		from := in
		if s.applying != nil {
			from = nil // the order of messages is the clock: what follows a revision waits for it
		}
		select {
		case <-s.ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-sent:
			free = true
		case m := <-from:
			if err := s.handle(m); err != nil {
				return err
			}
		case <-s.inbox.wake:
			s.inbox.deal()
		}
		s.submit()
	}
}

// submit starts the calls that the event at hand asked for.
func (s *session) submit() {
	if len(s.calls) > 0 {
		s.pool.submit(s.calls)
		clear(s.calls)
		s.calls = s.calls[:0]
	}
}

func (s *session) handle(m *pluginv1.FromCore) error {
	switch x := m.Message.(type) {
	case *pluginv1.FromCore_Nodes:
		return s.takeNodes(x.Nodes)
	case *pluginv1.FromCore_Classes:
		return s.takeClasses(x.Classes)
	case *pluginv1.FromCore_Jobs:
		return s.takeJobs(x.Jobs)
	case *pluginv1.FromCore_Question:
		return s.ask(x.Question)
	case *pluginv1.FromCore_Cancel:
		s.cancelled(x.Cancel.Question)
		return nil
	case *pluginv1.FromCore_Hello:
		return protocolError("hello came twice")
	}
	return nil // of a newer protocol than this SDK knows
}

func (s *session) takeNodes(msg *pluginv1.Nodes) error {
	ch, complete, err := s.mirror.apply(msg)
	if err != nil {
		return protocolError(err.Error())
	}
	if !complete {
		return nil
	}
	revision := s.mirror.current.revision
	s.applying = &applying{revision: revision}
	if ch.reset {
		s.renew()
	}
	for _, c := range s.inOrder() {
		if c.stands() {
			c.at = revision
			continue
		}
		s.catchUp(c, ch)
	}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		s.jobs[name].renamed(ch, revision)
		s.catchUp(s.jobs[name], ch)
	}
	if s.applying.waiting == 0 {
		s.applied()
		return nil
	}
	s.applying.timer = time.AfterFunc(applyPatience, func() { s.inbox.call(s.applied) })
	return nil
}

// renew puts new subjects in the place of all, because what they said names indexes that mean something else now.
func (s *session) renew() {
	for _, c := range s.inOrder() {
		s.addClass(c.msg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		s.addJob(s.jobs[name].msg)
	}
}

// catchUp brings a subject to the new revision, whose report waits for it unless it was behind before.
func (s *session) catchUp(sub subject, ch changes) {
	st := sub.state()
	behind := st.busy
	if s.begin(sub, ch); st.busy && !behind {
		st.awaited = true
		s.applying.waiting++
	}
}

// settle ends the waiting for a subject.
func (s *session) settle(st *standing) {
	if !st.awaited {
		return
	}
	st.awaited = false
	if s.applying == nil {
		return
	}
	if s.applying.waiting--; s.applying.waiting == 0 {
		s.applied()
	}
}

// blocked reports the revision at hand if whatever it waits for takes long and nothing else is under way.
func (s *session) blocked() {
	if s.pool.stuck() {
		s.applied()
	}
}

// applied reports the revision at hand once the answers that were waited for are there, or are late.
func (s *session) applied() {
	if s.applying == nil {
		return
	}
	if s.applying.timer != nil {
		s.applying.timer.Stop()
	}
	if s.applying.waiting > 0 {
		s.forgetAwaited()
	}
	s.outbox.applied = s.applying.revision
	s.applying = nil
}

// forgetAwaited ends the waiting for all subjects.
func (s *session) forgetAwaited() {
	for _, c := range s.classes {
		c.awaited = false
	}
	for _, j := range s.jobs {
		j.awaited = false
	}
}

// inOrder returns the classes by id.
func (s *session) inOrder() []*class {
	if s.order == nil {
		s.order = slices.SortedFunc(maps.Values(s.classes), func(a, b *class) int { return cmp.Compare(a.id, b.id) })
	}
	return s.order
}

// sayApplied makes the report, and notes who was named in it as late.
func (s *session) sayApplied(revision uint64) *pluginv1.FromPlugin {
	a := &pluginv1.Applied{Revision: revision}
	for _, c := range s.inOrder() {
		if c.at < revision || c.failed != nil {
			c.late = revision
			a.LateClasses = append(a.LateClasses, c.id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[name]; j.at < revision || j.failed != nil {
			j.late = revision
			a.LateJobs = append(a.LateJobs, name)
		}
	}
	return &pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Applied{Applied: a}}
}

func (s *session) takeClasses(msg *pluginv1.Classes) error {
	if s.plugin.Filter == nil {
		return protocolError("classes are given to a plugin that is no filter")
	}
	for _, id := range msg.Remove {
		if c := s.classes[id]; c != nil {
			s.order = nil
			s.drop(c)
			delete(s.classes, id)
		}
	}
	for _, add := range msg.Add {
		s.addClass(add)
		s.begin(s.classes[add.Id], changes{compile: true, all: true})
	}
	return nil
}

func (s *session) addClass(msg *pluginv1.Class) {
	if c := s.classes[msg.Id]; c != nil {
		s.drop(c)
	}
	s.order = nil
	s.classes[msg.Id] = newClass(s.ctx, s.plugin, msg, s.limits.deadline)
}

func (s *session) takeJobs(msg *pluginv1.Jobs) error {
	for _, name := range msg.Remove {
		if j := s.jobs[name]; j != nil {
			s.drop(j)
			delete(s.jobs, name)
		}
	}
	for _, add := range msg.Add {
		if s.plugin.JobTypes[add.Type] == nil {
			return protocolError(fmt.Sprintf("job %s is of type %q, which the plugin does not serve", add.Name, add.Type))
		}
		s.addJob(add)
		s.begin(s.jobs[add.Name], changes{compile: true, all: true})
	}
	return nil
}

func (s *session) addJob(msg *pluginv1.Job) {
	if j := s.jobs[msg.Name]; j != nil {
		s.drop(j)
	}
	s.jobs[msg.Name] = newJob(s.ctx, s.plugin, msg, s.limits.deadline)
}

// askAgain computes every answer anew.
func (s *session) askAgain() {
	for _, c := range s.inOrder() {
		s.begin(c, changes{compile: true, all: true})
	}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		s.begin(s.jobs[name], changes{compile: true, all: true})
	}
}

// close ends everything that the session started, as far as authors' code lets it.
func (s *session) close() {
	for _, c := range s.classes {
		s.drop(c)
	}
	for _, j := range s.jobs {
		s.drop(j)
	}
	for _, q := range s.questions {
		q.cancel()
	}
	s.pool.close(closePatience)
	s.runners.Wait()
}
