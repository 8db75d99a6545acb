package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// ErrRange is wrapped by every error about a number that stands for nothing: a state, port or field group that does not exist.
var ErrRange = errors.New("out of range")

// TimeToProto returns the message of t, nil if t was never set.
func TimeToProto(t cluster.Time) *setpointv1.Time {
	if t.IsZero() {
		return nil
	}
	return &setpointv1.Time{EngineNs: int64(t.Engine), WallNs: t.Wall}
}

// TimeFromProto returns the moment that p says; nil gives the zero Time.
func TimeFromProto(p *setpointv1.Time) cluster.Time {
	return cluster.Time{Engine: duration(p.GetEngineNs()), Wall: p.GetWallNs()}
}

// ResourcesToProto returns the message of r.
func ResourcesToProto(r cluster.Resources) *setpointv1.Resources {
	return &setpointv1.Resources{MilliCpu: r.MilliCPU, MemoryBytes: r.Memory, Units: mapOrNil(r.Units)}
}

// ResourcesFromProto returns the amounts that p says.
func ResourcesFromProto(p *setpointv1.Resources) cluster.Resources {
	return cluster.Resources{MilliCPU: p.GetMilliCpu(), Memory: p.GetMemoryBytes(), Units: mapOrNil(p.GetUnits())}
}

// PortToProto returns the message of p.
func PortToProto(p cluster.Port) *setpointv1.Port {
	return &setpointv1.Port{Name: p.Name, Static: uint32(p.Static)}
}

// PortFromProto returns the port that p asks for, or an error that wraps ErrRange if its number is no port.
func PortFromProto(p *setpointv1.Port) (cluster.Port, error) {
	n, err := portNumber(p.GetStatic())
	if err != nil {
		return cluster.Port{}, fmt.Errorf("port %q: %w", p.GetName(), err)
	}
	return cluster.Port{Name: p.GetName(), Static: n}, nil
}

func addressToProto(a cluster.Address) *setpointv1.Address {
	return &setpointv1.Address{Name: a.Name, Pool: a.Pool}
}

func addressFromProto(p *setpointv1.Address) cluster.Address {
	return cluster.Address{Name: p.GetName(), Pool: p.GetPool()}
}

// AddressGrantToProto returns the message of g.
func AddressGrantToProto(g cluster.AddressGrant) *setpointv1.AddressGrant {
	return &setpointv1.AddressGrant{Name: g.Name, Pool: g.Pool, Address: g.Address}
}

// AddressGrantFromProto returns the grant that p says.
func AddressGrantFromProto(p *setpointv1.AddressGrant) cluster.AddressGrant {
	return cluster.AddressGrant{Name: p.GetName(), Pool: p.GetPool(), Address: p.GetAddress()}
}

// PortGrantToProto returns the message of g.
func PortGrantToProto(g cluster.PortGrant) *setpointv1.PortGrant {
	return &setpointv1.PortGrant{Name: g.Name, Number: uint32(g.Number)}
}

// PortGrantFromProto returns the grant that p says, or an error that wraps ErrRange if its number is no port.
func PortGrantFromProto(p *setpointv1.PortGrant) (cluster.PortGrant, error) {
	n, err := portNumber(p.GetNumber())
	if err != nil {
		return cluster.PortGrant{}, fmt.Errorf("granted port %q: %w", p.GetName(), err)
	}
	return cluster.PortGrant{Name: p.GetName(), Number: n}, nil
}

func portNumber(n uint32) (uint16, error) {
	if n > math.MaxUint16 {
		return 0, fmt.Errorf("number %d: %w", n, ErrRange)
	}
	return uint16(n), nil
}
