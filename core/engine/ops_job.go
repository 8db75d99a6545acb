package engine

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// keptVersions is how many versions of a job are kept beyond those that tasks or slots still use.
const keptVersions = 10

// job returns a job that a command names.
func (e *Engine) job(name string) (*cluster.Job, error) {
	j := e.work.Job(name)
	if j == nil {
		return nil, notFound("job", name, "job ls lists those that there are")
	}
	return j, nil
}

// jobAt returns a job that a command names, unless it is at another version than the command is for.
func (e *Engine) jobAt(name string, version uint64) (*cluster.Job, error) {
	j, err := e.job(name)
	if err != nil {
		return nil, err
	}
	return j, atVersion(j, version)
}

// atVersion refuses a command that is for another version of a job; 0 stands for any.
func atVersion(j *cluster.Job, version uint64) error {
	if version == 0 || version == j.Control.Version {
		return nil
	}
	return &OpError{
		Kind: Conflict, Message: fmt.Sprintf("job %s is at version %d, not %d", j.Name, j.Control.Version, version),
		Hint: fmt.Sprintf("somebody changed it meanwhile: job inspect %s shows the newest version; decide again and name that one", j.Name),
	}
}

// putJob writes what is asked of a job.
func (e *Engine) putJob(j *cluster.Job, c cluster.JobControl) JobResult {
	out := *j
	c.AskedBy, c.AskedRev = e.asking, e.rev
	out.Control = c
	e.apply(cluster.AuthorOperator, cluster.PutJob{Job: &out})
	return JobResult{Job: &out, Changed: true}
}

func (e *Engine) runJob(op RunJob, now cluster.Time) (any, error) {
	if problems := op.Spec.Validate(); len(problems) > 0 {
		return nil, &OpError{Kind: Invalid, Message: "the job is not valid", Hint: "mend what the problems name and run it again", Problems: problems}
	}
	j := e.work.Job(op.Spec.Name)
	if j == nil {
		if op.IfVersion != 0 {
			return nil, notFound("job", op.Spec.Name, "leave the version out to create it")
		}
		j = &cluster.Job{Name: op.Spec.Name, Created: now, CreatedRev: e.rev}
	}
	c := j.Control
	if err := atVersion(j, op.IfVersion); err != nil {
		return nil, err
	}
	if c.Version > 0 && c.Spec.Type != op.Spec.Type {
		return nil, refused("remove the job first, or use another name", "job %s is of type %s, which cannot be changed to %s", j.Name, c.Spec.Type, op.Spec.Type)
	}
	same := c.Version > 0 && reflect.DeepEqual(c.Spec, op.Spec)
	if same && !c.Stopped {
		return JobResult{Job: j}, nil
	}
	reason := op.Reason
	if reason == "" {
		reason = "submitted"
	}
	c.Stopped, c.StopGrace = false, 0
	if !same {
		e.newVersion(j, &c, op.Spec, c.Restarts, reason, now)
	}
	return e.putJob(j, c), nil
}

// newVersion makes the next version of a job. Its task section gets a new name, unless an earlier version has the same one.
func (e *Engine) newVersion(j *cluster.Job, c *cluster.JobControl, spec cluster.JobSpec, restarts uint64, reason string, now cluster.Time) {
	c.Version++
	specVersion := c.Version
	for _, v := range c.Versions {
		if v.Restarts == restarts && reflect.DeepEqual(v.Spec.Task, spec.Task) {
			specVersion = v.SpecVersion
		}
	}
	c.Spec, c.SpecVersion, c.Restarts = spec, specVersion, restarts
	c.Changed, c.ChangedRev = now, e.rev
	c.UpdateHold = false
	c.Versions = append(e.cutVersions(j, c.Versions), cluster.JobVersion{
		Version: c.Version, SpecVersion: specVersion, Restarts: restarts, Created: now, Spec: spec, Reason: reason, By: e.asking,
	})
}

// cutVersions drops old versions that nothing uses.
func (e *Engine) cutVersions(j *cluster.Job, versions []cluster.JobVersion) []cluster.JobVersion {
	if len(versions) < keptVersions {
		return slices.Clone(versions)
	}
	used := map[uint64]bool{j.Update.From: true, j.Update.To: true}
	for t := range e.work.TasksOf(j.Name) {
		used[t.JobVersion] = true
	}
	for _, s := range e.work.Slots(j.Name) {
		used[s.Version] = true
	}
	var out []cluster.JobVersion
	for i, v := range versions {
		if used[v.Version] || i > len(versions)-keptVersions {
			out = append(out, v)
		}
	}
	return out
}

func (e *Engine) stopJob(op StopJob) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	c := j.Control
	if c.Stopped && c.StopGrace == op.Grace {
		return JobResult{Job: j}, nil
	}
	c.Stopped, c.StopGrace = true, op.Grace
	return e.putJob(j, c), nil
}

func (e *Engine) startJob(op StartJob) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	c := j.Control
	if !c.Stopped {
		return JobResult{Job: j}, nil
	}
	c.Stopped, c.StopGrace = false, 0
	return e.putJob(j, c), nil
}

