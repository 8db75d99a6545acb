package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// What the notifier says. What it has told people is stored, so that nobody is told twice after a restart or by another server.
type (
	// SinksKnown says which sinks are configured. What was told through others is forgotten.
	SinksKnown struct{ Names []string }
	// SinkTold brings what a sink has told.
	SinkTold struct {
		Sink  string
		Begun []cluster.Notice     // causes of which it told; Sent is set by the engine
		Ended []cluster.StallCause // of whose end it told
		Done  func()               // called after the commit; may be nil
	}
	// SinkFails says why a sink cannot tell anything; "": it can again.
	SinkFails struct {
		Sink    string
		Message string
	}
)

func (SinksKnown) input() {}
func (SinkTold) input()   {}
func (SinkFails) input()  {}

// maxNotices is how many notices of one sink are kept. The notifier tells of fewer; this is for what it says wrongly.
const maxNotices = 4096

// notices are sorted by key. A state has few; they are replaced as a whole when one changes, so that a copy of the state costs nothing for them.
type notices []*cluster.Notice

func (n notices) find(key string) (int, bool) {
	return slices.BinarySearchFunc(n, key, func(x *cluster.Notice, key string) int { return cmp.Compare(x.Key(), key) })
}

func (n notices) get(key string) *cluster.Notice {
	if i, ok := n.find(key); ok {
		return n[i]
	}
	return nil
}

func (n notices) with(v *cluster.Notice) notices {
	i, ok := n.find(v.Key())
	out := slices.Clone(n)
	if ok {
		out[i] = v
		return out
	}
	return slices.Insert(out, i, v)
}

func (n notices) without(key string) notices {
	i, ok := n.find(key)
	if !ok {
		return n
	}
	return slices.Delete(slices.Clone(n), i, i+1)
}

// Notices returns what sinks have told of and not of its end, in the order of their keys. Nobody changes them.
func (s *State) Notices() []*cluster.Notice { return s.notices }

// NoticesOf is Notices of one sink.
func (s *State) NoticesOf(sink string) []*cluster.Notice {
	first, _ := s.notices.find(sink + "/")
	end := first
	for end < len(s.notices) && s.notices[end].Sink == sink {
		end++
	}
	return s.notices[first:end:end]
}

func (e *Engine) applyNotice(c cluster.Change) {
	switch c := c.(type) {
	case cluster.PutNotice:
		e.work.notices = e.work.notices.with(c.Notice)
		e.touch(recordNotice, c.Notice.Key())
	case cluster.RemoveNotice:
		e.work.notices = e.work.notices.without(c.Key)
		e.touch(recordNotice, c.Key)
	}
}

func (e *Engine) sinksKnown(in SinksKnown) {
	for _, n := range e.work.Notices() {
		if !slices.Contains(in.Names, n.Sink) {
			e.apply(cluster.AuthorNotifier, cluster.RemoveNotice{Key: n.Key()})
		}
	}
	for _, s := range e.work.stallsWithPrefix(cluster.SinkSubject("").String()) {
		name := strings.TrimPrefix(s.Subject.ID, cluster.SinkSubject("").ID)
		if !slices.Contains(in.Names, name) {
			e.apply(cluster.AuthorEngine, cluster.RemoveStall{Key: s.Key()})
		}
	}
}

func (e *Engine) sinkTold(in SinkTold, now cluster.Time) {
	if in.Done != nil {
		e.acks = append(e.acks, in.Done)
	}
	room := maxNotices - len(e.work.NoticesOf(in.Sink))
	for _, n := range in.Begun {
		if known := e.work.notices.get(cluster.NoticeKey(in.Sink, n.Cause)); known != nil || room <= 0 {
			continue
		}
		room--
		n.Sink, n.Sent = in.Sink, now
		e.apply(cluster.AuthorNotifier, cluster.PutNotice{Notice: &n})
	}
	for _, c := range in.Ended {
		if n := e.work.notices.get(cluster.NoticeKey(in.Sink, c)); n != nil {
			e.apply(cluster.AuthorNotifier, cluster.RemoveNotice{Key: n.Key()})
		}
	}
}

func (e *Engine) sinkFails(in SinkFails) {
	subject := cluster.SinkSubject(in.Sink)
	var stalls []cluster.Stall
	if in.Message != "" {
		stalls = append(stalls, cluster.Stall{
			Subject: subject, Source: cluster.SourceCore, Code: cluster.CodeNotificationFailed, Message: in.Message, Clears: "what " + in.Sink + " is told arrives",
		})
	}
	e.setStalls(e.work.StallsOf(subject), stalls)
}
