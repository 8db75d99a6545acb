package place

import (
	"math"
	"net/netip"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Pool is a range of addresses that tasks are given, and who holds which. It is read only. Of an IPv4 range the first and the last address, which stand for the
// network and for all of it, are not given, unless it has two addresses or one.
type Pool struct {
	Name   string
	Prefix netip.Prefix
	Taken  map[netip.Addr]cluster.TaskID // addresses of the range only
}

// Total returns how many addresses the pool gives in all.
func (p *Pool) Total() int64 {
	bits := p.Prefix.Addr().BitLen() - p.Prefix.Bits()
	switch {
	case bits >= 63:
		return math.MaxInt64
	case p.whole():
		return 1 << bits
	}
	return 1<<bits - 2
}

// whole reports whether every address of the range is given.
func (p *Pool) whole() bool {
	return p.Prefix.Addr().Is6() || p.Prefix.Addr().BitLen()-p.Prefix.Bits() < 2
}

// first returns the lowest address that is given.
func (p *Pool) first() netip.Addr {
	a := p.Prefix.Masked().Addr()
	if !p.whole() {
		a = a.Next()
	}
	return a
}

// Gives reports whether the address is one of those that the pool gives.
func (p *Pool) Gives(a netip.Addr) bool {
	return p.Prefix.Contains(a) && (p.whole() || a != p.Prefix.Masked().Addr() && p.Prefix.Contains(a.Next()))
}

// poolState is a pool in a view.
type poolState struct {
	name string
	pool *Pool // nil: none of this name is configured
	left int64 // addresses that are neither held nor kept for a slot
	gave map[netip.Addr]bool
	next netip.Addr // no address below is free
}

// pool returns the state of a pool, which lasts as long as the view.
func (v *view) pool(name string) *poolState {
	for _, st := range v.pools {
		if st.name == name {
			return st
		}
	}
	st := &poolState{name: name, pool: v.c.Pools[name]}
	if p := st.pool; p != nil {
		st.left, st.next = p.Total()-int64(len(p.Taken)), p.first()
	}
	v.pools = append(v.pools, st)
	for k := range v.c.Claims {
		st.left -= v.claimed(k, name)
	}
	return st
}

// claimed returns how many addresses of a pool claim k keeps, beyond those that the task which makes room still holds.
func (v *view) claimed(k int, pool string) int64 {
	if v.lifted[k] {
		return 0
	}
	cl := &v.c.Claims[k]
	n := int64(0)
	for _, a := range cl.Reserve.Addresses {
		if a.Pool == pool {
			n++
		}
	}
	if cl.Old != nil {
		for _, g := range cl.Old.Placement.Addresses {
			if g.Pool == pool {
				n--
			}
		}
	}
	return max(0, n)
}

// liftPools gives back the addresses that claim k keeps, and reports whether it did.
func (v *view) liftPools(k int) bool {
	if v.lifted[k] || len(v.c.Claims[k].Reserve.Addresses) == 0 {
		return false
	}
	for _, st := range v.pools {
		st.left += v.claimed(k, st.name)
	}
	if v.lifted == nil {
		v.lifted = map[int]bool{}
	}
	v.lifted[k] = true
	return true
}

// restorePools keeps the addresses of claim k again.
func (v *view) restorePools(k int) {
	v.lifted[k] = false
	for _, st := range v.pools {
		st.left -= v.claimed(k, st.name)
	}
}

// giveAddresses takes granted addresses back.
func (v *view) giveAddresses(grants []cluster.AddressGrant) {
	for _, g := range grants {
		if st := v.pool(g.Pool); st.pool != nil {
			if a, err := netip.ParseAddr(g.Address); err == nil && st.pool.Gives(a) {
				st.left++
			}
		}
	}
}

// poolNeed is how many addresses of one pool a group's task needs.
type poolNeed struct {
	count int64
	st    *poolState
}

// poolNeeds returns what r needs of each pool, in the order in which they are named first.
func (v *view) poolNeeds(r *cluster.Reserve) []poolNeed {
	var out []poolNeed
next:
	for _, a := range r.Addresses {
		for k := range out {
			if out[k].st.name == a.Pool {
				out[k].count++
				continue next
			}
		}
		out = append(out, poolNeed{count: 1, st: v.pool(a.Pool)})
	}
	return out
}

// short reports whether the pool has too few addresses left.
func (p *poolNeed) short() bool { return p.st.pool == nil || p.st.left < p.count }

// poolsFit reports whether every pool has an address left for a task of n.
func (n *need) poolsFit() bool {
	for k := range n.pools {
		if n.pools[k].short() {
			return false
		}
	}
	return true
}

// grantAddresses picks the lowest free addresses for a task of n, whose pools fit.
func (n *need) grantAddresses() []cluster.AddressGrant {
	var out []cluster.AddressGrant
	for _, a := range n.g.Reserve.Addresses {
		for k := range n.pools {
			if n.pools[k].st.name == a.Pool {
				out = append(out, cluster.AddressGrant{Name: a.Name, Pool: a.Pool, Address: n.pools[k].st.take().String()})
			}
		}
	}
	return out
}

// take takes the lowest free address.
func (st *poolState) take() netip.Addr {
	a := st.next
	for st.gave[a] || st.pool.Taken[a] != "" {
		a = a.Next()
	}
	if st.gave == nil {
		st.gave = map[netip.Addr]bool{}
	}
	st.gave[a], st.next = true, a.Next()
	st.left--
	return a
}