func (e *Engine) restartJob(op RestartJob, now cluster.Time) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	c := j.Control
	if c.Stopped {
		return nil, refused("job start runs it again", "job %s is stopped", j.Name)
	}
	restarts := c.Restarts
	for _, v := range c.Versions {
		restarts = max(restarts, v.Restarts)
	}
	e.newVersion(j, &c, c.Spec, restarts+1, "restart asked", now)
	return e.putJob(j, c), nil
}

func (e *Engine) scaleJob(op ScaleJob, now cluster.Time) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	switch {
	case err != nil:
		return nil, err
	case !j.Control.Spec.Numbered():
		return nil, refused("only replicated and batch jobs have a count", "job %s is of type %s", j.Name, j.Control.Spec.Type)
	case op.Count < 0:
		return nil, &OpError{Kind: Invalid, Message: fmt.Sprintf("a count of %d makes no sense", op.Count), Hint: "0 or more"}
	case op.Count == j.Control.Spec.Count:
		return JobResult{Job: j}, nil
	}
	c := j.Control
	spec := c.Spec
	spec.Count = op.Count
	e.newVersion(j, &c, spec, c.Restarts, fmt.Sprintf("scaled from %d to %d", c.Spec.Count, op.Count), now)
	return e.putJob(j, c), nil
}

func (e *Engine) rollbackJob(op RollbackJob, now cluster.Time) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	v := j.Earlier(op.To)
	switch {
	case v == nil && op.To == 0:
		return nil, refused("job history shows the versions that are kept", "job %s has no earlier version that runs something else than version %d", j.Name, j.Control.Version)
	case v == nil:
		return nil, notFound("version", fmt.Sprintf("%s@%d", j.Name, op.To), "job inspect lists the versions that are kept")
	}
	return e.backTo(j, v, fmt.Sprintf("rollback to version %d", v.Version), now), nil
}

func (e *Engine) backTo(j *cluster.Job, v *cluster.JobVersion, reason string, now cluster.Time) JobResult {
	c := j.Control
	e.newVersion(j, &c, v.Spec, v.Restarts, reason, now)
	return e.putJob(j, c)
}

func (e *Engine) rebalanceJob(op RebalanceJob) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	switch {
	case err != nil:
		return nil, err
	case j.Control.Spec.Ends():
		return nil, refused("wait until they end, or drain a node", "the tasks of job %s end by themselves, and what they have done would be lost", j.Name)
	case j.Control.Stopped:
		return nil, refused("job start runs it again", "job %s is stopped", j.Name)
	case j.Rebalancing():
		return JobResult{Job: j}, nil
	}
	c := j.Control
	c.Rebalances++
	return e.putJob(j, c), nil
}

// rollBack makes the version with which a failed update goes back.
func (e *Engine) rollBack(name string, to uint64, why string, now cluster.Time) {
	j := e.work.Job(name)
	v := j.VersionOf(to)
	if v == nil {
		return // the update stays paused
	}
	e.backTo(j, v, fmt.Sprintf("%s%s; back to version %d", cluster.AutoRollback, why, to), now)
}

func (e *Engine) removeJob(op RemoveJob) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	e.setStallsWithin(e.jobStalls(j.Name), nil, e.cfg.MaxChanges) // those that are left end with what is left of the job
	e.apply(cluster.AuthorOperator, cluster.RemoveJob{Job: j.Name})
	return JobResult{Job: j, Changed: true}, nil
}

func (e *Engine) controlUpdate(op ControlUpdate) (any, error) {
	j, err := e.jobAt(op.Job, op.IfVersion)
	if err != nil {
		return nil, err
	}
	updating, rebalancing := j.Update.State == cluster.Updating || j.Update.State == cluster.UpdatePaused, j.Rebalancing()
	switch {
	case updating, rebalancing && op.Action == CancelUpdate:
	case op.Action == ResumeUpdate && j.Update.State == cluster.UpdateCancelled && j.Update.To == j.Control.Version:
	case rebalancing:
		return nil, refused("job cancel ends the rebalance; it can be asked for again", "job %s has no update under way, and a rebalance can only be ended", j.Name)
	case op.Action == CancelUpdate:
		return nil, refused("job inspect says how far it is", "job %s has no update and no rebalance under way", j.Name)
	default:
		return nil, refused("job inspect says how far it is", "job %s has no update under way", j.Name)
	}
	c := j.Control
	switch op.Action {
	case PauseUpdate:
		c.UpdateHold = true
	case ResumeUpdate:
		c.UpdateHold, c.Cancelled = false, 0
		c.Resumes++
	case CancelUpdate:
		if updating {
			c.Cancelled, c.UpdateHold = c.Version, false
		}
		if rebalancing {
			c.RebalancesEnded = c.Rebalances
		}
	default:
		return nil, &OpError{Kind: Invalid, Message: fmt.Sprintf("%q is nothing that can be done to an update", op.Action), Hint: "pause, resume or cancel"}
	}
	return e.putJob(j, c), nil
}
