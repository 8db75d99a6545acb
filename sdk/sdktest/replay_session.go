package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// track follows a session message by message, as it was recorded or as it is replayed.
type track struct {
	book
	strings []string
	nodes   []*cluster.Node // by index, ids only
	since   []uint64        // by index: the revision since which it names this node, or none
	ready   bool
	latest  *pluginv1.Applied
	answers map[uint64][]*pluginv1.Answer
	asked   map[uint64]*pluginv1.Question
}

func newTrack() *track {
	t := &track{book: newBook(), answers: map[uint64][]*pluginv1.Answer{}, asked: map[uint64]*pluginv1.Question{}}
	t.book.node, t.book.size = t.at, func() int { return len(t.nodes) }
	return t
}

func (t *track) at(index uint32, revision uint64) (*cluster.Node, error) {
	switch {
	case int(index) >= len(t.nodes) || t.nodes[index] == nil && t.since[index] <= revision:
		return nil, fmt.Errorf("node %d is unknown at revision %d", index, revision)
	case t.since[index] > revision:
		return nil, nil
	}
	return t.nodes[index], nil
}

// core takes a message of the core's.
func (t *track) core(m *pluginv1.FromCore) error {
	switch x := m.Message.(type) {
	case *pluginv1.FromCore_Nodes:
		return t.takeNodes(x.Nodes)
	case *pluginv1.FromCore_Classes:
		for _, id := range x.Classes.Remove {
			delete(t.classes, id)
		}
		for _, c := range x.Classes.Add {
			t.classes[c.Id] = &classState{revision: c.Revision, about: classText(compileRequest(c.Request))}
		}
	case *pluginv1.FromCore_Jobs:
		for _, name := range x.Jobs.Remove {
			delete(t.jobs, name)
		}
		for _, j := range x.Jobs.Add {
			t.jobs[j.Name] = &jobState{revision: j.Revision}
		}
	case *pluginv1.FromCore_Question:
		t.asked[x.Question.Id] = x.Question
	}
	return nil
}

func (t *track) takeNodes(m *pluginv1.Nodes) error {
	if m.Reset_ {
		t.strings, t.nodes, t.since = nil, nil, nil
		t.reset()
	}
	t.strings = append(t.strings, m.Strings...)
	t.revision = m.Revision
	for _, i := range m.Remove {
		if int(i) < len(t.nodes) {
			t.nodes[i], t.since[i] = nil, m.Revision
		}
		t.forget(i)
	}
	for _, n := range m.Upsert {
		if int(n.Id) >= len(t.strings) {
			return fmt.Errorf("%w: node %d: string %d is not in the table", errRecording, n.Index, n.Id)
		}
		for int(n.Index) >= len(t.nodes) {
			t.nodes, t.since = append(t.nodes, nil), append(t.since, m.Revision)
		}
		id := cluster.NodeID(t.strings[n.Id])
		if old := t.nodes[n.Index]; old == nil || old.ID != id {
			t.forget(n.Index)
			t.nodes[n.Index], t.since[n.Index] = &cluster.Node{ID: id}, m.Revision
		}
	}
	return nil
}

// plugin takes a message of the plugin's.
func (t *track) plugin(m *pluginv1.FromPlugin) error {
	switch x := m.Message.(type) {
	case *pluginv1.FromPlugin_Ready:
		t.ready = true
	case *pluginv1.FromPlugin_Applied:
		t.latest = x.Applied
		return t.takeApplied(x.Applied)
	case *pluginv1.FromPlugin_Verdicts:
		return t.takeVerdicts(x.Verdicts)
	case *pluginv1.FromPlugin_Slots:
		return t.takeSlots(x.Slots)
	case *pluginv1.FromPlugin_Answer:
		t.answers[x.Answer.Question] = append(t.answers[x.Answer.Question], x.Answer)
	}
	return nil
}

// answered reports whether a question has its whole answer.
func (t *track) answered(question uint64) bool {
	parts := t.answers[question]
	return len(parts) > 0 && !parts[len(parts)-1].More
}

