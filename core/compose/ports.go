package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/hashicorp/hcl/v2"
	"go.yaml.in/yaml/v4"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// openPort is a port of a job that is being put together of the lines of a service that publish one number.
type openPort struct {
	name   string
	static uint16
	behind []string // ports of the container, such as 53/udp
	at     hcl.Range
}

func (c *conversion) ports() {
	var open []openPort
	for _, p := range c.service.Ports {
		at := c.portAt(p)
		if p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" {
			c.tell(at, keys("ports.host_ip"), false, "ports are published on all addresses of the node, not only on %s", p.HostIP)
		}
		static, ok := c.published(p, at)
		if !ok {
			continue
		}
		c.mesh(p, static, at)
		open = join(open, p, static, at)
	}
	if len(open) == 0 {
		return
	}
	name(open)
	behind := make(map[string][]string, len(open))
	ports := make([]cluster.Port, len(open))
	for i, p := range open {
		c.Record(hcltext.Keyed("task.port", p.name), p.at)
		ports[i] = cluster.Port{Name: p.name, Static: p.static}
		behind[p.name] = p.behind
	}
	c.say(func(s *cluster.JobSpec) { s.Task.Ports = ports })
	c.setList("ports", simplest(behind), "ports")
}

// published is the number at which a port is to be published, 0 for any.
func (c *conversion) published(p types.ServicePortConfig, at hcl.Range) (uint16, bool) {
	if p.Published == "" || p.Published == "0" {
		return 0, true
	}
	if strings.Contains(p.Published, "-") {
		c.tell(at, keys("ports.published"), false, "a port is published at one number, or at any free one, but not at one of %s", p.Published)
		return 0, true
	}
	n, err := strconv.ParseUint(p.Published, 10, 16)
	if err != nil {
		c.Fail("task.port", at, "Not a port number", fmt.Sprintf("%q is no number from 1 to 65535.", p.Published))
		return 0, false
	}
	return uint16(n), true
}

// mesh tells that Swarm would answer on every node. A global job does so anyway.
func (c *conversion) mesh(p types.ServicePortConfig, static uint16, at hcl.Range) {
	kind, _ := c.jobType()
	if static == 0 || p.Mode != "ingress" || kind == cluster.TypeGlobal {
		return
	}
	const why = "a port is published on the nodes that run a task, as with mode: host, and not on every node; no two tasks share a node"
	c.tell(at, keys("ports.mode"), !c.expressly(at), why)
}

// expressly reports whether the port at a place has its mode in the file: the default of the short form may mean one or the other.
func (c *conversion) expressly(at hcl.Range) bool {
	_, n, found := c.places.main.find([]string{"services", c.name, "ports"})
	if found != 3 || n == nil {
		return false
	}
	for _, each := range n.Content {
		if each = resolve(each); each != nil && each.Kind == yaml.MappingNode && each.Line == at.Start.Line {
			mode, _ := child(each, "mode", 0)
			return mode != nil
		}
	}
	return false
}

// join adds a port, to another of the same number if there is one.
func join(open []openPort, p types.ServicePortConfig, static uint16, at hcl.Range) []openPort {
	behind := strconv.FormatUint(uint64(p.Target), 10)
	if p.Protocol != "" && p.Protocol != "tcp" {
		behind += "/" + p.Protocol
	}
	i := slices.IndexFunc(open, func(o openPort) bool { return static != 0 && o.static == static })
	if i < 0 {
		name := strings.ReplaceAll(strings.ToLower(p.Name), "-", "_")
		if cluster.ValidatePortName(name) != nil {
			name = ""
		}
		return append(open, openPort{name: cmp.Or(name, fmt.Sprintf("port%d", p.Target)), static: static, behind: []string{behind}, at: at})
	}
	if !slices.Contains(open[i].behind, behind) {
		open[i].behind = append(open[i].behind, behind)
	}
	return open
}

// name gives ports of one name different ones.
func name(open []openPort) {
	taken := make(map[string]bool)
	for i := range open {
		base := open[i].name
		for n := 2; taken[open[i].name]; n++ {
			open[i].name = fmt.Sprintf("%s_%d", base, n)
		}
		taken[open[i].name] = true
	}
}

// simplest writes ports of the container as people do: 80 for ["80"].
func simplest(behind map[string][]string) map[string]any {
	out := make(map[string]any, len(behind))
	for name, list := range behind {
		all := make([]any, len(list))
		for i, each := range list {
			all[i] = each
			if n, err := strconv.Atoi(each); err == nil {
				all[i] = n
			}
		}
		out[name] = all
		if len(all) == 1 {
			out[name] = all[0]
		}
	}
	return out
}

// portAt finds the line of a port: short forms may stand for several.
func (c *conversion) portAt(p types.ServicePortConfig) hcl.Range {
	return c.lineOf("ports", func(n *yaml.Node) bool {
		if n.Kind == yaml.ScalarNode {
			parsed, err := types.ParsePortConfig(n.Value)
			return err == nil && slices.ContainsFunc(parsed, func(o types.ServicePortConfig) bool {
				return o.Target == p.Target && o.Published == p.Published && o.Protocol == p.Protocol
			})
		}
		_, target := child(n, "target", 0)
		_, published := child(n, "published", 0)
		return target != nil && target.Value == strconv.FormatUint(uint64(p.Target), 10) && (published == nil || published.Value == p.Published)
	})
}

// lineOf finds the element of a list that is the one meant, or the list.
func (c *conversion) lineOf(list string, is func(*yaml.Node) bool) hcl.Range {
	_, n, found := c.places.main.find([]string{"services", c.name, list})
	if found == 3 && n != nil && n.Kind == yaml.SequenceNode {
		for _, each := range n.Content {
			if each = resolve(each); each != nil && is(each) {
				return c.places.main.span(each)
			}
		}
	}
	return c.at(list)
}
