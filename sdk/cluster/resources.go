package cluster

import (
	"maps"
	"slices"
)

// Resources is an amount of what nodes have and tasks reserve.
type Resources struct {
	MilliCPU int64            // thousandths of a core
	Memory   int64            // bytes
	Units    map[string]int64 // named countable units, such as gpu
}

// Add returns r + s.
func (r Resources) Add(s Resources) Resources { return r.combine(s, 1) }

// Sub returns r - s. Amounts may become negative: a node that lost capacity is overcommitted, and saying so is the caller's business.
func (r Resources) Sub(s Resources) Resources { return r.combine(s, -1) }

func (r Resources) combine(s Resources, sign int64) Resources {
	out := Resources{MilliCPU: r.MilliCPU + sign*s.MilliCPU, Memory: r.Memory + sign*s.Memory, Units: r.Units}
	if len(s.Units) == 0 {
		return out
	}
	out.Units = maps.Clone(r.Units)
	if out.Units == nil {
		out.Units = make(map[string]int64, len(s.Units))
	}
	for _, name := range s.UnitNames() {
		if v := out.Units[name] + sign*s.Units[name]; v != 0 {
			out.Units[name] = v
		} else {
			delete(out.Units, name)
		}
	}
	if len(out.Units) == 0 {
		out.Units = nil
	}
	return out
}

// UnitNames returns the names of the units in r, sorted.
func (r Resources) UnitNames() []string { return slices.Sorted(maps.Keys(r.Units)) }

// Lacking returns the names of what want needs and r does not have, in the order cpu, memory, then units by name. It is empty if want fits.
func (r Resources) Lacking(want Resources) []string {
	var out []string
	if want.MilliCPU > 0 && want.MilliCPU > r.MilliCPU {
		out = append(out, "cpu")
	}
	if want.Memory > 0 && want.Memory > r.Memory {
		out = append(out, "memory")
	}
	for _, name := range want.UnitNames() {
		if want.Units[name] > 0 && want.Units[name] > r.Units[name] {
			out = append(out, name)
		}
	}
	return out
}

// Fits reports whether want fits in r.
func (r Resources) Fits(want Resources) bool {
	if want.MilliCPU > 0 && want.MilliCPU > r.MilliCPU || want.Memory > 0 && want.Memory > r.Memory {
		return false
	}
	return len(want.Units) == 0 || len(r.Lacking(want)) == 0
}

// Equal reports whether both amounts are the same; a unit of amount zero is the same as none.
func (r Resources) Equal(s Resources) bool {
	d := r.Sub(s)
	return d.MilliCPU == 0 && d.Memory == 0 && len(d.Units) == 0
}

// Amount returns how much of the named resource r has: cpu in millicores, memory in bytes, any other name in units.
func (r Resources) Amount(name string) int64 {
	switch name {
	case "cpu":
		return r.MilliCPU
	case "memory":
		return r.Memory
	}
	return r.Units[name]
}
