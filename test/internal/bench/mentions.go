package bench

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// A mention is an event, or a line of the server's log.
type mention struct {
	at   time.Time
	what string
	text string
}

// memory is what V6 needs to know of what was there before.
type memory struct {
	log      tailer               // of the server's log
	revision uint64               // of the last event
	alive    map[string]time.Time // when something of a job was last alive on a node, by job
	listed   map[string]time.Time // when a task was listed last
}

func newMemory(log string) memory {
	return memory{log: tailer{path: log}, alive: map[string]time.Time{}, listed: map[string]time.Time{}}
}

// lookForMentions adds to a view what may name something deleted.
func (s *Sampler) lookForMentions(ctx context.Context, v *view) error {
	for token := ""; ; {
		jobs, err := s.client.ListJobs(ctx, connect.NewRequest(&apiv1.ListJobsRequest{PageSize: 1000, PageToken: token}))
		if err != nil {
			return err
		}
		for _, j := range jobs.Msg.GetJobs() {
			v.jobs = append(v.jobs, j.GetName())
		}
		if token = jobs.Msg.GetNextPageToken(); token == "" {
			break
		}
	}
	for token := ""; ; {
		stalls, err := s.client.ListStalls(ctx, connect.NewRequest(&apiv1.ListStallsRequest{PageSize: 1000, PageToken: token}))
		if err != nil {
			return err
		}
		v.stalls = append(v.stalls, stalls.Msg.GetStalls()...)
		if token = stalls.Msg.GetNextPageToken(); token == "" {
			break
		}
	}
	if err := s.lookForEvents(ctx, v); err != nil {
		return err
	}
	lines, err := s.memory.log.more()
	for _, line := range lines {
		// What a caller asked about is the caller's word.
		if at, is := logTime(line); is && !strings.Contains(line, "procedure=") {
			v.said = append(v.said, mention{at, "the server's log says", line})
		}
	}
	return err
}

func (s *Sampler) lookForEvents(ctx context.Context, v *view) error {
	if len(v.nodes)+len(v.tasks) == 0 {
		return nil // of a state that is empty there may be no event yet, and one would be waited for
	}
	req := &apiv1.WatchEventsRequest{}
	if s.memory.revision > 0 {
		req.FromRevision = new(s.memory.revision + 1)
	}
	stream, err := s.client.WatchEvents(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // what it says, Err says too
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			s.memory.revision = max(s.memory.revision, e.GetRevision())
			v.said = append(v.said, mention{
				e.GetTime().AsTime(), "an event says", fmt.Sprintf("job=%s task=%s %s %s", e.GetJob(), e.GetTask(), e.GetKind(), e.GetText()),
			})
		}
	}
	err = stream.Err()
	if connect.CodeOf(err) == connect.CodeOutOfRange { // a server that was started anew does not have what was before
		s.memory.revision, err = 0, nil
	}
	return err
}

// logTime returns when a line of a log was written; a line that goes on another has no time.
func logTime(line string) (time.Time, bool) {
	first, _, _ := strings.Cut(line, " ")
	at, err := time.Parse("2006-01-02T15:04:05.000Z0700", first)
	return at, err == nil
}

// forgotten holds V6.
func (s *Sampler) forgotten(v view) {
	for task := range s.alive(v) {
		job, _, _ := strings.Cut(task, "/")
		s.memory.alive[job], s.memory.listed[task] = v.at, v.at
	}
	for _, t := range v.tasks {
		s.memory.listed[t.GetId()] = v.at
	}
	deleted := s.deleted(v.at)
	for _, t := range v.tasks {
		s.mentions(deleted, v.at, "a task is listed", "job="+t.GetJob())
	}
	for _, n := range v.nodes {
		for _, p := range n.GetPorts() {
			s.mentions(deleted, v.at, "node "+n.GetName()+" has a port for", p.GetName())
		}
	}
	for _, j := range v.jobs {
		s.mentions(deleted, v.at, "a job is listed", "job="+j)
	}
	for _, t := range v.stalls {
		s.mentions(deleted, v.at, "a stall says", fmt.Sprintf("job=%s task=%s subject=%s %s %s", t.GetJob(), t.GetTask(), t.GetSubject().GetId(), t.GetMessage(), t.GetClears()))
	}
	for _, m := range v.said {
		s.mentions(deleted, m.at, m.what, m.text)
	}
	if len(v.said) > 0 { // what went long ago was looked for often enough
		maps.DeleteFunc(s.memory.listed, func(_ string, at time.Time) bool { return v.at.Sub(at) > 2*time.Minute })
	}
}

// deletions say when jobs and tasks were gone for good.
type deletions struct {
	jobs  map[string]time.Time
	named map[string]*regexp.Regexp // how a job's name stands in a text
	tasks map[string]time.Time
}

// deleted returns what is gone: the jobs that were removed, and the tasks whose records are no more, from the moment on at which nothing of them was alive.
func (s *Sampler) deleted(now time.Time) deletions {
	s.c.mu.Lock()
	d := deletions{maps.Clone(s.c.removed), map[string]*regexp.Regexp{}, map[string]time.Time{}}
	s.c.mu.Unlock()
	for job, at := range d.jobs {
		if last := s.memory.alive[job]; last.After(at) {
			d.jobs[job] = last
		}
		name := regexp.QuoteMeta(job)
		d.named[job] = regexp.MustCompile(`(^|[\s"'=(\[,])` + name + `/([0-9]+|[0-9a-f]{8,}|[\w.-]+/[0-9]+)\b|\bjob[= ]"?` + name + `(["\s,):\]]|$)`)
	}
	for task, at := range s.memory.listed {
		if now.Sub(at) > 0 {
			d.tasks[task] = at
		}
	}
	return d
}

// taskName is how a task's id stands in a text.
var taskName = regexp.MustCompile(`[a-z0-9][\w.-]*/[\w.-]+/[0-9]+`)

// mentions finds in a text of a moment what names something that was gone for too long.
func (s *Sampler) mentions(d deletions, at time.Time, what, text string) {
	for _, job := range slices.Sorted(maps.Keys(d.jobs)) {
		if ago := at.Sub(d.jobs[job]); ago > forgetting && strings.Contains(text, job) && d.named[job].MatchString(text) {
			s.violate("V6"+job, "V6: job %s is gone since %s, and %s: %s", job, ago, what, text)
		}
	}
	for _, task := range taskName.FindAllString(text, -1) {
		if _, _, _, err := cluster.TaskID(task).Parts(); err != nil {
			continue
		}
		if gone, is := d.tasks[task]; is && at.Sub(gone) > forgetting {
			s.violate("V6"+task, "V6: the record of task %s is gone since %s, and %s: %s", task, at.Sub(gone), what, text)
		}
	}
}