// settled reports whether all that was answered in another track, which was asked the same, is answered in this one.
func (t *track) settled(as *track) bool {
	for id, c := range as.classes {
		if mine := t.classes[id]; c.answered && (mine == nil || !mine.answered || mine.at < min(c.at, as.revision) && mine.failure == nil) {
			return false
		}
	}
	for name, j := range as.jobs {
		if mine := t.jobs[name]; j.answered && (mine == nil || !mine.answered || mine.at < min(j.at, as.revision) && mine.failure == nil) {
			return false
		}
	}
	return true
}

// replaying is a session that is replayed.
type replaying struct {
	*replay
	number int
	was    *track // as recorded. Owner: the replaying's goroutine

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	is      *track
	err     error
}

// session replays one session.
func (r *replay) session(lines []recorded) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	st, err := r.client.Session(ctx)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	r.out.Sessions++
	p := &replaying{replay: r, number: lines[0].Session, was: newTrack(), is: newTrack()}
	p.changed = sync.NewCond(&p.mu)
	var receiver sync.WaitGroup
	receiver.Go(func() { p.receive(st) })
	defer receiver.Wait()
	defer cancel()
	answered := answeredQuestions(lines)
	for _, line := range lines {
		if err := p.line(st, line, answered); err != nil {
			return fmt.Errorf("replay session %d, %s into the recording: %w", p.number, line.At.Round(time.Millisecond), err)
		}
	}
	if err := p.compare(lines[len(lines)-1].At); err != nil {
		return fmt.Errorf("replay session %d: answers at its end: %w", p.number, err)
	}
	return nil
}

// answeredQuestions returns the questions that have an answer in the recording.
func answeredQuestions(lines []recorded) map[uint64]bool {
	out := map[uint64]bool{}
	for _, l := range lines {
		var m pluginv1.FromPlugin
		if l.Kind == kindPlugin && l.read(&m) == nil && m.GetAnswer() != nil && !m.GetAnswer().More {
			out[m.GetAnswer().Question] = true
		}
	}
	return out
}

