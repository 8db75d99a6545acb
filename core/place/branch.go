package place

import (
	"math/bits"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// attribute returns the value of a node attribute as jobs name it, such as node.labels.zone, and whether the node has it.
func attribute(n *cluster.Node, name string) (string, bool) {
	if key, ok := strings.CutPrefix(name, "node.labels."); ok {
		v, has := n.Spec.Labels[key]
		return v, has
	}
	if key, ok := strings.CutPrefix(name, "node.attributes."); ok {
		v, has := n.Description.Attributes[key]
		return v, has
	}
	switch name {
	case "node.id":
		return string(n.ID), true
	case "node.name":
		return n.Spec.Name, true
	case "node.hostname":
		return n.Description.Hostname, n.Description.Hostname != ""
	case "node.os":
		return n.Description.OS, n.Description.OS != ""
	case "node.arch":
		return n.Description.Arch, n.Description.Arch != ""
	}
	return "", false
}

// branches are the values of one attribute; nodes without the attribute share a branch of their own.
type branches struct {
	of     []int32 // node → branch, -1 for unused indexes
	values []string
	has    []bool // whether the branch has a value
	used   []bool // whether a node that counts is in the branch
}

func newBranches(c *Cluster, name string) *branches {
	out := &branches{of: make([]int32, len(c.Nodes))}
	known := map[string]int32{}
	missing := int32(-1)
	for i, n := range c.Nodes {
		if out.of[i] = -1; n == nil {
			continue
		}
		value, has := attribute(n.Node, name)
		id, ok := known[value]
		if !has {
			id, ok = missing, missing >= 0
		}
		if !ok {
			id = int32(len(out.values))
			out.values, out.has, out.used = append(out.values, value), append(out.has, has), append(out.used, false)
			if has {
				known[value] = id
			} else {
				missing = id
			}
		}
		out.of[i] = id
		out.used[id] = out.used[id] || c.present(i)
	}
	return out
}

// usedBy returns which branches nodes of the group are in, be they full or not.
func (b *branches) usedBy(n *need, c *Cluster) []bool {
	if n.limited == nil {
		return b.used
	}
	used := make([]bool, len(b.values))
	for _, i := range n.limited {
		if c.present(i) {
			used[b.of[i]] = true
		}
	}
	return used
}

// balance is how full the branches of one spread block are.
type balance struct {
	*branches
	tasks []int64 // of the job, by branch
	share []int64 // that the branch should get, relative to each other; 0: none
}

// newBalance returns an empty balance. What targets leave over is shared by the values in use that they do not name.
func newBalance(b *branches, s cluster.Spread, used []bool) *balance {
	out := &balance{branches: b, tasks: make([]int64, len(b.values)), share: make([]int64, len(b.values))}
	named, rest := make([]bool, len(b.values)), int64(100)
	for _, t := range s.Targets {
		rest -= int64(t.Percent)
		for k, v := range b.values {
			if b.has[k] && v == t.Value {
				named[k], out.share[k] = true, int64(max(0, t.Percent))
			}
		}
	}
	others := int64(0)
	for k := range used {
		if used[k] && !named[k] {
			others++
		}
	}
	for k := range out.share {
		if named[k] {
			out.share[k] *= max(1, others)
		} else {
			out.share[k] = max(0, rest)
		}
	}
	return out
}

// compare orders branches by who should get the next task: the one that is furthest behind its share once it has half of that task, so that shares are
// rounded to the nearest whole; branches without a share come last.
func (b *balance) compare(x, y int32, xTasks, yTasks int64) int {
	xShare, yShare := b.share[x], b.share[y]
	if (xShare == 0) != (yShare == 0) {
		if xShare == 0 {
			return 1
		}
		return -1
	}
	if xShare == 0 || xShare == yShare {
		xShare, yShare = 1, 1
	}
	xHigh, xLow := bits.Mul64(uint64(2*xTasks+1), uint64(yShare))
	yHigh, yLow := bits.Mul64(uint64(2*yTasks+1), uint64(xShare))
	switch {
	case xHigh < yHigh || xHigh == yHigh && xLow < yLow:
		return -1
	case xHigh == yHigh && xLow == yLow:
		return 0
	}
	return 1
}
