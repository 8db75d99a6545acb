package sdk

import (
	"cmp"
	"maps"
	"slices"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// maxProblems bounds the problems that wait to be sent; older ones are dropped.
const maxProblems = 16

// outbox is what is to be sent. It holds names of what changed rather than messages, which are made when the stream can take one: so a slow reader gets the
// latest answers and costs no memory. Owner: the session's loop.
type outbox struct {
	limit    int                    // bytes of a message
	parts    []*pluginv1.FromPlugin // of what was begun, and answers to questions
	classes  map[*class]struct{}
	jobs     map[*job]struct{}
	applied  uint64 // revision to be reported as applied; 0: none
	problems []*pluginv1.Problem
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, classes: make(map[*class]struct{}), jobs: make(map[*job]struct{})}
}

// mark notes that a subject has something to be said.
func (o *outbox) mark(sub subject) {
	if !sub.state().unsent {
		return
	}
	switch x := sub.(type) {
	case *class:
		o.classes[x] = struct{}{}
	case *job:
		o.jobs[x] = struct{}{}
	}
}

func (o *outbox) unmark(sub subject) {
	switch x := sub.(type) {
	case *class:
		delete(o.classes, x)
	case *job:
		delete(o.jobs, x)
	}
}

func (o *outbox) add(m *pluginv1.FromPlugin) { o.parts = append(o.parts, m) }

func (o *outbox) problem(p *pluginv1.Problem) {
	o.problems = append(o.problems, p)
	if len(o.problems) > maxProblems {
		o.problems = o.problems[1:]
	}
}

func (o *outbox) empty() bool {
	return len(o.parts) == 0 && len(o.classes) == 0 && len(o.jobs) == 0 && o.applied == 0 && len(o.problems) == 0
}

// next returns the next message, or nil. Applied comes after all answers. What a new revision changes is told together, once all of it is known or takes too long.
func (o *outbox) next(s *session) *pluginv1.FromPlugin {
	for len(o.parts) == 0 {
		switch {
		case len(o.classes) > 0 && s.applying == nil:
			o.sayClasses(s.mirror.current.revision)
		case len(o.jobs) > 0 && s.applying == nil:
			o.sayJobs()
		case o.applied > 0:
			o.add(s.sayApplied(o.applied))
			o.applied = 0
		case len(o.problems) > 0:
			o.add(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Problem{Problem: o.problems[0]}})
			o.problems = o.problems[1:]
		default:
			return nil
		}
	}
	m := o.parts[0]
	o.parts[0] = nil
	o.parts = o.parts[1:]
	return m
}

// sayClasses makes messages of as many classes as fit into one, or of one class that needs several. All in a message stand at one revision.
func (o *outbox) sayClasses(current uint64) {
	order := slices.SortedFunc(maps.Keys(o.classes), func(a, b *class) int { return cmp.Compare(a.id, b.id) })
	out := &pluginv1.Verdicts{Revision: order[0].at}
	if order[0].failed != nil {
		out.Revision = current
	}
	size := perMessage
	for _, c := range order {
		if c.failed == nil && c.at != out.Revision {
			continue
		}
		delete(o.classes, c)
		for _, v := range c.messages(o.limit) {
			n := proto.Size(v) + perEntry
			if size+n > o.limit && len(out.Classes) > 0 {
				o.addVerdicts(out)
				out, size = &pluginv1.Verdicts{Revision: out.Revision}, perMessage
			}
			out.Classes = append(out.Classes, v)
			size += n
		}
		if len(o.parts) > 0 {
			break
		}
	}
	o.addVerdicts(out)
}

func (o *outbox) addVerdicts(v *pluginv1.Verdicts) {
	o.add(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Verdicts{Verdicts: v}})
}

// sayJobs makes messages of one job.
func (o *outbox) sayJobs() {
	j := slices.MinFunc(slices.Collect(maps.Keys(o.jobs)), func(a, b *job) int { return cmp.Compare(a.ask.Name, b.ask.Name) })
	delete(o.jobs, j)
	for _, m := range j.messages(o.limit) {
		o.add(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Slots{Slots: m}})
	}
}