func (p *replaying) receive(st pluginv1.Plugin_SessionClient) {
	for {
		m, err := st.Recv()
		p.mu.Lock()
		if err == nil {
			err = p.is.plugin(m)
		}
		if err != nil && p.err == nil {
			p.err = err
		}
		p.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until done, which is called with the lock held.
func (p *replaying) await(done func() bool) error {
	late := false
	timer := time.AfterFunc(p.opts.Patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.changed.Broadcast()
	})
	defer timer.Stop()
	stop := context.AfterFunc(p.ctx, p.changed.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && !late && p.ctx.Err() == nil && !done() {
		p.changed.Wait()
	}
	switch {
	case done():
		return nil
	case p.err != nil && errors.Is(p.err, io.EOF):
		return errors.New("the plugin ended its session")
	case p.err != nil:
		return p.err
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	}
	return fmt.Errorf("%w (%s)", errLate, p.opts.Patience)
}

// line follows one line of the recording.
func (p *replaying) line(st pluginv1.Plugin_SessionClient, line recorded, answered map[uint64]bool) error {
	switch line.Kind {
	case kindCore:
		var m pluginv1.FromCore
		if err := line.read(&m); err != nil {
			return err
		}
		return p.send(st, &m, line.At, answered)
	case kindPlugin:
		var m pluginv1.FromPlugin
		if err := line.read(&m); err != nil {
			return err
		}
		if err := p.was.plugin(&m); err != nil {
			return fmt.Errorf("%w: %w", errRecording, err)
		}
	case kindDescribe, kindConfigure, kindEnd:
	}
	return nil
}

// send sends a message of the core's and waits for what answers it at once.
func (p *replaying) send(st pluginv1.Plugin_SessionClient, m *pluginv1.FromCore, at time.Duration, answered map[uint64]bool) error {
	if n := m.GetNodes(); n != nil && n.Revision != p.was.revision {
		if err := p.compare(at); err != nil {
			return err
		}
	}
	err := p.was.core(m)
	p.mu.Lock()
	err = errors.Join(err, p.is.core(m))
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if err := st.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send: %w", err)
	}
	p.out.Messages++
	switch x := m.Message.(type) {
	case *pluginv1.FromCore_Hello:
		return p.await(func() bool { return p.is.ready })
	case *pluginv1.FromCore_Nodes:
		if x.Nodes.Last {
			return p.await(func() bool { return p.is.latest.GetRevision() == x.Nodes.Revision })
		}
	case *pluginv1.FromCore_Question:
		if id := x.Question.Id; answered[id] {
			return p.await(func() bool { return p.is.answered(id) })
		}
	}
	return nil
}

// compare compares all answers to classes and jobs that stand at the newest revision in the recording, and to the questions that were answered since.
func (p *replaying) compare(at time.Duration) error {
	if err := p.await(func() bool { return p.is.settled(p.was) }); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.was.classes)) {
		was, is := p.was.classes[id], p.is.classes[id]
		if !was.answered || was.at != p.was.revision && was.failure == nil {
			continue
		}
		recorded, err1 := was.answer(p.was.nodes)
		replayed, err2 := is.answer(p.is.nodes)
		if err := errors.Join(err1, err2); err != nil {
			p.differ(at, was.about, fmt.Sprint(err1), fmt.Sprint(err2))
			continue
		}
		p.note(at, was.about, differ(recorded, replayed))
	}
	for _, name := range slices.Sorted(maps.Keys(p.was.jobs)) {
		was, is := p.was.jobs[name], p.is.jobs[name]
		if was.answered && (was.at == p.was.revision || was.failure != nil) {
			p.note(at, "job "+name, differSlots(was.answer(), is.answer()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.was.answers)) {
		if p.was.answered(id) && p.is.answered(id) {
			p.compareAnswer(at, id)
			delete(p.was.answers, id)
		}
	}
	return nil
}

func (p *replaying) compareAnswer(at time.Duration, id uint64) {
	q := p.was.asked[id]
	if q.GetDrain() != nil {
		was, wasFailure := drainAnswer(p.was.answers[id])
		is, isFailure := drainAnswer(p.is.answers[id])
		d := &difference{}
		d.add("", drainOutcome(was, wasFailure), drainOutcome(is, isFailure))
		p.note(at, fmt.Sprintf("drain of node %d", q.GetDrain().Node), d)
		return
	}
	nodes := slices.Clone(p.was.nodes)
	for _, n := range q.GetTrial().GetNodes() {
		for int(n.Index) >= len(nodes) {
			nodes = append(nodes, nil)
		}
		if int(n.Id) < len(q.GetTrial().Strings) {
			nodes[n.Index] = &cluster.Node{ID: cluster.NodeID(q.GetTrial().Strings[n.Id])}
		}
	}
	classes := q.GetTrial().GetClasses()
	was, err1 := trialAnswers(p.was.answers[id], nodes, classes, 0)
	is, err2 := trialAnswers(p.is.answers[id], nodes, classes, 0)
	if err1 != nil || err2 != nil {
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			p.differ(at, fmt.Sprintf("trial %d", id), fmt.Sprint(err1), fmt.Sprint(err2))
		}
		return
	}
	for i := range was {
		p.note(at, "as a trial, "+classText(compileRequest(classes[i].Request)), differ(was[i], is[i]))
	}
}

func drainOutcome(a *pluginv1.DrainAnswer, f *pluginv1.Failure) string {
	if f != nil {
		return failureText(f)
	}
	return drainText(a)
}

func (p *replaying) note(at time.Duration, what string, d *difference) {
	p.out.Compared++
	if len(d.want) == 0 {
		delete(p.told, what)
	}
	if v := d.violation(""); v != nil {
		p.differ(at, what, v.Want[2:], v.Got[2:])
	}
}

func (p *replaying) differ(at time.Duration, what, was, is string) {
	text := was + "\x00" + is
	if p.told[what] == text {
		return
	}
	p.told[what] = text
	if len(p.out.Differences) < maxDifferences {
		p.out.Differences = append(p.out.Differences, Difference{
			At: at, Session: p.number, Revision: p.was.revision, What: what, Recorded: was, Replayed: is,
		})
	}
}
