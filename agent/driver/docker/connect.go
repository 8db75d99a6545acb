package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"

	"github.com/setpointd/setpoint/agent/driver"
)

// A containerPort is where a program in the container listens.
type containerPort struct {
	Number uint16
	Proto  network.IPProtocol
}

// readNetwork reads the name of a network. To enter another container's would be to enter another task.
func readNetwork(s *settings, value string) error {
	if strings.ContainsAny(value, ":/") {
		return fmt.Errorf("%q is neither bridge, host, none nor the name of a network", value)
	}
	s.Network = value
	return nil
}

// readPorts reads, for names of the job's ports, the ports in the container: 80, "53/udp", or a list of such.
func readPorts(s *settings, value string) error {
	var byName map[string]json.RawMessage
	if err := readJSON(&byName, value); err != nil {
		return errors.New(`it is no map of ports, such as { http = 80, dns = ["53/udp", "53/tcp"] }`)
	}
	s.Ports = make(map[string][]containerPort, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		each := []json.RawMessage{byName[name]}
		if bytes.HasPrefix(byName[name], []byte("[")) {
			if err := readJSON(&each, string(byName[name])); err != nil {
				return err
			}
		}
		for _, text := range each {
			p, err := parsePort(strings.Trim(string(text), `"`))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.Ports[name] = append(s.Ports[name], p)
		}
	}
	return nil
}

func parsePort(text string) (containerPort, error) {
	number, proto, found := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	p := containerPort{Number: uint16(n), Proto: network.TCP}
	if found {
		p.Proto = network.IPProtocol(proto)
	}
	known := []network.IPProtocol{network.TCP, network.UDP, network.SCTP}
	if err != nil || n == 0 || !slices.Contains(known, p.Proto) {
		return p, fmt.Errorf(`%q is no port, such as 80 or "53/udp"`, text)
	}
	return p, nil
}

// published returns what the engine is to publish: each granted port of the machine, and behind it the same port of the container where the task says no other.
func (s *settings) published(granted []driver.Port) (network.PortSet, network.PortMap, error) {
	numbers := make(map[string]uint16, len(granted))
	for _, g := range granted {
		numbers[g.Name] = g.Number
	}
	for _, name := range slices.Sorted(maps.Keys(s.Ports)) {
		if numbers[name] == 0 {
			return nil, nil, fmt.Errorf("ports: the task has no port %q; port %q {} asks for one", name, name)
		}
	}
	if s.Network == "host" { // it is the machine's
		return nil, nil, nil
	}
	if s.Network == "none" && len(granted) > 0 {
		return nil, nil, errors.New(`network is "none", and the task has ports: nobody could reach them`)
	}
	exposed, bindings := make(network.PortSet), make(network.PortMap)
	for _, g := range granted {
		inside := s.Ports[g.Name]
		if len(inside) == 0 {
			inside = []containerPort{{g.Number, network.TCP}}
		}
		for _, p := range inside {
			at, _ := network.PortFrom(p.Number, p.Proto) // a protocol that is known
			exposed[at] = struct{}{}
			bindings[at] = append(bindings[at], network.PortBinding{HostPort: strconv.Itoa(int(g.Number))})
		}
	}
	return exposed, bindings, nil
}

// A mountSetting is one element of the setting mounts.
type mountSetting struct {
	Type     string `json:"type"`   // bind, volume or tmpfs; "": bind if the source is a path, otherwise volume
	Source   string `json:"source"` // of bind a path of the machine, of volume a name; a volume without one is the task's own
	Target   string `json:"target"` // a path in the container
	ReadOnly bool   `json:"read_only"`
	Size     string `json:"size"` // of tmpfs: how much it may hold; "": half of the machine's memory
}

// readMounts reads what is mounted into the container.
func readMounts(s *settings, value string) error {
	if err := readJSON(&s.Mounts, value); err != nil {
		return fmt.Errorf(`it is no list of mounts, such as [{ source = "/srv/www", target = "/www", read_only = true }]: %w`, err)
	}
	for i := range s.Mounts {
		if _, err := s.Mounts[i].mount(); err != nil {
			return fmt.Errorf("the mount at %q: %w", s.Mounts[i].Target, err)
		}
	}
	return nil
}

func (m *mountSetting) kind() mount.Type {
	switch {
	case m.Type != "":
		return mount.Type(m.Type)
	case strings.HasPrefix(m.Source, "/"):
		return mount.TypeBind
	}
	return mount.TypeVolume
}

// mount returns it as the engine wants it. A bind of what is not there is refused, since the engine would make a directory of root's.
func (m *mountSetting) mount() (mount.Mount, error) {
	out := mount.Mount{Type: m.kind(), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	if !path.IsAbs(m.Target) || path.Clean(m.Target) == "/" {
		return out, errors.New("target must be a path in the container that begins with a slash, and not all of it")
	}
	if m.Size != "" && out.Type != mount.TypeTmpfs {
		return out, errors.New("only a tmpfs has a size")
	}
	switch out.Type {
	case mount.TypeBind:
		if !path.IsAbs(m.Source) {
			return out, errors.New("the source of a bind is a path of the machine that begins with a slash")
		}
	case mount.TypeVolume:
		if strings.Contains(m.Source, "/") {
			return out, errors.New("the source of a volume is its name")
		}
	case mount.TypeTmpfs:
		if m.Source != "" {
			return out, errors.New("a tmpfs has no source")
		}
		out.TmpfsOptions = &mount.TmpfsOptions{}
		if m.Size != "" {
			if err := readBytes(&out.TmpfsOptions.SizeBytes, m.Size, 1); err != nil {
				return out, fmt.Errorf("size: %w", err)
			}
		}
	default:
		return out, fmt.Errorf("type %q is none of bind, volume, tmpfs", m.Type)
	}
	return out, nil
}
