package state

import (
	"fmt"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/wire"
)

// Assignment is what the server asks of one task.
type Assignment struct {
	Task     cluster.TaskID
	Job      string
	Slot     cluster.SlotKey
	Desired  cluster.DesiredState
	Grace    time.Duration         // how long it may take to stop; negative: as the specification says
	Observed cluster.ObservedState // the last one that the server knew when it said this
	Spec     *cluster.TaskSpec     // nil if the server did not say what the task runs
	Ports    []cluster.PortGrant
	Start    bool // it may be started

	Addresses []cluster.AddressGrant
}

// Status is what the agent observed of one task.
type Status struct {
	Task     cluster.TaskID
	State    cluster.ObservedState
	Message  string // how it got here
	Err      string // why it ended
	ExitCode int
	Healthy  bool
	At       time.Time // by the agent's clock
}

// Task is all that is remembered of one task.
type Task struct {
	Assignment Assignment
	Status     Status
	Handle     *driver.Handle // nil until the driver was seen to have it
	Forgotten  bool           // to be stopped and dropped
}

// AssignmentFromProto reads an assignment. It refuses ids, states and ports that do not exist.
func AssignmentFromProto(p *agentv1.Assignment) (Assignment, error) {
	a := Assignment{
		Task: cluster.TaskID(p.GetTask()), Job: p.GetJob(), Slot: cluster.SlotKey(p.GetSlot()),
		Desired: cluster.DesiredState(p.GetDesired()), Grace: time.Duration(p.GetGraceNs()),
		Observed: cluster.ObservedState(p.GetObserved()), Start: p.GetStart(),
	}
	if _, _, _, err := a.Task.Parts(); err != nil {
		return Assignment{}, err
	}
	if p.GetDesired() == uint32(cluster.DesiredNone) || p.GetDesired() > uint32(cluster.DesiredRemove) {
		return Assignment{}, fmt.Errorf("task %s: desired state %d does not exist", a.Task, p.GetDesired())
	}
	if p.GetObserved() > uint32(cluster.Stopped) {
		return Assignment{}, fmt.Errorf("task %s: observed state %d does not exist", a.Task, p.GetObserved())
	}
	if p.GetSpec() != nil {
		spec, err := wire.TaskSpecFromProto(p.GetSpec())
		if err != nil {
			return Assignment{}, fmt.Errorf("task %s: %w", a.Task, err)
		}
		a.Spec = &spec
	}
	for _, g := range p.GetPorts() {
		grant, err := wire.PortGrantFromProto(g)
		if err != nil {
			return Assignment{}, fmt.Errorf("task %s: %w", a.Task, err)
		}
		a.Ports = append(a.Ports, grant)
	}
	for _, g := range p.GetAddresses() {
		a.Addresses = append(a.Addresses, wire.AddressGrantFromProto(g))
	}
	return a, nil
}

func (a *Assignment) toProto() *agentv1.Assignment {
	p := &agentv1.Assignment{
		Task: string(a.Task), Job: a.Job, Slot: string(a.Slot), Desired: uint32(a.Desired), GraceNs: int64(a.Grace),
		Observed: uint32(a.Observed), Start: a.Start,
	}
	if a.Spec != nil {
		p.Spec = wire.TaskSpecToProto(a.Spec)
	}
	for _, g := range a.Ports {
		p.Ports = append(p.Ports, wire.PortGrantToProto(g))
	}
	for _, g := range a.Addresses {
		p.Addresses = append(p.Addresses, wire.AddressGrantToProto(g))
	}
	return p
}

// ToProto returns the message of s.
func (s *Status) ToProto() *agentv1.TaskStatus {
	return &agentv1.TaskStatus{
		Task: string(s.Task), State: uint32(s.State), Message: s.Message, Err: s.Err, ExitCode: int64(s.ExitCode), Healthy: s.Healthy,
		AtUnixNs: s.At.UnixNano(),
	}
}

func statusFromProto(p *agentv1.TaskStatus) Status {
	return Status{
		Task: cluster.TaskID(p.GetTask()), State: cluster.ObservedState(p.GetState()), Message: p.GetMessage(), Err: p.GetErr(),
		ExitCode: int(p.GetExitCode()), Healthy: p.GetHealthy(), At: time.Unix(0, p.GetAtUnixNs()),
	}
}
