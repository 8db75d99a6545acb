package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// book is what a session keeps about a class or job that the plugin answers for.
type book struct {
	due      time.Time // when an answer is late; zero: none is awaited
	again    time.Time // when to ask anew, after a false answer; zero: not
	refused  int       // false answers in a row
	doubted  bool      // the latest answer was false: what builds upon it is ignored, until a whole one comes
	answered bool      // in this session
	failed   bool      // the latest answer is a failure
	at       uint64    // revision at which it stands, on the wire
	bytes    int       // of the parts so far
	asking   *asking   // the question that is not answered yet, if somebody follows it
}

// classBook is what a session keeps about a class.
type classBook struct {
	book
	ask    engine.Class
	on     base // for flips
	parts  *engine.ClassVerdict
	partOn base
}

// jobBook is what a session keeps about a job.
type jobBook struct {
	book
	ask   engine.PluginJob
	based bool // slots were named
	parts *engine.PluginSlots
}

func messageSize(m proto.Message) int { return proto.Size(m) }

// patience is how long the host waits for what the plugin itself should fail after the timeout.
func (s *session) patience() time.Duration { return s.timeout + s.timeout/2 }

func (b *book) expect(now time.Time, patience time.Duration) {
	b.due = now.Add(patience)
}

// settled notes a whole answer that is true.
func (b *book) settled(at uint64) {
	b.due, b.again, b.refused, b.doubted, b.answered, b.failed, b.at, b.bytes = time.Time{}, time.Time{}, 0, false, true, false, at, 0
}

// doubt notes a false answer.
func (b *book) doubt(now time.Time) {
	b.due, b.again, b.doubted, b.failed, b.bytes = time.Time{}, now.Add(time.Second<<min(b.refused, 5)), true, true, 0
	b.refused++
}

// takeVerdicts hands on what is true of what a filter says, all in one input.
func (s *session) takeVerdicts(ctx context.Context, m *pluginv1.Verdicts) error {
	if !s.about.filter {
		return invalid("it answers about classes and is no filter")
	}
	known := s.checkRevision(m.Revision)
	out := engine.PluginVerdicts{Name: s.name, Session: s.number, Revision: coreRevision(max(m.Revision, 1))}
	for _, v := range m.Classes {
		if v.Class > s.lastClass {
			return invalid("it answers about class %d, which it was not told of", v.Class)
		}
		c := s.classes[v.Class]
		if c == nil || cluster.Revision(v.ClassRevision) < c.ask.Revision {
			continue // it has ended or was replaced since
		}
		err := known
		if err == nil || v.GetFailure() != nil {
			err = s.verdict(c, v, m.Revision, &out)
		}
		if err == nil {
			continue
		}
		c.parts = nil
		c.doubt(s.now())
		s.heardOf(&c.book, Refused)
		out.Classes = append(out.Classes, engine.ClassVerdict{Class: c.ask.ID, ClassRevision: c.ask.Revision, Failure: invalidAnswer(err)})
		if err := s.lied(fmt.Sprintf("class %d", c.ask.ID), err); err != nil {
			return err
		}
	}
	if len(out.Classes) == 0 {
		return nil
	}
	return s.tell(ctx, out)
}

// verdict takes one message about one class, and adds the answer to out once it is whole.
func (s *session) verdict(c *classBook, v *pluginv1.ClassVerdict, at uint64, out *engine.PluginVerdicts) error {
	if _, changes := v.Answer.(*pluginv1.ClassVerdict_Flips); changes && c.doubted && c.parts == nil {
		return nil
	}
	switch {
	case cluster.Revision(v.ClassRevision) > c.ask.Revision:
		return lief("it names revision %d of the class, which stands at %d", v.ClassRevision, c.ask.Revision)
	case at < c.at && v.GetFailure() == nil:
		return lief("it goes back from revision %d to %d", c.at, at)
	}
	on := c.on
	if c.parts != nil {
		on = c.partOn
	}
	part, on, err := s.check.verdict(v, at, on)
	if err != nil {
		return err
	}
	if part.Failure != nil {
		s.heardOf(&c.book, Failed)
		c.parts, c.bytes, c.due, c.failed = nil, 0, time.Time{}, true
		out.Classes = append(out.Classes, part)
		return nil
	}
	if c.bytes += proto.Size(v); c.bytes > maxParts {
		return lief("its answer has more than %d bytes", maxParts)
	}
	if c.parts != nil {
		part = join(*c.parts, part)
	}
	if v.More {
		c.parts, c.partOn = &part, on
		return nil
	}
	if err := s.check.complete(part, at); err != nil {
		return err
	}
	c.parts, c.on = nil, on
	c.settled(at)
	s.heardOf(&c.book, outcomeOf(part.Stall, nil))
	out.Classes = append(out.Classes, part)
	return nil
}

