package compose

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func (c *conversion) placement() {
	p := c.deploy().Placement
	steps := keys("deploy.placement")
	for i, text := range p.Constraints {
		c.constraint(text, append(steps, "constraints", strconv.Itoa(i)))
	}
	c.platform()
	var spreads []cluster.Spread
	for i, each := range p.Preferences {
		at := append(steps, "preferences", strconv.Itoa(i))
		attribute, ok := c.attribute(each.Spread, at)
		if !ok {
			c.lose(at, "nodes have no %q to spread over", each.Spread)
			continue
		}
		c.from(fmt.Sprintf("spread[%d].attribute", len(spreads)), at...)
		spreads = append(spreads, cluster.Spread{Attribute: attribute})
	}
	if spreads != nil {
		c.say(func(s *cluster.JobSpec) { s.Spread = spreads })
	}
	if p.MaxReplicas > 0 {
		n := whole(p.MaxReplicas)
		c.from("max_per_node", append(steps, "max_replicas_per_node")...)
		c.say(func(s *cluster.JobSpec) { s.MaxPerNode = n })
	}
}

// constraintParts is a constraint of Swarm's: a key, an operator, a value.
var constraintParts = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9\-_.]+)\s*(==|!=)\s*(.*?)\s*$`)

// constraint converts a constraint into the one of Setpoint's that the same nodes meet.
func (c *conversion) constraint(text string, steps []string) {
	m := constraintParts.FindStringSubmatch(text)
	if m == nil || m[3] == "" {
		c.wrong("constraints", steps, "Not a constraint", "%q is not of the form KEY==VALUE or KEY!=VALUE.", text)
		return
	}
	attribute, ok := c.attribute(m[1], steps)
	if !ok {
		c.wrong("constraints", steps, "Unknown attribute", "Nodes have no %q, so that Swarm would place the service nowhere; there are node.id, node.hostname, node.ip, "+
			"node.role, node.platform.os, node.platform.arch, node.labels.KEY and engine.labels.KEY.", m[1])
		return
	}
	operator, value := m[2], m[3]
	folded := false
	switch attribute {
	case "node.arch":
		value = architecture(value)
	case "node.os", "node.ip":
		value = strings.ToLower(value)
	case "node.id":
		c.hint(steps, "ids of Swarm's nodes are not those of Setpoint's")
	default:
		if strings.EqualFold(m[1], "node.role") {
			operator, value = c.role(operator, value, steps)
			break
		}
		folded = strings.ToLower(value) != strings.ToUpper(value)
	}
	if folded { // Swarm compares without regard to case
		operator, value = map[string]string{"==": "=~", "!=": "!~"}[operator], "(?i)^"+regexp.QuoteMeta(value)+"$"
	}
	c.from(fmt.Sprintf("plugin[%q].constraints[%d]", "constraint", len(c.constraints)), steps...)
	c.constraints = append(c.constraints, fmt.Sprintf("%s %s %s", attribute, operator, value))
}

// role converts a constraint on a role, which nodes of Setpoint do not have: all are workers, and what was to run on managers wants a label.
func (c *conversion) role(operator, value string, steps []string) (op, label string) {
	if strings.EqualFold(value, "worker") { // what is no manager
		operator, value = map[string]string{"==": "!=", "!=": "=="}[operator], "manager"
	}
	c.hint(steps, "nodes have no roles: it became node.labels.role %s %s, and `setpoint node label NODE role=manager` makes a node one that counts as such", operator, strings.ToLower(value))
	return operator, strings.ToLower(value)
}

// attribute converts what Swarm calls an attribute of a node. Keys are compared without regard to case there, but for those of labels.
func (c *conversion) attribute(name string, steps []string) (string, bool) {
	lower := strings.ToLower(name)
	switch lower {
	case "node.id", "node.hostname", "node.ip":
		return lower, true
	case "node.role":
		return "node.labels.role", true
	case "node.platform.os":
		return "node.os", true
	case "node.platform.arch":
		return "node.arch", true
	}
	if strings.HasPrefix(lower, "node.labels.") && len(name) > len("node.labels.") {
		return "node.labels." + name[len("node.labels."):], true
	}
	if strings.HasPrefix(lower, "engine.labels.") && len(name) > len("engine.labels.") {
		label := name[len("engine.labels."):]
		c.hint(steps, "an engine's labels are not known: it became node.labels.%s, which `setpoint node label` gives to nodes", label)
		return "node.labels." + label, true
	}
	return "", false
}

// architecture is a processor as Setpoint's nodes call it.
func architecture(name string) string {
	switch name = strings.ToLower(name); name {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64", "arm64/v8":
		return "arm64"
	case "armhf", "armel", "armv7l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return name
}

func (c *conversion) platform() {
	if c.service.Platform == "" {
		return
	}
	system, rest, _ := strings.Cut(c.service.Platform, "/")
	machine, variant, _ := strings.Cut(rest, "/")
	add := func(attribute, value string) {
		c.from(hcltext.Dotted(`plugin["constraint"]`, fmt.Sprintf("constraints[%d]", len(c.constraints))), "platform")
		c.constraints = append(c.constraints, attribute+" == "+value)
	}
	add("node.os", strings.ToLower(system))
	if machine != "" {
		add("node.arch", architecture(machine))
	}
	if variant != "" && machine != "arm64" {
		c.lose(keys("platform"), "nodes do not tell the variant of their processor")
	}
}
