package engine

import (
	"encoding/binary"
	"time"

	"github.com/setpointd/setpoint/core/internal/texts"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Tasks and slots are kept packed: each is one string of bytes that holds all its fields and no pointer, a tenth of the record's size. So a million of them fit
// into memory, and the garbage collector has one object to look at in place of dozens. A packed record depends on nothing but itself, so that it can be read
// from any goroutine and is gone with the last state that has it. Packing gives back what was packed, except that a list without entries becomes nil, as it
// does in the store.
//
// It is a form of memory only: what is stored and sent is sdk/wire's.

// commonTexts are written as one byte. Any other text is written out, so a missing one costs a few bytes and nothing else.
var commonTexts = [...]string{
	"new slot", "its predecessor is lost with its node", "its predecessor is gone with its node",
	cluster.SourceCore, cluster.MovedByUpdate, cluster.MovedByMonitor, "drain", "drift", "rebalance", "constraint", "global",
	string(cluster.OK), string(cluster.Lost), string(cluster.Gone),
	string(cluster.NotUpNew), string(cluster.NotUpFailed), string(cluster.NotUpLost), string(cluster.NotUpMoved), string(cluster.NotUpWaiting),
	string(cluster.CodePluginPending), string(cluster.CodeNodeDown), string(cluster.CodeNodeSilent),
	string(cluster.CodeNodeDraining), string(cluster.CodeNodePaused),
	"the slot is not wanted any more", "another task of the slot is up", "the work of the slot is done", "the job was stopped", "the job was removed",
	"http", "healthy",
}

var commonCodes = func() map[string]uint64 {
	out := make(map[string]uint64, len(commonTexts))
	for i, s := range commonTexts {
		out[s] = textCommon + uint64(i)
	}
	return out
}()

// What a text begins with: one of these, or its length above textOwn.
const (
	textNone   = iota // ""
	textSlot          // the key of the record's slot
	textNode          // the node where the record's task was placed
	textCommon        // the first of commonTexts
	textOwn    = textCommon + uint64(len(commonTexts)) - 1
)

// packer writes the fields of one record, one after the other.
type packer struct {
	b    []byte
	slot string // its key, once it is known
	node string // where its task was placed, once it is known

	room *texts.Room // for what is made; nil: everything lies on its own
}

// made returns bytes as a string that is kept.
func (p *packer) made(b []byte) string {
	if p.room == nil {
		return string(b)
	}
	return p.room.Text(b)
}

func (p *packer) uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }

func (p *packer) int(v int64) { p.b = binary.AppendVarint(p.b, v) }

func (p *packer) text(s string) {
	switch s {
	case "":
		p.uint(textNone)
		return
	case p.slot:
		p.uint(textSlot)
		return
	case p.node:
		p.uint(textNode)
		return
	}
	if code, ok := commonCodes[s]; ok {
		p.uint(code)
		return
	}
	p.uint(textOwn + uint64(len(s)))
	p.b = append(p.b, s...)
}

// time writes a moment by its distance from another one. The two clocks mostly run at one pace, so that what the second one adds is small.
func (p *packer) time(t, from cluster.Time) {
	engine := int64(t.Engine - from.Engine)
	p.int(engine)
	p.int(t.Wall - from.Wall - engine)
}

func (p *packer) nodes(ids []cluster.NodeID) {
	p.uint(uint64(len(ids)))
	for _, id := range ids {
		p.text(string(id))
	}
}

// unpacker reads what a packer wrote. Texts are parts of what is read, or of the record's id: none is copied.
type unpacker struct {
	s    string
	slot string
	node string
}

func (u *unpacker) uint() uint64 {
	if c := u.s[0]; c < 0x80 {
		u.s = u.s[1:]
		return uint64(c)
	}
	var v uint64
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		c := u.s[i]
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			u.s = u.s[i+1:]
			return v
		}
	}
}

func (u *unpacker) int() int64 {
	v := u.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) text() string {
	switch code := u.uint(); {
	case code == textNone:
		return ""
	case code == textSlot:
		return u.slot
	case code == textNode:
		return u.node
	case code <= textOwn:
		return commonTexts[code-textCommon]
	default:
		s := u.s[:code-textOwn]
		u.s = u.s[len(s):]
		return s
	}
}

func (u *unpacker) time(from cluster.Time) cluster.Time {
	engine := u.int()
	return cluster.Time{Engine: from.Engine + time.Duration(engine), Wall: from.Wall + engine + u.int()}
}

func (u *unpacker) nodes() []cluster.NodeID {
	out := make([]cluster.NodeID, u.uint())
	for i := range out {
		out[i] = cluster.NodeID(u.text())
	}
	return out
}
