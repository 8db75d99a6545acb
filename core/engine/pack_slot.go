package engine

import (
	"encoding/binary"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// packedSlot is a slot without its id: what is true of it in two bytes, and its other fields as a packer writes them.
type packedSlot string

// What is true of a slot. Fields that it does not have are not written.
const (
	slotEnds = 1 << iota
	slotUnwanted
	slotEverUp
	slotDone
	slotFailed
	slotFresh
	slotCounted
	slotOdd     // its job does not follow from its id
	slotLimited // to some nodes
	slotHeld
	slotSpent  // restarts, or back-off
	slotAvoids // a node
	slotNotUp  // since when and why
	slotUp     // since when
	slotMoves  // for what, and in which version
	slotKeeps  // room on a node, or is to leave one

	slotHead = 2 // bytes before the first field
)

// packSlot packs a slot. The packer's bytes are used and left to it.
func packSlot(p *packer, s *cluster.Slot) packedSlot {
	has := slotFlags(s)
	p.b = binary.LittleEndian.AppendUint16(p.b[:0], has)
	p.slot, p.node = string(s.Key), ""
	if has&slotOdd != 0 {
		p.uint(uint64(len(s.Job)))
	}
	p.uint(uint64(s.Created))
	p.uint(s.Version)
	p.uint(s.SpecVersion)
	p.uint(s.SpentFor)
	if has&slotLimited != 0 {
		p.nodes(s.Nodes)
	}
	if has&slotHeld != 0 {
		p.text(s.Held)
	}
	if has&slotSpent != 0 {
		p.int(int64(s.Backoff))
		p.uint(uint64(len(s.Restarts)))
		var last cluster.Time
		for _, t := range s.Restarts {
			p.time(t, last)
			last = t
		}
	}
	if has&slotAvoids != 0 {
		p.text(string(s.AvoidNode))
	}
	if has&slotNotUp != 0 {
		p.time(s.NotUpSince, cluster.Time{})
		p.text(string(s.NotUpWhy))
	}
	if has&slotUp != 0 {
		p.time(s.UpSince, cluster.Time{})
	}
	if has&slotMoves != 0 {
		p.text(s.MovedBy)
		p.uint(s.MovedIn)
	}
	if has&slotKeeps != 0 {
		p.text(string(s.Leaves))
		p.text(string(s.Claim))
	}
	return packedSlot(p.made(p.b))
}

func slotFlags(s *cluster.Slot) uint16 {
	var has uint16
	set := func(flag uint16, is bool) {
		if is {
			has |= flag
		}
	}
	set(slotEnds, s.Ends)
	set(slotUnwanted, s.Unwanted)
	set(slotEverUp, s.EverUp)
	set(slotDone, s.Done)
	set(slotFailed, s.Failed)
	set(slotFresh, s.Fresh)
	set(slotCounted, s.Counted)
	set(slotOdd, strings.Contains(s.Job, "/"))
	set(slotLimited, len(s.Nodes) > 0)
	set(slotHeld, s.Held != "")
	set(slotSpent, len(s.Restarts) > 0 || s.Backoff != 0)
	set(slotAvoids, s.AvoidNode != "")
	set(slotNotUp, !s.NotUpSince.IsZero() || s.NotUpWhy != "")
	set(slotUp, !s.UpSince.IsZero())
	set(slotMoves, s.MovedBy != "" || s.MovedIn != 0)
	set(slotKeeps, s.Leaves != "" || s.Claim != "")
	return has
}

func (s packedSlot) has(flag uint16) bool {
	return (uint16(s[0])|uint16(s[1])<<8)&flag != 0
}

// unpack returns the slot with an id.
func (s packedSlot) unpack(id string) *cluster.Slot {
	out := new(cluster.Slot)
	s.into(id, out)
	return out
}

func (s packedSlot) into(id string, out *cluster.Slot) {
	u := unpacker{s: string(s[slotHead:])}
	at := strings.IndexByte(id, '/')
	if s.has(slotOdd) {
		at = int(u.uint())
	}
	u.slot = id[at+1:]
	*out = cluster.Slot{
		Job: id[:at], Key: cluster.SlotKey(u.slot), Created: cluster.Revision(u.uint()), Version: u.uint(), SpecVersion: u.uint(), SpentFor: u.uint(),
		Ends: s.has(slotEnds), Unwanted: s.has(slotUnwanted), EverUp: s.has(slotEverUp), Done: s.has(slotDone), Failed: s.has(slotFailed),
		Fresh: s.has(slotFresh), Counted: s.has(slotCounted),
	}
	if s.has(slotLimited) {
		out.Nodes = u.nodes()
	}
	if s.has(slotHeld) {
		out.Held = u.text()
	}
	if s.has(slotSpent) {
		out.Backoff = int(u.int())
		var last cluster.Time
		out.Restarts = list(&u, func() cluster.Time {
			last = u.time(last)
			return last
		})
	}
	if s.has(slotAvoids) {
		out.AvoidNode = cluster.NodeID(u.text())
	}
	if s.has(slotNotUp) {
		out.NotUpSince, out.NotUpWhy = u.time(cluster.Time{}), cluster.NotUpWhy(u.text())
	}
	if s.has(slotUp) {
		out.UpSince = u.time(cluster.Time{})
	}
	if s.has(slotMoves) {
		out.MovedBy, out.MovedIn = u.text(), u.uint()
	}
	if s.has(slotKeeps) {
		out.Leaves, out.Claim = cluster.NodeID(u.text()), cluster.NodeID(u.text())
	}
}
