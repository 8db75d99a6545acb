package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// outdone returns the job types that a plugin serves without being asked about them, because another plugin serves them too, with that plugin's name.
func (e *Engine) outdone(p *pluginState) (types []string, by string) {
	for _, t := range p.info.JobTypes {
		if q := e.server(t); q != nil && q != p {
			types, by = append(types, t), q.name
		}
	}
	return types, by
}

// claimStall says that another plugin is asked about job types that this one serves.
func (e *Engine) claimStall(p *pluginState, subject cluster.Subject) []cluster.Stall {
	types, by := e.outdone(p)
	if len(types) == 0 {
		return nil
	}
	slices.Sort(types)
	return []cluster.Stall{{
		Subject: subject, Source: cluster.SourceCore, Code: cluster.CodeJobTypeTaken,
		Message: fmt.Sprintf("it is not asked about jobs of type %s: plugin %s serves that too, and is asked because its name comes first", strings.Join(types, ", "), by),
		Clears:  "only one of them is configured, or serves the type",
	}}
}

// claimsChanged looks again at who is asked about which job type, after a plugin came or went.
func (e *Engine) claimsChanged() {
	for _, name := range e.pluginNames {
		if p := e.plugins[name]; p.ever {
			e.pluginStall(p)
		}
	}
}

// keepClaim keeps the index of slots for which room is kept. What others are told of a node changes with it.
func (e *Engine) keepClaim(s *cluster.Slot) {
	id := s.ID()
	before := cluster.NodeID("")
	if old := e.claims[id]; old != nil {
		before = old.Claim
	}
	if before == s.Claim {
		if s.Claim != "" {
			e.claims[id] = s
		}
		return
	}
	if j := e.work.Job(s.Job); j != nil {
		e.poolsChanged(j.Control.Spec.Task.Addresses)
	}
	for _, node := range [...]cluster.NodeID{before, s.Claim} {
		if i, ok := e.index[node]; ok {
			e.changedNodes[i] = true
		}
	}
	if e.claims[id] = s; s.Claim == "" {
		delete(e.claims, id)
	}
}

// dirtyClaims has jobs decided anew for which room is kept on a node: that ends where the node takes nothing any more.
func (e *Engine) dirtyClaims(id cluster.NodeID) {
	for _, s := range e.claims {
		if s.Claim == id {
			e.dirtyJobs[s.Job] = true
		}
	}
}
