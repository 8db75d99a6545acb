package pluginhost

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/engine"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// fill makes messages of what waits in the outbox, in the order in which the plugin is to be told: nodes, classes, jobs, questions.
func (s *session) fill() {
	p, trials, ok := s.outbox.take()
	if !ok {
		return
	}
	if s.askedOf == nil {
		p.because = nil
	}
	now := s.now()
	if p.told {
		s.fillNodes(&p, now)
	}
	if s.about.filter {
		s.fillClasses(&p, now)
	}
	s.fillJobs(&p, now)
	s.fillQuestions(&p, now)
	for _, t := range trials {
		s.askTrial(t, now)
	}
	s.stats.classes.Store(int64(len(s.classes)))
	s.stats.jobs.Store(int64(len(s.jobs)))
	s.stats.nodes.Store(int64(s.mirror.count()))
}

func (s *session) fillNodes(p *parcel, now time.Time) {
	revision := wireRevision(p.revision)
	if p.reset {
		s.mirror.forget(revision, p.nodes)
	}
	for _, m := range s.mirror.apply(revision, p.reset, p.nodes) {
		s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Nodes{Nodes: m}})
	}
	if s.first == 0 {
		s.first = revision
	}
	s.unapplied = append(s.unapplied, sentRevision{revision: revision, at: now, asking: s.followNodes(p)})
}

// batch divides what has a size into messages of about maxMessage bytes; add puts one thing into the message at hand, and open begins a new one.
type batch struct{ size int }

// next reports whether a thing of n bytes begins a new message.
func (b *batch) next(n int) bool {
	if b.size += n + 8; b.size == n+8 || b.size > maxMessage {
		b.size = n + 8
		return true
	}
	return false
}

func (s *session) fillClasses(p *parcel, now time.Time) {
	var to *pluginv1.Classes
	var b batch
	part := func(size int) *pluginv1.Classes {
		if b.next(size) {
			to = &pluginv1.Classes{}
			s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Classes{Classes: to}})
		}
		return to
	}
	for _, id := range sortedKeys(p.removeClasses) {
		if c := s.classes[id]; c != nil {
			c.asking.ended(Withdrawn)
			delete(s.classes, id)
			m := part(4)
			m.Remove = append(m.Remove, id)
		}
	}
	asked := s.followClasses(p)
	for _, id := range sortedKeys(p.addClasses) {
		c := &classBook{ask: p.addClasses[id]}
		c.asking = asked[subject{kind: AskClass, id: id}]
		c.expect(now, s.patience())
		s.classes[id], s.lastClass = c, max(s.lastClass, id)
		raw := wireClass(c.ask)
		m := part(proto.Size(raw))
		m.Add = append(m.Add, raw)
	}
}

func wireClass(c engine.Class) *pluginv1.Class {
	return &pluginv1.Class{
		Id: c.ID, Revision: uint64(c.Revision), Request: &pluginv1.CompileRequest{JobType: c.JobType, Labels: c.Labels, SettingsJson: c.Settings},
	}
}

func (s *session) fillJobs(p *parcel, now time.Time) {
	var to *pluginv1.Jobs
	var b batch
	part := func(size int) *pluginv1.Jobs {
		if b.next(size) {
			to = &pluginv1.Jobs{}
			s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Jobs{Jobs: to}})
		}
		return to
	}
	for _, name := range sortedKeys(p.removeJobs) {
		if j := s.jobs[name]; j != nil {
			j.asking.ended(Withdrawn)
			delete(s.jobs, name)
			m := part(len(name))
			m.Remove = append(m.Remove, name)
		}
	}
	asked := s.followJobs(p)
	for _, name := range sortedKeys(p.addJobs) {
		ask := p.addJobs[name]
		if !s.about.serves(ask.Type) {
			continue
		}
		j, old := &jobBook{ask: ask}, s.jobs[name]
		j.asking = asked[subject{kind: AskJob, job: name}]
		if old != nil {
			old.asking.ended(Withdrawn)
			if old.ask.Type == ask.Type {
				j.at = old.at
			}
		}
		j.expect(now, s.patience())
		s.jobs[name] = j
		raw := wireJob(ask)
		m := part(proto.Size(raw))
		m.Add = append(m.Add, raw)
	}
}

func wireJob(j engine.PluginJob) *pluginv1.Job {
	return &pluginv1.Job{
		Name: j.Name, Revision: uint64(j.Revision), Type: j.Type, Count: int64(j.Count), Labels: j.Labels, SettingsJson: j.Settings,
		CreatedUnixNs: j.Created.Wall,
	}
}

// renew asks anew about what was answered falsely.
func (s *session) renew(now time.Time) {
	classes, jobs := &pluginv1.Classes{}, &pluginv1.Jobs{}
	for _, id := range sortedKeys(s.classes) {
		if c := s.classes[id]; s.due(&c.book, now) {
			c.on = base{}
			classes.Add = append(classes.Add, wireClass(c.ask))
		}
	}
	for _, name := range sortedKeys(s.jobs) {
		if j := s.jobs[name]; s.due(&j.book, now) {
			j.based = false
			jobs.Add = append(jobs.Add, wireJob(j.ask))
		}
	}
	if len(classes.Add) > 0 {
		s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Classes{Classes: classes}})
	}
	if len(jobs.Add) > 0 {
		s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Jobs{Jobs: jobs}})
	}
}

// due reports whether to ask anew, and notes that it was.
func (s *session) due(b *book, now time.Time) bool {
	if b.again.IsZero() || now.Before(b.again) {
		return false
	}
	b.again = time.Time{}
	b.failed = false
	b.expect(now, s.patience())
	return true
}
