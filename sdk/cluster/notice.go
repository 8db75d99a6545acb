package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// StallCause is what stalls have in common that wait for the same thing. People are told of causes, not of stalls.
type StallCause struct {
	Code   Code
	Source string
	Detail string // what of the code it is, such as the constraint; "": the code says it all
}

// Cause returns what the stall has in common with others: for those of placement the detail is what excludes nodes by the reason that the code names, for a sink
// that fails it is the sink.
func (s *Stall) Cause() StallCause {
	c := StallCause{Code: s.Code, Source: s.Source}
	if s.Subject.Kind == SubjectCluster {
		if sink, ok := strings.CutPrefix(s.Subject.ID, sinkPrefix); ok {
			c.Detail = sink
		}
	}
	for _, e := range s.Facts.Excluded {
		if e.Code == s.Code && e.Detail != "" {
			c.Detail = e.Detail
			break
		}
	}
	return c
}

// causeIDBytes is how much of a cause's hash names it: enough that no two of a cluster are named alike.
const causeIDBytes = 8

// ID returns a short name of the cause, the same on every server and at all times. It has hexadecimal digits only.
func (c StallCause) ID() string {
	sum := sha256.Sum256([]byte(string(c.Code) + "\x00" + c.Source + "\x00" + c.Detail))
	return hex.EncodeToString(sum[:causeIDBytes])
}

// Notice says that a sink has told people of a cause and has not told them yet that it ended.
type Notice struct {
	Sink    string // its name in the configuration
	Cause   StallCause
	Since   Time   // when the oldest of what waited had begun to
	Sent    Time   // when the sink had told
	Message string // that was told
}

// Key is what makes a notice another one: its sink and its cause.
func (n *Notice) Key() string { return NoticeKey(n.Sink, n.Cause) }

// NoticeKey returns the key of a sink's notice of a cause.
func NoticeKey(sink string, c StallCause) string { return sink + "/" + c.ID() }

// SinkSubject returns what a stall belongs to that says that a sink cannot tell people anything.
func SinkSubject(sink string) Subject { return Subject{Kind: SubjectCluster, ID: sinkPrefix + sink} }

const sinkPrefix = "notify/"