// takeSlots hands on what a job type says of a job.
func (s *session) takeSlots(ctx context.Context, m *pluginv1.Slots, size int) error {
	j := s.jobs[m.Job]
	if j == nil || cluster.Revision(m.JobRevision) < j.ask.Revision {
		return nil // it has ended or was replaced since
	}
	answer, err := s.slots(j, m, size)
	if err != nil {
		j.parts = nil
		j.doubt(s.now())
		s.heardOf(&j.book, Refused)
		if err := s.lied("job "+j.ask.Name, err); err != nil {
			return err
		}
		answer = s.jobFailure(j, invalidAnswer(err))
	}
	if answer == nil {
		return nil
	}
	return s.tell(ctx, *answer)
}

func (s *session) jobFailure(j *jobBook, f *engine.FailureAnswer) *engine.PluginSlots {
	return &engine.PluginSlots{Name: s.name, Session: s.number, Revision: s.current(), Job: j.ask.Name, JobRevision: j.ask.Revision, Failure: f}
}

// current is the newest revision that the plugin was told of.
func (s *session) current() cluster.Revision {
	if n := len(s.unapplied); n > 0 {
		return coreRevision(s.unapplied[n-1].revision)
	}
	return coreRevision(max(s.applied, 1))
}

func (s *session) slots(j *jobBook, m *pluginv1.Slots, size int) (*engine.PluginSlots, error) {
	if m.Delta && j.doubted && j.parts == nil && m.Failure == nil && m.Stall == nil {
		return nil, nil
	}
	if err := s.checkRevision(m.Revision); err != nil && m.Failure == nil {
		return nil, err
	}
	switch {
	case cluster.Revision(m.JobRevision) > j.ask.Revision:
		return nil, lief("it names revision %d of the job, which stands at %d", m.JobRevision, j.ask.Revision)
	case m.Revision < j.at && m.Failure == nil:
		return nil, lief("it goes back from revision %d to %d", j.at, m.Revision)
	}
	part, err := s.check.slots(m, j.based || j.parts != nil)
	if err != nil {
		return nil, err
	}
	part.Session = s.number
	if part.Failure != nil {
		s.heardOf(&j.book, Failed)
		j.parts, j.bytes, j.due, j.failed = nil, 0, time.Time{}, true
		return part, nil
	}
	if j.bytes += size; j.bytes > maxParts {
		return nil, lief("its answer has more than %d bytes", maxParts)
	}
	part = joinSlots(j.parts, part)
	if m.More {
		j.parts = part
		return nil, nil
	}
	j.parts = nil
	j.based = j.based || part.Stall == nil
	j.settled(m.Revision)
	s.heardOf(&j.book, outcomeOf(part.Stall, nil))
	return part, nil
}

// lateClasses returns the classes that do not stand at the revision that was applied: those that the plugin named, those that it has not answered in this
// session, and those whose answer was false. An answer is now awaited of each.
func (s *session) lateClasses(named []uint32, now time.Time) []uint32 {
	var out []uint32
	for _, id := range named {
		if s.classes[id] != nil {
			out = append(out, id)
		}
	}
	for id, c := range s.classes {
		if !c.answered || c.doubted {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	for _, id := range out {
		s.awaitLate(&s.classes[id].book, now)
	}
	return out
}

func (s *session) lateJobs(named []string, now time.Time) []string {
	var out []string
	for _, name := range named {
		if s.jobs[name] != nil {
			out = append(out, name)
		}
	}
	for name, j := range s.jobs {
		if !j.answered || j.doubted {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	for _, name := range out {
		s.awaitLate(&s.jobs[name].book, now)
	}
	return out
}

// stand notes that everything but what is late, in ascending order, stands at a revision that was applied.
func (s *session) stand(revision uint64, lateClasses []uint32, lateJobs []string) {
	for id, c := range s.classes {
		if _, late := slices.BinarySearch(lateClasses, id); !late {
			c.at = max(c.at, revision)
		}
	}
	for name, j := range s.jobs {
		if _, late := slices.BinarySearch(lateJobs, name); !late {
			j.at = max(j.at, revision)
		}
	}
}

func (s *session) awaitLate(b *book, now time.Time) {
	if b.due.IsZero() && !b.failed {
		b.expect(now, s.patience())
	}
}
