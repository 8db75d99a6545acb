package place

import "github.com/setpointd/setpoint/sdk/cluster"

// The abilities that not every node has: to run the tasks of a driver, and to keep secrets in memory.
const (
	abilityProcess = iota
	abilityDocker
	abilitySim
	abilitySecrets
	abilities
)

// drivers are the drivers in the order of their abilities.
var drivers = [...]string{abilityProcess: cluster.DriverProcess, abilityDocker: cluster.DriverDocker, abilitySim: cluster.DriverSim}

// Abilities knows which nodes cannot do what. Their agents say so, so it changes seldom: whoever keeps the nodes tells it of each that was described, and what it says
// of a group's tasks is filters like any other. The zero Abilities knows no node, and a node that can do everything costs nothing.
type Abilities struct {
	size  int // nodes have indexes below it
	lacks [abilities]Bitmap
	count [abilities]int // nodes in lacks
}

// Describe takes what node i is like now, nil if it is gone, and reports whether what it can do is another than before. One that was not there could do everything.
func (a *Abilities) Describe(i int, n *cluster.Node) bool {
	a.size = max(a.size, i+1)
	changed := false
	for k := range a.lacks {
		lacks := n != nil && !has(&n.Description, k)
		if lacks == a.lacks[k].Get(i) {
			continue
		}
		a.lacks[k], changed = a.lacks[k].With(i, lacks), true
		if lacks {
			a.count[k]++
		} else {
			a.count[k]--
		}
	}
	return changed
}

func has(d *cluster.NodeDescription, ability int) bool {
	if ability == abilitySecrets {
		return d.KeepsSecrets()
	}
	return d.HasDriver(drivers[ability])
}

// Filters says which nodes can run a task at all, as filters of the core; there are none for what all nodes can do. They go before those of plugins.
func (a *Abilities) Filters(t *cluster.TaskSpec) []Filter {
	var out []Filter
	for k, name := range drivers {
		if name == t.Driver && a.count[k] > 0 {
			out = append(out, a.filter(k, cluster.CodeNoDriver, name))
		}
	}
	if len(t.Secrets) > 0 && a.count[abilitySecrets] > 0 {
		out = append(out, a.filter(abilitySecrets, cluster.CodeNoSecrets, ""))
	}
	return out
}

func (a *Abilities) filter(ability int, code cluster.Code, detail string) Filter {
	allowed := make(Bitmap, (a.size+63)/64)
	for w := range allowed {
		allowed[w] = ^a.lacks[ability].word(w)
	}
	return Filter{Name: cluster.SourceCore, Allowed: allowed, Reason: func(int) (cluster.Code, string) { return code, detail }}
}

// clearsAbility says what would give a node an ability.
func (r *Reason) clearsAbility(node string) string {
	if r.Code == cluster.CodeNoDriver {
		return "the driver " + r.Detail + " works on " + node
	}
	return node + " can keep secrets in memory"
}
