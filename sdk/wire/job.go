package wire

import (
	"fmt"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// JobToProto returns the message of j.
func JobToProto(j *cluster.Job) *setpointv1.Job {
	return &setpointv1.Job{
		Name:       j.Name,
		Created:    TimeToProto(j.Created),
		CreatedRev: uint64(j.CreatedRev),
		Control:    JobControlToProto(&j.Control),
		Update:     UpdateToProto(j.Update),
		Rebalance:  rebalanceToProto(j.Rebalance),
	}
}

// JobFromProto returns the job that p says, or an error that wraps ErrRange if a port number in it is none.
func JobFromProto(p *setpointv1.Job) (*cluster.Job, error) {
	control, err := JobControlFromProto(p.GetControl())
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", p.GetName(), err)
	}
	return &cluster.Job{
		Name:       p.GetName(),
		Created:    TimeFromProto(p.GetCreated()),
		CreatedRev: cluster.Revision(p.GetCreatedRev()),
		Control:    control,
		Update:     UpdateFromProto(p.GetUpdate()),
		Rebalance:  rebalanceFromProto(p.GetRebalance()),
	}, nil
}

// JobControlToProto returns the message of c.
func JobControlToProto(c *cluster.JobControl) *setpointv1.JobControl {
	return &setpointv1.JobControl{
		Spec:        JobSpecToProto(&c.Spec),
		Version:     c.Version,
		SpecVersion: c.SpecVersion,
		Changed:     TimeToProto(c.Changed),
		ChangedRev:  uint64(c.ChangedRev),
		Versions:    each(c.Versions, jobVersionValueToProto),
		Stopped:     c.Stopped,
		StopGraceNs: int64(c.StopGrace),
		Restarts:    c.Restarts,
		UpdateHold:  c.UpdateHold,
		Cancelled:   c.Cancelled,
		Resumes:     c.Resumes,
		AskedBy:     c.AskedBy,
		AskedRev:    uint64(c.AskedRev),
		Rebalances:  c.Rebalances,

		RebalancesEnded: c.RebalancesEnded,
	}
}

// JobControlFromProto returns what p says was asked of a job, or an error that wraps ErrRange if a port number in it is none.
func JobControlFromProto(p *setpointv1.JobControl) (cluster.JobControl, error) {
	spec, err := JobSpecFromProto(p.GetSpec())
	if err != nil {
		return cluster.JobControl{}, err
	}
	versions, err := tryEach(p.GetVersions(), JobVersionFromProto)
	if err != nil {
		return cluster.JobControl{}, err
	}
	return cluster.JobControl{
		Spec:        spec,
		Version:     p.GetVersion(),
		SpecVersion: p.GetSpecVersion(),
		Changed:     TimeFromProto(p.GetChanged()),
		ChangedRev:  cluster.Revision(p.GetChangedRev()),
		Versions:    versions,
		Stopped:     p.GetStopped(),
		StopGrace:   duration(p.GetStopGraceNs()),
		Restarts:    p.GetRestarts(),
		UpdateHold:  p.GetUpdateHold(),
		Cancelled:   p.GetCancelled(),
		Resumes:     p.GetResumes(),
		AskedBy:     p.GetAskedBy(),
		AskedRev:    cluster.Revision(p.GetAskedRev()),
		Rebalances:  p.GetRebalances(),

		RebalancesEnded: p.GetRebalancesEnded(),
	}, nil
}

// JobVersionToProto returns the message of v.
func JobVersionToProto(v *cluster.JobVersion) *setpointv1.JobVersion {
	return &setpointv1.JobVersion{
		Version:     v.Version,
		SpecVersion: v.SpecVersion,
		Restarts:    v.Restarts,
		Created:     TimeToProto(v.Created),
		Spec:        JobSpecToProto(&v.Spec),
		Reason:      v.Reason,
		By:          v.By,
	}
}

func jobVersionValueToProto(v cluster.JobVersion) *setpointv1.JobVersion {
	return JobVersionToProto(&v)
}

// JobVersionFromProto returns the version that p says, or an error that wraps ErrRange if a port number in it is none.
func JobVersionFromProto(p *setpointv1.JobVersion) (cluster.JobVersion, error) {
	spec, err := JobSpecFromProto(p.GetSpec())
	if err != nil {
		return cluster.JobVersion{}, fmt.Errorf("version %d: %w", p.GetVersion(), err)
	}
	return cluster.JobVersion{
		Version:     p.GetVersion(),
		SpecVersion: p.GetSpecVersion(),
		Restarts:    p.GetRestarts(),
		Created:     TimeFromProto(p.GetCreated()),
		Spec:        spec,
		Reason:      p.GetReason(),
		By:          p.GetBy(),
	}, nil
}

