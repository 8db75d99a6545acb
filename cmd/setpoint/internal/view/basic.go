package view

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// Moment is a time on the wall clock; nil where there is none.
type Moment = *time.Time

func moment(ts *timestamppb.Timestamp) Moment {
	if ts == nil {
		return nil
	}
	t := ts.AsTime()
	return &t
}

// Span is a duration, written as in 1m30s; nil where there is none.
type Span = *string

func span(d *durationpb.Duration) Span {
	if d == nil {
		return nil
	}
	text := d.AsDuration().String()
	return &text
}

// Cores is an amount of CPU in thousandths of a core, written in cores.
type Cores int64

// MarshalJSON writes the amount as a number of cores with all its digits.
func (c Cores) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(c)/1000, 'f', -1, 64)), nil
}

// Resources is what a node has or a task reserves.
type Resources struct {
	CPU    Cores            `json:"cpu"`
	Memory int64            `json:"memory"`
	Units  map[string]int64 `json:"units"`
}

func resources(r *setpointv1.Resources) Resources {
	units := r.GetUnits()
	if units == nil {
		units = map[string]int64{}
	}
	return Resources{CPU: Cores(r.GetMilliCpu()), Memory: r.GetMemoryBytes(), Units: units}
}

// Port is a port of a node.
type Port struct {
	Name   string `json:"name"`
	Number uint32 `json:"number"`
}

// Address is an address of a pool that was given to a task.
type Address struct {
	Name    string `json:"name"`
	Pool    string `json:"pool"`
	Address string `json:"address"`
}

func ports(in []*apiv1.Port) []Port {
	return each(in, func(p *apiv1.Port) Port { return Port{Name: p.GetName(), Number: p.GetNumber()} })
}

func addresses(in []*apiv1.Address) []Address {
	return each(in, func(g *apiv1.Address) Address {
		return Address{Name: g.GetName(), Pool: g.GetPool(), Address: g.GetAddress()}
	})
}

// each converts a list; the result is never nil.
func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func labels(in map[string]string) map[string]string {
	if in == nil {
		return map[string]string{}
	}
	return in
}

func words(in []string) []string {
	if in == nil {
		return []string{}
	}
	return in
}
