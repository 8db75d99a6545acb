package pluginhost

import (
	"slices"

	"github.com/setpointd/setpoint/core/engine"
)

// Question is what a plugin is asked because of a turn that somebody follows.
type Question struct {
	Plugin string
	Kind   QuestionKind
	Count  int      // of classes, jobs or nodes
	Names  []string // of the first of the jobs or nodes; classes have none
}

// QuestionKind is what a question is about.
type QuestionKind string

// The kinds of questions.
const (
	AskClass QuestionKind = "class" // a filter, on which nodes jobs may run
	AskJob   QuestionKind = "job"   // a job type, which slots jobs should have
	AskDrain QuestionKind = "drain" // a drainer, what should leave nodes
	AskNode  QuestionKind = "node"  // any, what is different about nodes that changed
)

// Outcome is how a question ended.
type Outcome string

// The outcomes. A question about several things has the worst of theirs, which is the last of these.
const (
	Answered  Outcome = "answered"
	Stalled   Outcome = "stall"     // the answer is a stall
	Withdrawn Outcome = "withdrawn" // nobody needed an answer any more
	Failed    Outcome = "failed"    // the plugin says that it cannot answer
	Refused   Outcome = "refused"   // the answer was false
	Late      Outcome = "late"
	Lost      Outcome = "lost" // the session ended before
)

// Asked is a question on its way, as whoever follows it has it.
type Asked interface {
	// Trace is that of which what the plugin answers is part.
	Trace() engine.Trace
	// Ended says how the question ended. It is called once.
	Ended(o Outcome)
}

// maxNamed is how many jobs or nodes of a question are named.
const maxNamed = 10

// subject is one thing that a plugin is asked about.
type subject struct {
	kind QuestionKind
	id   uint32 // of a class, or the index of a node that is drained
	job  string
}

// note notes of which trace the questions of an update are part. Of a session's beginning, which asks everything, nobody is the cause.
func (p *parcel) note(u *engine.PluginUpdate) {
	if !u.Trace.Followed() || u.Reset {
		return
	}
	if p.because == nil {
		p.because = map[subject]engine.Trace{}
	}
	for _, c := range u.AddClasses {
		p.because[subject{kind: AskClass, id: c.ID}] = u.Trace
	}
	for _, j := range u.AddJobs {
		p.because[subject{kind: AskJob, job: j.Name}] = u.Trace
	}
	for _, q := range u.Drains {
		p.because[subject{kind: AskDrain, id: q.Node}] = u.Trace
	}
	for _, n := range u.Nodes {
		p.because[subject{kind: AskNode, id: n.Index}] = u.Trace
	}
}

// asking is a question that somebody follows. Nil: nobody does.
type asking struct {
	asked   Asked
	left    int // of which it is still to be seen how they end
	outcome Outcome
}

// ended notes how one thing of the question ended, and returns the trace of which the answer is part.
func (a *asking) ended(o Outcome) engine.Trace {
	if a == nil {
		return engine.Trace{}
	}
	if badness(o) > badness(a.outcome) {
		a.outcome = o
	}
	if a.left--; a.left == 0 {
		a.asked.Ended(a.outcome)
	}
	return a.asked.Trace()
}

func badness(o Outcome) int {
	return slices.Index([]Outcome{Answered, Stalled, Withdrawn, Failed, Refused, Late, Lost}, o)
}

// follow begins to follow what is asked about subjects of one kind: one question for each trace. name gives a subject its name, if it has one.
func (s *session) follow(p *parcel, about []subject, name func(subject) string) map[subject]*asking {
	var order []engine.Trace
	groups := map[engine.Trace][]subject{}
	for _, x := range about {
		if t := p.because[x]; t.Followed() {
			if groups[t] == nil {
				order = append(order, t)
			}
			groups[t] = append(groups[t], x)
		}
	}
	out := map[subject]*asking{}
	for _, t := range order {
		q := Question{Plugin: s.name, Kind: groups[t][0].kind, Count: len(groups[t])}
		for _, x := range groups[t][:min(maxNamed, len(groups[t]))] {
			if n := name(x); n != "" {
				q.Names = append(q.Names, n)
			}
		}
		asked := s.askedOf(t, q)
		if asked == nil {
			continue
		}
		a := &asking{asked: asked, left: q.Count}
		for _, x := range groups[t] {
			out[x] = a
		}
	}
	return out
}

func (s *session) followClasses(p *parcel) map[subject]*asking {
	if len(p.because) == 0 {
		return nil
	}
	var about []subject
	for _, id := range sortedKeys(p.addClasses) {
		about = append(about, subject{kind: AskClass, id: id})
	}
	return s.follow(p, about, func(subject) string { return "" })
}

func (s *session) followJobs(p *parcel) map[subject]*asking {
	if len(p.because) == 0 {
		return nil
	}
	var about []subject
	for _, name := range sortedKeys(p.addJobs) {
		if s.about.serves(p.addJobs[name].Type) {
			about = append(about, subject{kind: AskJob, job: name})
		}
	}
	return s.follow(p, about, func(x subject) string { return x.job })
}

func (s *session) followDrains(p *parcel) map[subject]*asking {
	if len(p.because) == 0 {
		return nil
	}
	var about []subject
	for _, i := range sortedKeys(p.drains) {
		about = append(about, subject{kind: AskDrain, id: i})
	}
	return s.follow(p, about, s.nodeName)
}

// followNodes returns the questions what is different about nodes, which are answered together.
func (s *session) followNodes(p *parcel) []*asking {
	if len(p.because) == 0 {
		return nil
	}
	var about []subject
	for _, i := range sortedKeys(p.nodes) {
		about = append(about, subject{kind: AskNode, id: i})
	}
	var out []*asking
	for _, a := range s.follow(p, about, s.nodeName) {
		if !slices.Contains(out, a) {
			a.left = 1
			out = append(out, a)
		}
	}
	return out
}

// nodeName returns the name of the node of an index in the mirror, if one is there.
func (s *session) nodeName(x subject) string {
	if int(x.id) >= len(s.mirror.nodes) || s.mirror.nodes[x.id].node == nil {
		return ""
	}
	return s.mirror.nodes[x.id].node.Spec.Name
}

// heardOf notes how the question about something ended that a book is about. What the engine is told next is part of the same trace.
func (s *session) heardOf(b *book, o Outcome) {
	s.followed(b.asking.ended(o))
	b.asking = nil
}

// followed has what the engine is told next be part of a trace.
func (s *session) followed(t engine.Trace) {
	if t.Followed() && !slices.Contains(s.traces, t) {
		s.traces = append(s.traces, t)
	}
}

// lose says of everything that was asked and not answered that it never will be.
func (s *session) lose() {
	for _, c := range s.classes {
		c.asking.ended(Lost)
	}
	for _, j := range s.jobs {
		j.asking.ended(Lost)
	}
	for _, q := range s.questions {
		q.asking.ended(Lost)
	}
	for i := range s.unapplied {
		for _, a := range s.unapplied[i].asking {
			a.ended(Lost)
		}
	}
}

// outcomeOf returns how a question ended that was answered by what has a stall or a failure perhaps.
func outcomeOf(stall *engine.StallAnswer, failure *engine.FailureAnswer) Outcome {
	switch {
	case failure != nil:
		return Failed
	case stall != nil:
		return Stalled
	}
	return Answered
}
