package pluginhost

import (
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
)

// join adds a part of an answer about a class to those before it.
func join(v, part engine.ClassVerdict) engine.ClassVerdict {
	switch {
	case part.Flips == nil:
		return part
	case v.Full != nil:
		v.Full = flipped(v.Full, part.Flips)
	case v.Flips != nil:
		v.Flips = joinFlips(v.Flips, part.Flips)
	default:
		return part
	}
	return v
}

// flipped is a full answer with changes made to it.
func flipped(f *engine.FullVerdict, by *engine.FlipVerdict) *engine.FullVerdict {
	out := &engine.FullVerdict{
		Allowed: slices.Clone(f.Allowed), Rejections: slices.Concat(f.Rejections, by.Rejections), Ranks: slices.Clone(f.Ranks),
	}
	refused := make(map[uint32]uint32, len(f.Nodes)+len(by.Nodes))
	for k, i := range f.Nodes {
		refused[i] = f.Reasons[k]
	}
	for k, i := range by.Nodes {
		if by.Reasons[k] == 0 {
			delete(refused, i)
			out.Allowed = withBit(out.Allowed, i, true)
		} else {
			refused[i] = by.Reasons[k] - 1
			out.Allowed = withBit(out.Allowed, i, false)
		}
		if len(by.Ranks) > 0 {
			for len(out.Ranks) <= int(i) {
				out.Ranks = append(out.Ranks, 0)
			}
			out.Ranks[i] = by.Ranks[k]
		}
	}
	out.Nodes = slices.Sorted(maps.Keys(refused))
	out.Reasons = make([]uint32, len(out.Nodes))
	for k, i := range out.Nodes {
		out.Reasons[k] = refused[i]
	}
	return out
}

func joinFlips(a, b *engine.FlipVerdict) *engine.FlipVerdict {
	out := &engine.FlipVerdict{
		Rejections: slices.Concat(a.Rejections, b.Rejections), Nodes: slices.Concat(a.Nodes, b.Nodes), Reasons: slices.Concat(a.Reasons, b.Reasons),
	}
	if len(a.Ranks)+len(b.Ranks) > 0 {
		out.Ranks = append(padded(a.Ranks, len(a.Nodes)), padded(b.Ranks, len(b.Nodes))...)
	}
	return out
}

// padded returns n ranks: those given, or zeros.
func padded(ranks []int8, n int) []int8 {
	return append(slices.Clone(ranks), make([]int8, n-len(ranks))...)
}

func hasBit(b []byte, i uint32) bool { return int(i/8) < len(b) && b[i/8]&(1<<(i%8)) != 0 }

func withBit(b []byte, i uint32, on bool) []byte {
	for on && int(i/8) >= len(b) {
		b = append(b, 0)
	}
	switch {
	case on:
		b[i/8] |= 1 << (i % 8)
	case int(i/8) < len(b):
		b[i/8] &^= 1 << (i % 8)
	}
	return b
}
