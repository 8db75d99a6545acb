package engine

import "github.com/setpointd/setpoint/sdk/cluster"

// Assemble returns the state that the given records make up, at one revision: *cluster.Node, *cluster.Job, *cluster.Slot, *cluster.Task, *cluster.Stall and
// *cluster.Request.
// It panics on anything else.
func Assemble(clusterID string, revision cluster.Revision, now cluster.Time, records ...any) *State {
	s := NewState(clusterID)
	s.Revision, s.Now = revision, now
	for _, r := range records {
		if err := s.Restore(r); err != nil {
			panic(err)
		}
	}
	return s
}
