package pluginhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// trialBit marks the ids of trial questions, which are the host's own; all others are the engine's.
const trialBit = 1 << 63

// question is something that the plugin was asked once.
type question struct {
	due time.Time

	drain  *engine.DrainQuestion
	tasks  map[string]*cluster.Task // by id
	answer engine.PluginDrain       // so far

	trial *trial
	bytes int // of the parts so far

	asking *asking // nil: nobody follows it
}

// trial is a question of what a filter would say: of classes, and of nodes as they might be. It is not kept.
type trial struct {
	classes []engine.Class
	nodes   []engine.IndexedNode
	answers map[uint32]*trialAnswer // Owner: the session's loop

	once  sync.Once
	reply chan trialReply // has room for one
}

type trialReply struct {
	verdicts []engine.ClassVerdict
	err      error
}

func (t *trial) fail(err error) { t.done(trialReply{err: err}) }

func (t *trial) done(r trialReply) { t.once.Do(func() { t.reply <- r }) }

func (s *session) fillQuestions(p *parcel, now time.Time) {
	for _, id := range sortedKeys(p.cancel) {
		s.cancel(id)
	}
	asked := s.followDrains(p)
	for _, node := range sortedKeys(p.drains) {
		ask := p.drains[node]
		raw := wireDrain(&ask)
		q := &question{drain: &ask, tasks: map[string]*cluster.Task{}, due: now.Add(s.patience()), asking: asked[subject{kind: AskDrain, id: node}]}
		q.answer = engine.PluginDrain{Name: s.name, Session: s.number, Question: ask.ID}
		for _, t := range ask.Tasks {
			q.tasks[string(t.Task.ID)] = t.Task
		}
		s.ask(ask.ID, q, &pluginv1.Question{Id: ask.ID, Ask: &pluginv1.Question_Drain{Drain: raw}})
	}
}

func (s *session) ask(id uint64, q *question, m *pluginv1.Question) {
	s.questions[id] = q
	s.lastAsked[id >= trialBit] = max(s.lastAsked[id >= trialBit], id)
	s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Question{Question: m}})
}

// cancel withdraws a question, if it was asked.
func (s *session) cancel(id uint64) {
	q := s.questions[id]
	if q == nil {
		return
	}
	q.asking.ended(Withdrawn)
	delete(s.questions, id)
	s.queue = append(s.queue, &pluginv1.FromCore{Message: &pluginv1.FromCore_Cancel{Cancel: &pluginv1.Cancel{Question: id}}})
}

func wireDrain(q *engine.DrainQuestion) *pluginv1.DrainQuestion {
	out := &pluginv1.DrainQuestion{
		Revision: wireRevision(q.Revision), Node: q.Node, WaitedNs: int64(q.Waited), DeadlineNs: int64(q.Deadline),
	}
	for _, t := range q.Tasks {
		out.Tasks = append(out.Tasks, &pluginv1.DrainTask{
			Id: string(t.Task.ID), Job: t.Task.Job, JobType: t.JobType, Slot: string(t.Task.Slot), Priority: int64(t.Priority),
			OnDrain: string(t.OnDrain), Desired: t.Task.Desired.State.String(), Observed: t.Task.Observed.State.String(),
			Healthy: t.Task.Observed.Healthy, Labels: t.Labels, SettingsJson: t.Settings,
		})
	}
	return out
}

// askTrial puts a trial question.
func (s *session) askTrial(t *trial, now time.Time) {
	scratch := newMirror(s.about.watches)
	scratch.numbers = map[string]uint32{}
	scratch.number("")
	ask := &pluginv1.TrialQuestion{}
	for _, c := range t.classes {
		ask.Classes = append(ask.Classes, wireClass(c))
	}
	for _, n := range t.nodes {
		if n.Node == nil {
			continue // a node can be another in a trial, but not be gone
		}
		ask.Nodes = append(ask.Nodes, scratch.encode(n.Index, n.Node))
	}
	ask.Strings = scratch.fresh
	s.trialID++
	id := trialBit + s.trialID
	m := &pluginv1.Question{Id: id, Ask: &pluginv1.Question_Trial{Trial: ask}}
	if size := proto.Size(m); size > maxTrialBytes {
		t.fail(fmt.Errorf("trial question of %d bytes: the limit is %d", size, maxTrialBytes))
		return
	}
	s.ask(id, &question{trial: t, due: now.Add(s.patience())}, m)
}

const maxTrialBytes = 32 << 20

// takeAnswer takes one part of an answer to a question.
func (s *session) takeAnswer(ctx context.Context, a *pluginv1.Answer, size int) error {
	if a.Question == 0 || a.Question > s.lastAsked[a.Question >= trialBit] {
		return invalid("it answers question %d, which it was not asked", a.Question)
	}
	q := s.questions[a.Question]
	if q == nil {
		return nil // it was withdrawn, or its time is over
	}
	err := s.answer(q, a, size)
	if err == nil && a.More {
		return nil
	}
	delete(s.questions, a.Question)
	if err != nil {
		if err := s.lied(fmt.Sprintf("question %d", a.Question), err); err != nil {
			return err
		}
	}
	if q.trial != nil {
		q.trial.finish(s.name, a.GetFailure(), s.check, err)
		return nil
	}
	if err != nil {
		q.answer = engine.PluginDrain{Name: s.name, Session: s.number, Question: a.Question, Failure: invalidAnswer(err)}
		s.followed(q.asking.ended(Refused))
	} else {
		s.followed(q.asking.ended(outcomeOf(nil, q.answer.Failure)))
	}
	return s.tell(ctx, q.answer)
}

func (s *session) answer(q *question, a *pluginv1.Answer, size int) error {
	if q.bytes += size; q.bytes > maxParts {
		return lief("its answer has more than %d bytes", maxParts)
	}
	switch x := a.Answer.(type) {
	case *pluginv1.Answer_Failure:
		q.answer.Failure = s.check.failure(x.Failure)
		return nil
	case *pluginv1.Answer_Drain:
		if q.drain != nil {
			return s.check.drain(q, x.Drain, &q.answer)
		}
	case *pluginv1.Answer_Trial:
		if q.trial != nil {
			return s.check.trial(q.trial, x.Trial, s.applied)
		}
	}
	return lief("the answer is to another kind of question")
}
