package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/setpointd/setpoint/agent/state"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

const (
	// maxReport is how many tasks one report tells of.
	maxReport = 1000
	// gatherFor is how long after a change others are gathered into the same report.
	gatherFor = 20 * time.Millisecond
	// maxUnacked is how many reports may wait for the server's word that they are durable. What changes meanwhile is gathered.
	maxUnacked = 4
)

// send says everything that the session has to say, until it ends. When stop is closed it says the last and hangs up.
func (s *session) send(ctx context.Context, stop <-chan struct{}) error {
	if err := s.reportAll(); err != nil {
		return s.broken(ctx, err)
	}
	beat := time.NewTimer(s.beatPause())
	defer beat.Stop()
	var gather <-chan time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			return s.bye(ctx)
		case <-s.feed.Wake():
			if gather == nil {
				gather = time.After(gatherFor)
			}
		case <-gather:
			gather = nil
			s.pending = true
			err = s.reportChanges()
		case <-s.acks:
			err = s.reportChanges()
		case <-beat.C:
			beat.Reset(s.beatPause())
			err = s.stream.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Heartbeat{Heartbeat: &agentv1.Heartbeat{}}})
		case m := <-s.out:
			err = s.stream.Send(m)
		}
		if err != nil {
			return s.broken(ctx, err)
		}
	}
}

// broken turns an error of sending into the session's. Where the server ended the stream, the receiver is told why.
func (s *session) broken(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		<-ctx.Done()
		return nil
	}
	return fmt.Errorf("send: %w", err)
}

// beatPause is the time to the next heartbeat: less than the period, and not the same for all agents.
func (s *session) beatPause() time.Duration {
	period := s.beats()
	return period/2 + rand.N(period/4+1)
}

// reportAll sends the full report, which tells of every task.
func (s *session) reportAll() error {
	all := s.agent.set.Statuses()
	for {
		n := min(len(all), maxReport)
		if err := s.report(all[:n], true, n < len(all)); err != nil {
			return err
		}
		if all = all[n:]; len(all) == 0 {
			return nil
		}
	}
}

// reportChanges sends what has changed, unless the server has not taken enough of what was sent before.
func (s *session) reportChanges() error {
	for s.pending && s.sent-s.acked.Load() < maxUnacked {
		statuses, changed := s.feed.Take(maxReport)
		if !changed {
			s.pending = false
			return nil
		}
		if err := s.report(statuses, false, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) report(statuses []state.Status, full, more bool) error {
	s.sent++
	r := &agentv1.Report{Number: s.sent, Full: full, More: more, Tasks: make([]*agentv1.TaskStatus, len(statuses))}
	for i := range statuses {
		r.Tasks[i] = statuses[i].ToProto()
	}
	for _, id := range s.agent.set.Strays() {
		r.Strays = append(r.Strays, string(id))
	}
	return s.stream.Send(&agentv1.FromAgent{Message: &agentv1.FromAgent_Report{Report: r}})
}

// bye reports what is left to report, waits until the server has it, and hangs up.
func (s *session) bye(ctx context.Context) error {
	timer := time.AfterFunc(farewell, func() { s.end(errBye) })
	context.AfterFunc(ctx, func() { timer.Stop() })
	for {
		s.pending = true
		if err := s.reportChanges(); err != nil {
			return s.broken(ctx, err)
		}
		if !s.pending && s.acked.Load() == s.sent {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.acks:
		}
	}
	if err := s.stream.CloseRequest(); err != nil {
		return fmt.Errorf("hang up: %w", err)
	}
	return nil
}
