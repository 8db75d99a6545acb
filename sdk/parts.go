package sdk

import (
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// Bounds for the encoded size of what is repeated in messages.
const (
	perMessage = 128 // of a message around what it carries
	perFlip    = 12  // a node, its reason and its rank
	perEntry   = 6   // around a message within a message
)

// fullParts says what verdicts say of all nodes, in as few parts as fit.
func fullParts(head *pluginv1.ClassVerdict, v *verdicts, untilNs int64, limit int) []*pluginv1.ClassVerdict {
	full := &pluginv1.FullVerdict{Allowed: make([]byte, (len(v.reasons)+7)/8), UntilNs: untilNs}
	var refused []uint32
	for i, r := range v.reasons {
		switch r {
		case allowed:
			full.Allowed[i/8] |= 1 << (i % 8)
		case unjudged:
		default:
			refused = append(refused, uint32(i))
		}
	}
	for i := range v.ranks {
		full.Ranks = append(full.Ranks, int32(v.ranks[i]))
	}
	head.Answer = &pluginv1.ClassVerdict_Full{Full: full}
	room := limit - perMessage - len(full.Allowed) - 2*len(full.Ranks)
	table, nodes := v.table, refused
	table, room = takeRejections(&full.Rejections, table, room)
	if len(table) == 0 {
		n := min(len(nodes), max(room, 0)/perFlip)
		full.Nodes, nodes = nodes[:n], nodes[n:]
		for _, i := range full.Nodes {
			full.Reasons = append(full.Reasons, uint32(v.reasons[i]-1))
		}
	}
	if len(table) == 0 && len(nodes) == 0 {
		return []*pluginv1.ClassVerdict{head}
	}
	head.More = true
	rest := &pluginv1.ClassVerdict{Class: head.Class, ClassRevision: head.ClassRevision}
	return append([]*pluginv1.ClassVerdict{head}, flipParts(rest, v, table, nodes, limit)...)
}

// flipParts says what verdicts say of some nodes, in as few parts as fit: first what is new in the table, then the nodes.
func flipParts(head *pluginv1.ClassVerdict, v *verdicts, table []*pluginv1.Rejection, nodes []uint32, limit int) []*pluginv1.ClassVerdict {
	var out []*pluginv1.ClassVerdict
	for {
		flips, room := &pluginv1.FlipVerdict{}, limit-perMessage
		table, room = takeRejections(&flips.Rejections, table, room)
		if len(table) == 0 {
			n := min(len(nodes), max(room, perFlip)/perFlip)
			addFlips(flips, v, nodes[:n])
			nodes = nodes[n:]
		}
		more := len(table) > 0 || len(nodes) > 0
		out = append(out, &pluginv1.ClassVerdict{
			Class: head.Class, ClassRevision: head.ClassRevision, Answer: &pluginv1.ClassVerdict_Flips{Flips: flips}, More: more,
		})
		if !more {
			return out
		}
	}
}

func addFlips(flips *pluginv1.FlipVerdict, v *verdicts, nodes []uint32) {
	for _, i := range nodes {
		reason := v.reason(i)
		if reason == unjudged {
			continue // gone since
		}
		flips.Nodes = append(flips.Nodes, i)
		flips.Reasons = append(flips.Reasons, uint32(reason))
		if v.ranks != nil {
			flips.Ranks = append(flips.Ranks, int32(v.rank(i)))
		}
	}
}

// takeRejections moves as much of the table as there is room for, at least one.
func takeRejections(to *[]*pluginv1.Rejection, table []*pluginv1.Rejection, room int) (rest []*pluginv1.Rejection, left int) {
	for len(table) > 0 {
		size := proto.Size(table[0]) + perEntry
		if size > room && len(*to) > 0 {
			break
		}
		*to = append(*to, table[0])
		table, room = table[1:], room-size
	}
	return table, room
}
