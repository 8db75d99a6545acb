package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// maxQuestions bounds the questions that are being answered.
const maxQuestions = 1024

// question is something to be answered once. Owner: the session's loop.
type question struct {
	id     uint64
	ctx    context.Context //nolint:containedctx // of the computations of its answer
	cancel context.CancelFunc
	trial  [][]*pluginv1.ClassVerdict // by class; nil: not answered yet
	left   int                        // classes to be answered
}

// ask begins to answer a question.
func (s *session) ask(msg *pluginv1.Question) error {
	if s.questions[msg.Id] != nil {
		return fmt.Errorf("question %d is asked twice", msg.Id)
	}
	q := &question{id: msg.Id}
	q.ctx, q.cancel = context.WithCancel(s.ctx)
	s.questions[q.id] = q
	var err error
	switch ask := msg.Ask.(type) {
	case *pluginv1.Question_Drain:
		err = s.askDrain(q, ask.Drain)
	case *pluginv1.Question_Trial:
		err = s.askTrial(q, ask.Trial)
	default:
		err = errors.New("the question is of an unknown kind")
	}
	if err == nil && len(s.questions) > maxQuestions {
		err = fmt.Errorf("more than %d questions at once", maxQuestions)
	}
	if err != nil {
		s.answerFailure(q, failureOf(err))
	}
	return nil
}

// cancelled withdraws a question: it gets no answer.
func (s *session) cancelled(id uint64) {
	if q := s.questions[id]; q != nil {
		q.cancel()
		delete(s.questions, id)
	}
}

// once is a call of author's code for a question.
type once struct{ do, overdue func() }

func (o *once) run()  { o.do() }
func (o *once) late() { o.overdue() }

// open reports whether a question still waits for its answer.
func (s *session) open(q *question) bool { return s.questions[q.id] == q }

func (s *session) answer(q *question, answers ...*pluginv1.Answer) {
	if !s.open(q) {
		return
	}
	q.cancel()
	delete(s.questions, q.id)
	for i, a := range answers {
		a.Question, a.More = q.id, i < len(answers)-1
		s.outbox.add(&pluginv1.FromPlugin{Message: &pluginv1.FromPlugin_Answer{Answer: a}})
	}
}

func (s *session) answerFailure(q *question, f *pluginv1.Failure) {
	s.answer(q, &pluginv1.Answer{Answer: &pluginv1.Answer_Failure{Failure: f}})
}

func (s *session) timeout() *pluginv1.Failure {
	return &pluginv1.Failure{Kind: failureTimeout, Message: "no answer within " + s.limits.deadline.String()}
}

func (s *session) askDrain(q *question, msg *pluginv1.DrainQuestion) error {
	switch {
	case s.plugin.Drainer == nil:
		return errors.New("the plugin is no drainer")
	case s.mirror.current == nil || s.mirror.current.node(msg.Node) == nil:
		return fmt.Errorf("node %d is unknown", msg.Node)
	}
	node := s.mirror.current.node(msg.Node)
	s.calls = append(s.calls, &once{
		do: func() {
			var answers []*pluginv1.Answer
			err := guard(func() (err error) {
				answers, err = s.drain(q.ctx, node, msg)
				return err
			})
			s.inbox.call(func() {
				if err != nil && s.open(q) {
					s.log.Error("drain answer failed", "node", string(node.ID), "error", err, "stack", stackOf(err))
					s.answerFailure(q, failureOf(err))
				}
				s.answer(q, answers...)
			})
		},
		overdue: func() { s.inbox.call(func() { s.answerFailure(q, s.timeout()) }) },
	})
	return nil
}

// drain asks the author. It runs outside of the loop.
func (s *session) drain(ctx context.Context, node *cluster.Node, msg *pluginv1.DrainQuestion) ([]*pluginv1.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.deadline)
	defer cancel()
	req, err := s.drainRequest(node, msg)
	if err != nil {
		return nil, err
	}
	resp, err := s.plugin.Drainer.Drain(ctx, req)
	if stall, ok := asStall(err); ok && stall != nil {
		resp = DrainResponse{}
		for i := range req.Tasks {
			resp.Keep = append(resp.Keep, Kept{Task: req.Tasks[i].ID, Why: stall})
		}
	} else if !ok && err != nil {
		return nil, fmt.Errorf("drain: %w", err)
	}
	return drainAnswers(s.plugin.Name, msg, resp, s.limits.message)
}

