package jobfile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

type duration = time.Duration

func (d *draft) taskFields() hcltext.Fields {
	return hcltext.Fields{
		Attributes: map[string]func(hcltext.Value){
			"driver":  set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &s.Task.Driver }),
			"command": set(d, hcltext.Strings, func(s *cluster.JobSpec) *[]string { return &s.Task.Command }),
			"dir":     set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &s.Task.Dir }),
			"user":    set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &s.Task.User }),
			"env":     set(d, hcltext.StringMap, func(s *cluster.JobSpec) *map[string]string { return &s.Task.Env }),
			"config":  set(d, hcltext.TextMap, func(s *cluster.JobSpec) *map[string]string { return &s.Task.Config }),
		},
		Blocks: map[string]hcltext.BlockField{
			"resources": {Read: d.in(d.resourceFields)},
			"port":      {Label: "name", Repeated: true, Read: d.port},
			"address":   {Label: "name", Repeated: true, Read: d.address},
			"secret":    {Label: "name", Repeated: true, Read: d.secret},
			"stop":      {Read: d.in(d.stopFields)},
			"health":    {Read: d.health},
		},
	}
}

func (d *draft) resourceFields() hcltext.Fields {
	return hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"cpu":    set(d, hcltext.Milli, func(s *cluster.JobSpec) *int64 { return &s.Task.Resources.MilliCPU }),
		"memory": set(d, hcltext.Bytes, func(s *cluster.JobSpec) *int64 { return &s.Task.Resources.Memory }),
		"units":  set(d, hcltext.IntMap, func(s *cluster.JobSpec) *map[string]int64 { return &s.Task.Resources.Units }),
	}}
}

func (d *draft) port(b hcltext.Block) {
	p := cluster.Port{Name: b.Label}
	d.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"static": hcltext.Set(portNumber, &p.Static),
	}})
	d.ports = append(d.ports, p)
	all := slices.Clone(d.ports)
	d.say(func(s *cluster.JobSpec) { s.Task.Ports = all })
}

func (d *draft) address(b hcltext.Block) {
	a := cluster.Address{Name: b.Label}
	d.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"pool": hcltext.Set(hcltext.String, &a.Pool),
	}})
	d.addresses = append(d.addresses, a)
	all := slices.Clone(d.addresses)
	d.say(func(s *cluster.JobSpec) { s.Task.Addresses = all })
}

func portNumber(v hcltext.Value) (uint16, bool) {
	n, ok := hcltext.Int(v)
	if ok && (n < 1 || n > math.MaxUint16) {
		v.Fail("Not a port number", fmt.Sprintf("It is %d; a port is between 1 and %d. Without static the task gets any free one.", n, math.MaxUint16))
		return 0, false
	}
	return uint16(n), ok
}

func (d *draft) stopFields() hcltext.Fields {
	return hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"signal": set(d, signal, func(s *cluster.JobSpec) *string { return &s.Task.Stop.Signal }),
		"grace":  set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Task.Stop.Grace }),

		"after_disconnect": set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Task.Stop.AfterDisconnect }),
	}}
}

// signal reads a signal's name, with or without SIG, in any case.
func signal(v hcltext.Value) (string, bool) {
	text, ok := hcltext.String(v)
	return strings.TrimPrefix(strings.ToUpper(text), "SIG"), ok
}

// health reads a health check. A block that says nothing is still a check, and refused as one.
func (d *draft) health(b hcltext.Block) {
	check := func(s *cluster.JobSpec) *cluster.HealthSpec {
		if s.Task.Health == nil {
			s.Task.Health = &cluster.HealthSpec{}
		}
		return s.Task.Health
	}
	d.say(func(s *cluster.JobSpec) { check(s) })
	d.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"exec":         set(d, hcltext.Strings, func(s *cluster.JobSpec) *[]string { return &check(s).Exec }),
		"http":         set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &check(s).HTTP }),
		"tcp":          set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &check(s).TCP }),
		"interval":     set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &check(s).Interval }),
		"timeout":      set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &check(s).Timeout }),
		"start_period": set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &check(s).StartPeriod }),
		"retries":      set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &check(s).Retries }),
	}})
}
