package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ask has the engine answer a question about the state as it is, apart from whatever waits to be taken.
func (w *World) ask(op engine.Op) (any, error) {
	waiting := w.inputs
	fault, ahead := w.CommitFault, w.Ahead
	w.inputs, w.CommitFault, w.Ahead = nil, nil, nil
	out, _ := w.step(engine.Command("check", op))
	w.inputs, w.CommitFault, w.Ahead = append(waiting, w.inputs...), fault, ahead
	return out.Replies[0].Result()
}

// CheckLedger compares what the engine holds to be taken on each node with the sum over the tasks there that are not dead.
func (w *World) CheckLedger() {
	if w.away > 0 {
		return
	}
	w.looked("ledgers")
	v, err := w.ask(engine.Inspect{})
	if err != nil {
		panic(err)
	}
	st := v.(engine.InspectResult).State
	seen := map[cluster.NodeID]bool{}
	for _, use := range v.(engine.InspectResult).Nodes {
		n := st.Node(use.Node)
		if n == nil {
			w.failf("V2: %s has a ledger and no record", use.Node)
			continue
		}
		seen[use.Node] = true
		var sum cluster.Resources
		tasks, ports := 0, map[uint16]cluster.TaskID{}
		for t := range st.TasksOn(use.Node) {
			if t.Dead() {
				continue
			}
			tasks++
			sum = sum.Add(t.Reserve.Resources)
			for _, p := range t.Placement.Ports {
				if other, taken := ports[p.Number]; taken {
					w.failf("V2: port %d of %s is granted to %s and %s", p.Number, use.Node, other, t.ID)
				}
				ports[p.Number] = t.ID
			}
		}
		free := n.Description.Capacity.Sub(sum)
		if !use.Reserved.Equal(sum) || !use.Free.Equal(free) || use.Tasks != tasks || !maps.Equal(use.Ports, ports) {
			w.failf("V2: %s: the ledger says %+v, its tasks take %+v with ports %v, %d tasks", use.Node, use, sum, ports, tasks)
		}
		if free.MilliCPU < 0 || free.Memory < 0 {
			w.failf("V2: %s has %+v free", use.Node, free)
		}
	}
	for n := range st.Nodes() {
		if !seen[n.ID] {
			w.failf("V2: %s has no ledger", n.ID)
		}
	}
	w.checkAddresses(st)
}

// checkAddresses checks that each address is held by one task at most, and that a task that was placed has those that it asks for.
func (w *World) checkAddresses(st *engine.State) {
	held := map[cluster.AddressGrant]cluster.TaskID{}
	for t := range st.Tasks() {
		if t.Dead() || !t.Placed() {
			continue
		}
		if len(t.Placement.Addresses) != len(t.Reserve.Addresses) {
			w.failf("V2: %s asks for %v and has %v", t.ID, t.Reserve.Addresses, t.Placement.Addresses)
		}
		for _, g := range t.Placement.Addresses {
			w.looked("addresses")
			g.Name = ""
			if other, taken := held[g]; taken {
				w.failf("V2: address %s of pool %s is granted to %s and %s", g.Address, g.Pool, other, t.ID)
			}
			held[g] = t.ID
		}
	}
}

// checkStalls checks what a turn wrote of stalls: what goes on keeps its beginning, nothing is written twice, and counts add up.
func (w *World) checkStalls(t engine.Turn) {
	before := map[string]*cluster.Stall{}
	for s := range t.Before.Stalls() {
		before[s.Key()] = s
	}
	for _, c := range t.Changes {
		if c, ok := c.Change.(cluster.RemoveStall); ok {
			delete(before, c.Key) // what follows it in the same turn is another waiting
		}
	}
	for s := range t.State.Stalls() {
		old := before[s.Key()]
		switch {
		case old == s:
			continue
		case old == nil:
		case old.Since != s.Since:
			w.failf("V4: %s waits since %s and then since %s", s.Key(), old.Since.Engine, s.Since.Engine)
		case old.Same(s):
			w.failf("V4: %s was written again and says the same", s.Key())
		case old.Changed != s.Changed && old.Code == s.Code && old.Facts.Nodes == s.Facts.Nodes && slices.Equal(old.Facts.Excluded, s.Facts.Excluded):
			w.failf("V4: %s changed at %s, and neither its code nor its counts did", s.Key(), s.Changed.Engine)
		}
		sum := 0
		for _, x := range s.Facts.Excluded {
			sum += x.Count
		}
		if sum != s.Facts.Nodes {
			w.failf("V4: %s counts %d nodes of %d: %+v", s.Key(), sum, s.Facts.Nodes, s.Facts.Excluded)
		}
	}
}

// digest is a running hash of everything that was committed.
func (w *World) digest(t engine.Turn) {
	h := sha256.New()
	fmt.Fprintln(h, w.Digest, t.State.Revision, w.now)
	for _, c := range t.Changes {
		b, err := json.Marshal(c.Change)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(h, "%s %T %s\n", c.By, c.Change, b)
	}
	w.Digest = hex.EncodeToString(h.Sum(nil))
	h = sha256.New()
	fmt.Fprintln(h, w.Outline, t.State.Revision)
	for _, c := range t.Changes {
		fmt.Fprintln(h, c.By, describe(c.Change))
	}
	w.Outline = hex.EncodeToString(h.Sum(nil))
}
