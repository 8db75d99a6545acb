package engine

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/setpointd/setpoint/core/place"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Pool is a range of addresses that tasks can ask for.
type Pool struct {
	Name string
	CIDR string // a valid prefix, such as 10.1.0.0/24
}

// newPools returns the pools of a configuration, of which nobody holds anything. It panics at a prefix that is none.
func newPools(configured []Pool) map[string]*place.Pool {
	out := make(map[string]*place.Pool, len(configured))
	for _, p := range configured {
		out[p.Name] = &place.Pool{Name: p.Name, Prefix: netip.MustParsePrefix(p.CIDR).Masked(), Taken: map[netip.Addr]cluster.TaskID{}}
	}
	return out
}

// poolUse returns how much of each pool is taken, for people.
func (e *Engine) poolUse() []PoolUse {
	var out []PoolUse
	for _, name := range slices.Sorted(maps.Keys(e.pools)) {
		p := e.pools[name]
		out = append(out, PoolUse{Pool: Pool{Name: name, CIDR: p.Prefix.String()}, Total: p.Total(), Used: int64(len(p.Taken))})
	}
	return out
}

// takeAddresses keeps what a task was given. Addresses that are not, or no longer, in their pool stand in nobody's way.
func (e *Engine) takeAddresses(t *cluster.Task) {
	for _, g := range t.Placement.Addresses {
		if p, a := e.poolOf(g); p != nil {
			p.Taken[a] = t.ID
			e.poolShrank(p)
		}
	}
}

// poolShrank has the groups looked at again for which the last address that they needed was just taken: that pool is among what keeps them waiting from now on. Room
// that is kept for slots takes addresses, too, so that with any it may have been the last.
func (e *Engine) poolShrank(p *place.Pool) {
	left := p.Total() - int64(len(p.Taken))
	for _, g := range e.groups {
		need := int64(0)
		for _, a := range g.one().Reserve.Addresses {
			if a.Pool == p.Name {
				need++
			}
		}
		if need > left-int64(len(e.claims)) && need <= left+1 {
			g.dirty = true
		}
	}
}

// freeAddresses gives back what a task held.
func (e *Engine) freeAddresses(t *cluster.Task) {
	for _, g := range t.Placement.Addresses {
		if p, a := e.poolOf(g); p != nil && p.Taken[a] == t.ID {
			delete(p.Taken, a)
		}
	}
	e.poolsChanged(t.Reserve.Addresses)
}

func (e *Engine) poolOf(g cluster.AddressGrant) (*place.Pool, netip.Addr) {
	p := e.pools[g.Pool]
	a, err := netip.ParseAddr(g.Address)
	if p == nil || err != nil || !p.Gives(a) {
		return nil, netip.Addr{}
	}
	return p, a
}

// poolsChanged has the groups tried again that need addresses of pools of which some became free: which node they may go to makes no difference to that.
func (e *Engine) poolsChanged(of []cluster.Address) {
	if len(of) == 0 {
		return
	}
	changed := make(map[string]bool, len(of))
	for _, a := range of {
		changed[a.Pool] = true
	}
	for _, g := range e.groups {
		for _, a := range g.one().Reserve.Addresses {
			g.dirty = g.dirty || changed[a.Pool]
		}
	}
}
