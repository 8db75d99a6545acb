package place

import (
	"cmp"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// The ports from which those that a task does not name are given, both ends included.
const (
	FirstPort uint16 = 20000
	LastPort  uint16 = 32000
)

const portCount = int(LastPort-FirstPort) + 1

// firstPort returns where among these ports a node's are looked for first, going on from the first one after the last. Nodes begin at ports of their own, so
// that those which share a machine, as in a first look, seldom get the same.
func firstPort(n *cluster.Node) int {
	h := uint32(2166136261) // FNV-1a
	for _, c := range []byte(n.ID) {
		h = (h ^ uint32(c)) * 16777619
	}
	return int(h % uint32(portCount))
}

// portAt returns the port at a place in the order that begins at first.
func portAt(first, place int) uint16 { return FirstPort + uint16((first+place)%portCount) }

// Node is how one node stands for placing. Tasks that are not dead count, wherever they are on their way.
type Node struct {
	Node    *cluster.Node
	Free    cluster.Resources         // capacity less what tasks there reserve; negative where capacity was taken away
	Tasks   int                       // tasks there
	PerJob  map[string]int            // tasks there, by job; jobs without any may be left out
	Ports   map[uint16]cluster.TaskID // ports taken there, and who holds them
	Blocked string                    // why nothing new may be placed there although it is ready and active, for people; "": it may
}

// Cluster is what placing looks at. It is read only.
type Cluster struct {
	Nodes  []*Node // by dense index; nil: no node has this index. Results do not depend on who has which index
	Order  []int32 // what NameOrder returns for Nodes, kept by the caller between calls; nil: computed where needed
	Claims []Claim // room kept for slots that move; where two cannot both be kept, the earlier is
	Pools  map[string]*Pool

	Open    Bitmap         // nodes that may take something new as far as they are concerned, kept by the caller between calls; nil: computed where needed
	Jobs    map[string]int // tasks by job on all nodes, kept likewise; jobs without any may be left out. Nil: not known
	Ranking *Ranking       // up to date, kept likewise; nil: computed where it pays
}

// Claim keeps room on a node for the next task of a slot whose task was told to stop. The room is free for that task only, which may go elsewhere as well.
type Claim struct {
	Job     string
	Slot    cluster.SlotKey
	Node    int
	Reserve cluster.Reserve
	Old     *cluster.Task // the task that makes room, while it is not dead: what it holds needs no claim. Nil once it is dead
}

// Use is what one task takes, or frees, on a node.
type Use struct {
	Node      int
	Job       string
	Resources cluster.Resources
	Ports     []cluster.PortGrant
	Addresses []cluster.AddressGrant
}

// UseOf returns what t takes on the node with the given index.
func UseOf(node int, t *cluster.Task) Use {
	return Use{Node: node, Job: t.Job, Resources: t.Reserve.Resources, Ports: t.Placement.Ports, Addresses: t.Placement.Addresses}
}

// NameOrder returns for each index the place of its node among all nodes by name, then id. Unused indexes have -1.
func NameOrder(nodes []*Node) []int32 {
	out := make([]int32, len(nodes))
	sorted := make([]int, 0, len(nodes))
	for i, n := range nodes {
		if out[i] = -1; n != nil {
			sorted = append(sorted, i)
		}
	}
	sortByName(nodes, sorted)
	for place, i := range sorted {
		out[i] = int32(place)
	}
	return out
}

// sortByName sorts indexes of nodes by name, then id.
func sortByName(nodes []*Node, indexes []int) {
	slices.SortFunc(indexes, func(a, b int) int { return compareNames(nodes[a], nodes[b]) })
}

func compareNames(a, b *Node) int {
	return cmp.Or(cmp.Compare(a.Node.Spec.Name, b.Node.Spec.Name), cmp.Compare(a.Node.ID, b.Node.ID))
}

// present reports whether the index stands for a node that counts: decommissioned ones do not.
func (c *Cluster) present(i int) bool {
	return i >= 0 && i < len(c.Nodes) && c.Nodes[i] != nil && !c.Nodes[i].Node.Spec.Decommissioned
}

// open reports whether new tasks may be placed on a node as far as the node itself is concerned.
func (c *Cluster) open(i int) bool {
	return i >= 0 && i < len(c.Nodes) && c.Nodes[i] != nil && c.Nodes[i].Takes()
}

// Takes reports whether something new may be placed on the node as far as it is concerned.
func (n *Node) Takes() bool {
	return !n.Node.Spec.Decommissioned && n.Blocked == "" && n.Node.Usable()
}

// stays reports whether tasks on a node can be expected to stay there.
func (c *Cluster) stays(i int) bool {
	return c.present(i) && !c.Nodes[i].Node.Down() && c.Nodes[i].Node.Spec.Availability != cluster.Drain
}

// considered returns the indexes of the nodes that count for g, ascending.
func (c *Cluster) considered(g *Group) []int {
	if g.Nodes != nil {
		out := slices.DeleteFunc(slices.Clone(g.Nodes), func(i int) bool { return !c.present(i) })
		slices.Sort(out)
		return slices.Compact(out)
	}
	out := make([]int, 0, len(c.Nodes))
	for i := range c.Nodes {
		if c.present(i) {
			out = append(out, i)
		}
	}
	return out
}
