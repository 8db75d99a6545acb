package pluginhost

import (
	"fmt"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// lie is something a plugin said that cannot be.
type lie string

func (l lie) Error() string { return string(l) }

func lief(format string, args ...any) error { return lie(fmt.Sprintf(format, args...)) }

// nodeTable is what answers may name at a revision.
type nodeTable interface {
	size() int
	present(i uint32, at uint64) (yes, sure bool)
}

// checker turns what a plugin says into what the engine takes, or into an error that is a lie. It changes nothing.
type checker struct {
	names names
	table nodeTable
}

// known reports whether an answer at a revision may name a node: it was there, or nobody knows any more.
func (c *checker) known(i uint32, at uint64) bool {
	yes, sure := c.table.present(i, at)
	return yes || !sure
}

// base is what a class's flips build upon: verdicts on single nodes, with a table of rejections.
type base struct {
	full  bool
	table int // rejections
}

// verdict checks one message about one class, and returns what later flips build upon.
func (c *checker) verdict(v *pluginv1.ClassVerdict, at uint64, on base) (engine.ClassVerdict, base, error) {
	out := engine.ClassVerdict{Class: v.Class, ClassRevision: cluster.Revision(v.ClassRevision)}
	var err error
	switch x := v.Answer.(type) {
	case *pluginv1.ClassVerdict_Full:
		out.Full, err = c.full(x.Full, at)
		on = base{full: true, table: len(x.Full.GetRejections())}
	case *pluginv1.ClassVerdict_Flips:
		if !on.full {
			return out, on, lief("it changes verdicts that it has not given")
		}
		out.Flips, err = c.flips(x.Flips, at, on.table)
		on.table += len(x.Flips.GetRejections())
	case *pluginv1.ClassVerdict_Indifferent:
		out.Indifferent, on = true, base{}
	case *pluginv1.ClassVerdict_Stall:
		out.Stall, on = c.stall(x.Stall), base{}
	case *pluginv1.ClassVerdict_Failure:
		out.Failure = c.failure(x.Failure)
	default:
		err = lief("the message holds no answer")
	}
	return out, on, err
}

func (c *checker) full(f *pluginv1.FullVerdict, at uint64) (*engine.FullVerdict, error) {
	size := c.table.size()
	switch {
	case len(f.GetAllowed()) > (size+7)/8:
		return nil, lief("its bitmap is for %d nodes or more, and there are %d", 8*len(f.Allowed)-7, size)
	case len(f.GetNodes()) != len(f.GetReasons()):
		return nil, lief("%d refused nodes come with %d reasons", len(f.Nodes), len(f.Reasons))
	case len(f.GetRanks()) > size:
		return nil, lief("%d ranks are for %d nodes", len(f.Ranks), size)
	}
	out := &engine.FullVerdict{Allowed: f.GetAllowed(), Rejections: c.rejections(f.GetRejections()), Nodes: f.GetNodes(), Reasons: f.GetReasons()}
	for i := range uint32(8 * len(out.Allowed)) {
		if hasBit(out.Allowed, i) && !c.known(i, at) {
			return nil, lief("it allows node %d, which does not exist", i)
		}
	}
	for k, i := range out.Nodes {
		switch {
		case k > 0 && out.Nodes[k-1] >= i:
			return nil, lief("refused nodes are not in ascending order: %d, %d", out.Nodes[k-1], i)
		case !c.known(i, at):
			return nil, lief("it refuses node %d, which does not exist", i)
		case hasBit(out.Allowed, i):
			return nil, lief("it both allows and refuses node %d", i)
		case int(out.Reasons[k]) >= len(out.Rejections):
			return nil, lief("reason %d of node %d is none of %d", out.Reasons[k], i, len(out.Rejections))
		}
	}
	var err error
	out.Ranks, err = ranks(f.GetRanks())
	return out, err
}

func (c *checker) flips(f *pluginv1.FlipVerdict, at uint64, table int) (*engine.FlipVerdict, error) {
	switch {
	case len(f.GetNodes()) != len(f.GetReasons()):
		return nil, lief("%d changed nodes come with %d reasons", len(f.Nodes), len(f.Reasons))
	case len(f.GetRanks()) != 0 && len(f.GetRanks()) != len(f.GetNodes()):
		return nil, lief("%d changed nodes come with %d ranks", len(f.Nodes), len(f.Ranks))
	}
	out := &engine.FlipVerdict{Rejections: c.rejections(f.GetRejections()), Nodes: f.GetNodes(), Reasons: f.GetReasons()}
	table += len(out.Rejections)
	for k, i := range out.Nodes {
		switch {
		case !c.known(i, at):
			return nil, lief("it changes its verdict on node %d, which does not exist", i)
		case int(out.Reasons[k]) > table:
			return nil, lief("reason %d of node %d is none of %d", out.Reasons[k], i, table)
		}
	}
	if table > maxTable {
		return nil, lief("its table of rejections has %d entries; the limit is %d", table, maxTable)
	}
	var err error
	out.Ranks, err = ranks(f.GetRanks())
	return out, err
}

const maxTable = 1 << 16 // rejections of one class

func ranks(from []int32) ([]int8, error) {
	if len(from) == 0 {
		return nil, nil
	}
	out := make([]int8, len(from))
	for i, r := range from {
		if r < -100 || r > 100 {
			return nil, lief("rank %d is not between -100 and 100", r)
		}
		out[i] = int8(r)
	}
	return out, nil
}

func (c *checker) rejections(from []*pluginv1.Rejection) []engine.Rejection {
	if len(from) == 0 {
		return nil
	}
	out := make([]engine.Rejection, len(from))
	for i, r := range from {
		out[i] = engine.Rejection{Code: c.names.code(r.GetCode()), Detail: clean(r.GetDetail()), Clears: clean(r.GetClears()), Evicts: r.GetEvicts()}
	}
	return out
}

func (c *checker) stall(s *pluginv1.Stall) *engine.StallAnswer {
	return &engine.StallAnswer{
		Code: c.names.code(s.GetCode()), Message: clean(s.GetMessage()), Detail: clean(s.GetDetail()), Clears: clean(s.GetClears()), Evicts: s.GetEvicts(),
	}
}

func (c *checker) failure(f *pluginv1.Failure) *engine.FailureAnswer {
	out := &engine.FailureAnswer{Code: cluster.CodePluginError, Message: clean(f.GetMessage())}
	switch f.GetKind() {
	case "timeout":
		out.Code = cluster.CodePluginTimeout
	case "panic":
		out.Message = "it panicked: " + out.Message
	}
	if out.Message == "" {
		out.Message = "it says not why"
	}
	return out
}

// complete checks that a full answer says something of every node there was.
func (c *checker) complete(v engine.ClassVerdict, at uint64) error {
	if v.Full == nil {
		return nil
	}
	refused := v.Full.Nodes
	for i := range uint32(c.table.size()) {
		for len(refused) > 0 && refused[0] < i {
			refused = refused[1:]
		}
		if hasBit(v.Full.Allowed, i) || len(refused) > 0 && refused[0] == i {
			continue
		}
		if yes, _ := c.table.present(i, at); yes {
			return lief("it says nothing about node %d", i)
		}
	}
	return nil
}