// UpdateToProto returns the message of u.
func UpdateToProto(u cluster.Update) *setpointv1.Update {
	return &setpointv1.Update{
		State:    string(u.State),
		From:     u.From,
		To:       u.To,
		Rollback: u.Rollback,
		Started:  TimeToProto(u.Started),
		Since:    TimeToProto(u.Since),
		Message:  u.Message,
		Total:    int64(u.Total),
		Moved:    int64(u.Moved),
		Failures: int64(u.Failures),
		LastUp:   TimeToProto(u.LastUp),
		Waiting:  int64(u.Waiting),
		Resumes:  u.Resumes,

		NotUpdated: int64(u.NotUpdated),
	}
}

// UpdateFromProto returns the progress that p says.
func UpdateFromProto(p *setpointv1.Update) cluster.Update {
	return cluster.Update{
		State:    cluster.UpdateState(p.GetState()),
		From:     p.GetFrom(),
		To:       p.GetTo(),
		Rollback: p.GetRollback(),
		Started:  TimeFromProto(p.GetStarted()),
		Since:    TimeFromProto(p.GetSince()),
		Message:  p.GetMessage(),
		Total:    int(p.GetTotal()),
		Moved:    int(p.GetMoved()),
		Failures: int(p.GetFailures()),
		LastUp:   TimeFromProto(p.GetLastUp()),
		Waiting:  int(p.GetWaiting()),
		Resumes:  p.GetResumes(),

		NotUpdated: int(p.GetNotUpdated()),
	}
}

func rebalanceToProto(r cluster.Rebalance) *setpointv1.Rebalance {
	if r == (cluster.Rebalance{}) {
		return nil
	}
	return &setpointv1.Rebalance{Ask: r.Ask, Ended: r.Ended, Moved: int64(r.Moved), Since: TimeToProto(r.Since)}
}

func rebalanceFromProto(p *setpointv1.Rebalance) cluster.Rebalance {
	return cluster.Rebalance{Ask: p.GetAsk(), Ended: p.GetEnded(), Moved: int(p.GetMoved()), Since: TimeFromProto(p.GetSince())}
}

// SlotToProto returns the message of s.
func SlotToProto(s *cluster.Slot) *setpointv1.Slot {
	return &setpointv1.Slot{
		Job:         s.Job,
		Key:         string(s.Key),
		CreatedRev:  uint64(s.Created),
		Nodes:       words[string](s.Nodes),
		Ends:        s.Ends,
		Unwanted:    s.Unwanted,
		Held:        s.Held,
		Version:     s.Version,
		SpecVersion: s.SpecVersion,
		Restarts:    each(s.Restarts, timeInListToProto),
		Backoff:     int64(s.Backoff),
		SpentFor:    s.SpentFor,
		AvoidNode:   string(s.AvoidNode),
		NotUpSince:  TimeToProto(s.NotUpSince),
		NotUpWhy:    string(s.NotUpWhy),
		UpSince:     TimeToProto(s.UpSince),
		EverUp:      s.EverUp,
		Done:        s.Done,
		Failed:      s.Failed,
		Fresh:       s.Fresh,
		MovedBy:     s.MovedBy,
		MovedIn:     s.MovedIn,
		Counted:     s.Counted,
		Leaves:      string(s.Leaves),
		Claim:       string(s.Claim),
	}
}

// timeInListToProto never returns nil: a list of messages has no place for one.
func timeInListToProto(t cluster.Time) *setpointv1.Time {
	return &setpointv1.Time{EngineNs: int64(t.Engine), WallNs: t.Wall}
}

// SlotFromProto returns the slot that p says.
func SlotFromProto(p *setpointv1.Slot) *cluster.Slot {
	return &cluster.Slot{
		Job:         p.GetJob(),
		Key:         cluster.SlotKey(p.GetKey()),
		Created:     cluster.Revision(p.GetCreatedRev()),
		Nodes:       words[cluster.NodeID](p.GetNodes()),
		Ends:        p.GetEnds(),
		Unwanted:    p.GetUnwanted(),
		Held:        p.GetHeld(),
		Version:     p.GetVersion(),
		SpecVersion: p.GetSpecVersion(),
		Restarts:    each(p.GetRestarts(), TimeFromProto),
		Backoff:     int(p.GetBackoff()),
		SpentFor:    p.GetSpentFor(),
		AvoidNode:   cluster.NodeID(p.GetAvoidNode()),
		NotUpSince:  TimeFromProto(p.GetNotUpSince()),
		NotUpWhy:    cluster.NotUpWhy(p.GetNotUpWhy()),
		UpSince:     TimeFromProto(p.GetUpSince()),
		EverUp:      p.GetEverUp(),
		Done:        p.GetDone(),
		Failed:      p.GetFailed(),
		Fresh:       p.GetFresh(),
		MovedBy:     p.GetMovedBy(),
		MovedIn:     p.GetMovedIn(),
		Counted:     p.GetCounted(),
		Leaves:      cluster.NodeID(p.GetLeaves()),
		Claim:       cluster.NodeID(p.GetClaim()),
	}
}
