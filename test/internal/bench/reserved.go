package bench

import (
	"context"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// lookForReservations notes what each task that is new reserves, which is what the version of its job says that it runs, whatever the job says now.
func (s *Sampler) lookForReservations(ctx context.Context, tasks []*apiv1.Task) {
	versions := make(map[string]map[uint64]int64)
	for _, t := range tasks {
		if _, known := s.reserved[t.GetId()]; known {
			continue
		}
		if versions[t.GetJob()] == nil {
			versions[t.GetJob()] = s.reservations(ctx, t.GetJob())
		}
		if cpu, known := versions[t.GetJob()][t.GetJobVersion()]; known {
			s.reserved[t.GetId()] = cpu
		}
	}
}

// reservations returns what each version of a job reserves, in milli-CPU. Of a job that is not there any more nothing is known.
func (s *Sampler) reservations(ctx context.Context, job string) map[uint64]int64 {
	out := make(map[uint64]int64)
	res, err := s.client.GetJob(ctx, connect.NewRequest(&apiv1.GetJobRequest{Job: job}))
	if err != nil {
		return out
	}
	for _, v := range res.Msg.GetJob().GetVersions() {
		out[v.GetVersion()] = v.GetSpec().GetTask().GetResources().GetMilliCpu()
	}
	return out
}

// reservation returns what a task reserves, in milli-CPU.
func (s *Sampler) reservation(task, job string) int64 {
	if cpu, known := s.reserved[task]; known {
		return cpu
	}
	return s.c.jobNamed(job).milliCPU()
}
