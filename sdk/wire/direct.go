package wire

import (
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// The kinds of record of which there are many are written and read without a message in between, by the functions of the files direct_*.go. They know the one
// form that Encode gives a record: fields in the order of their numbers, each once. Whatever else there is, such as a field of a newer version or text that is not
// UTF-8, they leave to the messages, whose answer is then given; so nothing is refused or accepted that the messages would not.
//
// A field that is added to the messages is added there too; TestDirectKnowsEveryField fails as long as one is missing.

// appendDirect appends a record's message to b. It reports false if the messages have to say what it is, and then has changed nothing of b.
func appendDirect(b []byte, v any) ([]byte, bool) {
	w := writer{b: b}
	switch r := v.(type) {
	case *cluster.Node:
		w.node(r)
	case *cluster.Slot:
		w.slot(r)
	case *cluster.Task:
		w.task(r)
	case *cluster.Stall:
		w.stall(r)
	default:
		return b, false
	}
	if w.odd {
		return b, false
	}
	return w.b, true
}

// A Decoder decodes records. What has the same text in many records, such as the name of a job or the id of a node, shares one copy of it; so do a record's name
// and the key that it was decoded with. It is not safe for use by more than one goroutine; the zero value shares nothing.
type Decoder struct {
	texts map[string]string
	last  [lastTexts]string // of them, those that were asked for last
	name  string            // the part of the key after the kind
	odd   bool              // the messages have to say what it is

	reused bool // of these
	task1  cluster.Task
	slot1  cluster.Slot
}

// NewDecoder returns a decoder that shares texts. It keeps some of them, a few megabytes at most.
func NewDecoder() *Decoder { return &Decoder{texts: map[string]string{}} }

// Reuse has Decode return a task or a slot that is good until the next call, where it makes another one each time.
func (d *Decoder) Reuse() { d.reused = true }

func (d *Decoder) newTask() *cluster.Task {
	if !d.reused {
		return new(cluster.Task)
	}
	d.task1 = cluster.Task{}
	return &d.task1
}

func (d *Decoder) newSlot() *cluster.Slot {
	if !d.reused {
		return new(cluster.Slot)
	}
	d.slot1 = cluster.Slot{}
	return &d.slot1
}

// Bounds of what a decoder keeps.
const (
	sharedTexts = 1 << 16
	sharedBytes = 64 // in one text
	lastTexts   = 256
)

// direct decodes a record. It returns nil if the messages have to say what it is.
func (d *Decoder) direct(key string, value []byte) any {
	kind, name, _ := strings.Cut(key, "/")
	d.name, d.odd = name, false
	var v any
	switch kind {
	case KindNode:
		n := new(cluster.Node)
		d.node(value, n)
		v = n
	case KindSlot:
		s := d.newSlot()
		d.slot(value, s)
		v = s
	case KindTask:
		t := d.newTask()
		d.task(value, t)
		v = t
	case KindStall:
		s := new(cluster.Stall)
		d.stall(value, s)
		v = s
	default:
		return nil
	}
	if d.odd {
		return nil
	}
	return v
}

// share returns text that many records have. What the record before had is known without asking the table.
func (d *Decoder) share(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	last := &d.last[(len(b)*31+int(b[0])*7+int(b[len(b)-1]))%lastTexts]
	if *last == string(b) {
		return *last
	}
	s := d.shareAny(b)
	if d.texts != nil && len(s) <= sharedBytes {
		*last = s
	}
	return s
}

func (d *Decoder) shareAny(b []byte) string {
	if known, ok := d.texts[string(b)]; ok {
		return known
	}
	s := string(b)
	if d.texts != nil && len(s) <= sharedBytes {
		if len(d.texts) >= sharedTexts {
			clear(d.texts)
		}
		d.texts[s] = s
	}
	return s
}

// part returns b as a part of s, which it is if it stands at a position there.
func part(s string, at int, b []byte) string {
	if at <= len(s) && len(s)-at >= len(b) && s[at:at+len(b)] == string(b) {
		return s[at : at+len(b)]
	}
	return string(b)
}