func (s *session) askTrial(q *question, msg *pluginv1.TrialQuestion) error {
	if s.plugin.Filter == nil {
		return errors.New("the plugin is no filter")
	}
	v, err := s.trialView(msg)
	if err != nil {
		return err
	}
	q.left, q.trial = len(msg.Classes), make([][]*pluginv1.ClassVerdict, len(msg.Classes))
	for i, c := range msg.Classes {
		s.calls = append(s.calls, &once{
			do: func() {
				parts := s.tryClass(q.ctx, v, c)
				s.inbox.call(func() { s.tried(q, i, parts) })
			},
			overdue: func() {
				s.inbox.call(func() { s.tried(q, i, failedClass(c, s.timeout())) })
			},
		})
	}
	if q.left == 0 {
		s.answer(q, trialAnswers(nil, s.limits.message)...)
	}
	return nil
}

func (s *session) trialView(msg *pluginv1.TrialQuestion) (*view, error) {
	if s.mirror.current == nil {
		return nil, errors.New("the nodes are not known yet")
	}
	var replaced []*entry
	var indexes []uint32
	for _, raw := range msg.Nodes {
		e, err := newEntry(raw, msg.Strings)
		if err != nil {
			return nil, err
		}
		if raw.Index >= maxIndex {
			return nil, fmt.Errorf("node index %d is beyond %d", raw.Index, maxIndex)
		}
		replaced, indexes = append(replaced, e), append(indexes, raw.Index)
	}
	if len(replaced) == 0 {
		return s.mirror.current, nil
	}
	return s.mirror.current.with(replaced, indexes), nil
}

// tryClass answers one class of a trial. It runs outside of the loop and keeps nothing.
func (s *session) tryClass(ctx context.Context, v *view, msg *pluginv1.Class) []*pluginv1.ClassVerdict {
	j := judge{plugin: s.plugin, deadline: s.limits.deadline, req: compileRequest(msg.Request)}
	var out judgement
	err := guard(func() error { return j.ask(ctx, v, nil, changes{compile: true, all: true}, &out) })
	head := &pluginv1.ClassVerdict{Class: msg.Id, ClassRevision: msg.Revision}
	switch {
	case err != nil:
		s.log.Error("trial answer failed", "error", err, "stack", stackOf(err))
		return failedClass(msg, failureOf(err))
	case out.stall != nil:
		head.Answer = &pluginv1.ClassVerdict_Stall{Stall: wireStall(s.plugin.Name, out.stall)}
	case out.matcher == nil:
		head.Answer = &pluginv1.ClassVerdict_Indifferent{Indifferent: &pluginv1.Indifferent{}}
	default:
		return fullParts(head, out.full, int64(max(out.again, 0)), s.limits.message-perMessage)
	}
	return []*pluginv1.ClassVerdict{head}
}

func failedClass(msg *pluginv1.Class, f *pluginv1.Failure) []*pluginv1.ClassVerdict {
	return []*pluginv1.ClassVerdict{{Class: msg.Id, ClassRevision: msg.Revision, Answer: &pluginv1.ClassVerdict_Failure{Failure: f}}}
}

// tried takes the answer of one class of a trial; the first one counts.
func (s *session) tried(q *question, i int, parts []*pluginv1.ClassVerdict) {
	if !s.open(q) || q.trial[i] != nil {
		return
	}
	q.trial[i] = parts
	if q.left--; q.left == 0 {
		s.answer(q, trialAnswers(q.trial, s.limits.message)...)
	}
}

func trialAnswers(classes [][]*pluginv1.ClassVerdict, limit int) []*pluginv1.Answer {
	trial, size := &pluginv1.TrialAnswer{}, perMessage
	out := []*pluginv1.Answer{{Answer: &pluginv1.Answer_Trial{Trial: trial}}}
	for _, parts := range classes {
		for _, c := range parts {
			n := proto.Size(c) + perEntry
			if size+n > limit && len(trial.Classes) > 0 {
				trial, size = &pluginv1.TrialAnswer{}, perMessage
				out = append(out, &pluginv1.Answer{Answer: &pluginv1.Answer_Trial{Trial: trial}})
			}
			trial.Classes = append(trial.Classes, c)
			size += n
		}
	}
	return out
}
