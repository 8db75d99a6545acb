package sdktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// Verdict is what a filter says of one node.
type Verdict struct {
	Allowed bool
	Rank    int
	Code    string // of a refusal, and so on
	Detail  string
	Clears  string
	Evicts  bool
}

// Answer is what a filter says of one class.
type Answer struct {
	Indifferent bool
	Stall       *pluginv1.Stall   // cannot be compiled
	Failure     *pluginv1.Failure // the plugin's own error; Verdicts are those before it
	Verdicts    map[cluster.NodeID]Verdict
	Revision    uint64 // of the mirror
}

// Allowed returns the nodes that may be used, by id.
func (a Answer) Allowed() []cluster.NodeID {
	var out []cluster.NodeID
	for _, id := range slices.Sorted(maps.Keys(a.Verdicts)) {
		if a.Verdicts[id].Allowed {
			out = append(out, id)
		}
	}
	return out
}

// classState is the host's copy of an answer, by node index.
type classState struct {
	revision    uint64 // of the class
	about       string // for people; "" if nobody asks
	answered    bool
	indifferent bool
	stall       *pluginv1.Stall
	failure     *pluginv1.Failure
	table       []*pluginv1.Rejection
	verdicts    verdicts // nil: the answer is not about nodes
	at          uint64
	partial     *classState // parts that came so far
	messages    int
	failures    int
}

// verdicts are by node index.
type verdicts []verdict

type verdict struct {
	said   bool
	reason uint32 // 0: allowed; otherwise number into table, plus 1
	rank   int32
}

// take applies one message about a class. node finds what an index names, nil if it named something else when the answer was given.
func (c *classState) take(m *pluginv1.ClassVerdict, at uint64, node finder) error {
	target := c.partial
	switch {
	case target == nil && m.More:
		target = &classState{table: slices.Clone(c.table), verdicts: slices.Clone(c.verdicts)}
	case target == nil:
		target = &classState{table: c.table, verdicts: c.verdicts}
	}
	switch x := m.Answer.(type) {
	case *pluginv1.ClassVerdict_Full:
		if err := target.full(x.Full, node); err != nil {
			return err
		}
	case *pluginv1.ClassVerdict_Flips:
		if target.verdicts == nil {
			return errors.New("it changes verdicts that it has not given")
		}
		if err := target.flips(x.Flips, node); err != nil {
			return err
		}
	case *pluginv1.ClassVerdict_Indifferent:
		target = &classState{indifferent: true}
	case *pluginv1.ClassVerdict_Stall:
		target = &classState{stall: x.Stall}
	case *pluginv1.ClassVerdict_Failure:
		c.failure, c.answered = x.Failure, true
		c.failures++
		return nil
	default:
		return fmt.Errorf("class %d: no answer in the message", m.Class)
	}
	if m.More {
		c.partial = target
		return nil
	}
	c.indifferent, c.stall, c.table, c.verdicts = target.indifferent, target.stall, target.table, target.verdicts
	c.answered, c.failure, c.partial, c.at = true, nil, nil, at
	c.messages++
	return nil
}

// finder finds the node of an index at the revision of an answer.
type finder func(index uint32) (*cluster.Node, error)

func (c *classState) full(f *pluginv1.FullVerdict, node finder) error {
	c.table, c.verdicts = f.Rejections, verdicts{}
	if err := checkRanks(f.Ranks); err != nil {
		return err
	}
	if len(f.Nodes) != len(f.Reasons) {
		return fmt.Errorf("%d nodes with %d reasons", len(f.Nodes), len(f.Reasons))
	}
	for i := range uint32(8 * len(f.Allowed)) {
		if f.Allowed[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if err := c.set(i, verdict{rank: rankOf(f.Ranks, int(i))}, node); err != nil {
			return err
		}
	}
	for k, i := range f.Nodes {
		if k > 0 && f.Nodes[k-1] >= i {
			return fmt.Errorf("refused nodes are not ascending: %v", f.Nodes)
		}
		if c.verdicts.of(i).said || int(f.Reasons[k]) >= len(c.table) {
			return fmt.Errorf("node %d is both allowed and refused, or its reason %d is unknown", i, f.Reasons[k])
		}
		if err := c.set(i, verdict{reason: f.Reasons[k] + 1}, node); err != nil {
			return err
		}
	}
	return nil
}

func (c *classState) set(index uint32, v verdict, node finder) error {
	n, err := node(index)
	if n != nil {
		v.said = true
		for int(index) >= len(c.verdicts) {
			c.verdicts = append(c.verdicts, verdict{})
		}
		c.verdicts[index] = v
	}
	return err
}

func (v verdicts) of(index uint32) verdict {
	if int(index) >= len(v) {
		return verdict{}
	}
	return v[index]
}

// forget drops what was said of a node.
func (c *classState) forget(index uint32) {
	for _, v := range []verdicts{c.verdicts, c.parts()} {
		if int(index) < len(v) {
			v[index] = verdict{}
		}
	}
}

func (c *classState) parts() verdicts {
	if c.partial == nil {
		return nil
	}
	return c.partial.verdicts
}

func (c *classState) flips(f *pluginv1.FlipVerdict, node finder) error {
	c.table = append(c.table, f.Rejections...)
	if err := checkRanks(f.Ranks); err != nil {
		return err
	}
	if len(f.Nodes) != len(f.Reasons) || len(f.Ranks) > 0 && len(f.Ranks) != len(f.Nodes) {
		return fmt.Errorf("%d nodes with %d reasons and %d ranks", len(f.Nodes), len(f.Reasons), len(f.Ranks))
	}
	for k, i := range f.Nodes {
		if int(f.Reasons[k]) > len(c.table) {
			return fmt.Errorf("reason %d of node %d is unknown", f.Reasons[k], i)
		}
		if err := c.set(i, verdict{reason: f.Reasons[k], rank: rankOf(f.Ranks, k)}, node); err != nil {
			return err
		}
	}
	return nil
}

func checkRanks(ranks []int32) error {
	for _, r := range ranks {
		if r < -100 || r > 100 {
			return fmt.Errorf("rank %d is not between -100 and 100", r)
		}
	}
	return nil
}

func rankOf(ranks []int32, i int) int32 {
	if i >= len(ranks) {
		return 0
	}
	return ranks[i]
}

// answer returns the state by node ids. It fails if a node has no verdict.
func (c *classState) answer(nodes []*cluster.Node) (Answer, error) {
	out := Answer{Indifferent: c.indifferent, Stall: c.stall, Failure: c.failure, Revision: c.at}
	if c.verdicts == nil {
		return out, nil
	}
	out.Verdicts = make(map[cluster.NodeID]Verdict, len(nodes))
	for i, n := range nodes {
		if n == nil {
			continue
		}
		v := c.verdicts.of(uint32(i))
		if !v.said && c.failure == nil {
			return Answer{}, fmt.Errorf("nothing was said about node %s", n.ID)
		}
		if v.reason == 0 {
			out.Verdicts[n.ID] = Verdict{Allowed: v.said, Rank: int(v.rank)}
			continue
		}
		r := c.table[v.reason-1]
		out.Verdicts[n.ID] = Verdict{Code: r.Code, Detail: r.Detail, Clears: r.Clears, Evicts: r.Evicts}
	}
	return out, nil
}
