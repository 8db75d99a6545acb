package notify

import (
	"fmt"
	"strings"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Status says what an alert tells.
type Status string

// What an alert tells.
const (
	Stalled Status = "stalled" // something waits
	Cleared Status = "cleared" // it does no more
	Trial   Status = "trial"   // nothing: somebody tries whether it arrives
)

// Message is what a sink gets: the body of a webhook's request, and what a program reads.
type Message struct {
	Format  int             `json:"format"` // 1
	Cluster string          `json:"cluster"`
	Server  string          `json:"server"`         // that tells
	Link    string          `json:"link,omitempty"` // to the dashboard
	Sent    time.Time       `json:"sent"`
	Alerts  []ToldInMessage `json:"alerts"`
}

// ToldInMessage is one alert of a message.
type ToldInMessage struct {
	ID      string     `json:"id"` // of the cause; an end has the id of its beginning
	Status  Status     `json:"status"`
	Code    string     `json:"code"`
	Source  string     `json:"source"`
	Detail  string     `json:"detail,omitempty"`
	Summary string     `json:"summary"` // one line for people
	Message string     `json:"message,omitempty"`
	Clears  string     `json:"clears,omitempty"`
	Count   int        `json:"count"`
	Jobs    []string   `json:"jobs,omitempty"`
	More    int        `json:"more_jobs,omitempty"`
	Since   time.Time  `json:"since"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// formatVersion is that of Message. Fields are added to it, never changed.
const formatVersion = 1

// batch is what a sink delivers at once.
type batch struct {
	cluster string
	server  string
	link    string
	now     time.Time
	begin   []Alert
	end     []Alert
	open    []Alert // for those that say it again and again
	trial   bool
}

func (b *batch) message() Message {
	m := Message{Format: formatVersion, Cluster: b.cluster, Server: b.server, Link: b.link, Sent: b.now.UTC()}
	if b.trial {
		m.Alerts = append(m.Alerts, ToldInMessage{ID: trialID, Status: Trial, Code: "trial", Source: cluster.SourceCore, Summary: b.trialSummary(), Since: b.now.UTC()})
	}
	for i := range b.begin {
		m.Alerts = append(m.Alerts, b.begin[i].told(Stalled))
	}
	for i := range b.end {
		a := b.end[i].told(Cleared)
		at := b.now.UTC()
		a.Ended = &at
		m.Alerts = append(m.Alerts, a)
	}
	return m
}

const trialID = "trial"

func (b *batch) trialSummary() string {
	return "a trial from " + b.server + ": nothing is wrong"
}

func (a *Alert) told(s Status) ToldInMessage {
	return ToldInMessage{
		ID: a.Cause.ID(), Status: s, Code: string(a.Cause.Code), Source: a.Cause.Source, Detail: a.Cause.Detail, Summary: a.summary(s), Message: a.Message, Clears: a.Clears,
		Count: a.Count, Jobs: a.Jobs, More: a.MoreJobs, Since: a.Since.WallTime(),
	}
}

// summary says an alert in one line.
func (a *Alert) summary(s Status) string {
	what := string(a.Cause.Code)
	if a.Cause.Detail != "" {
		what += " (" + a.Cause.Detail + ")"
	}
	if s == Cleared {
		return "nothing waits any more: " + what
	}
	things := "1 waits"
	if a.Count == 0 {
		things = "something waits" // or did until a moment ago
	} else if a.Count > 1 {
		things = fmt.Sprintf("%d wait", a.Count)
	}
	if n := len(a.Jobs) + a.MoreJobs; n == 1 {
		things += " of " + a.Jobs[0]
	} else if n > 1 {
		things += fmt.Sprintf(" of %d jobs", n)
	}
	return things + ": " + what
}

// jobNames returns the jobs of an alert in one line.
func (a *Alert) jobNames() string {
	text := strings.Join(a.Jobs, ", ")
	if a.MoreJobs > 0 {
		text += fmt.Sprintf(" and %d more", a.MoreJobs)
	}
	return text
}

// clip returns one line of at most so many bytes, without what a terminal or a log would take for a command.
func clip(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
