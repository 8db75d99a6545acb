package constraint

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	labelPrefix     = "node.labels."
	attributePrefix = "node.attributes."
	ipAttribute     = "node.ip"
)

// plain are the attributes that every node has.
var plain = map[string]lookup{
	"node.id":       func(n *cluster.Node) (string, bool) { return string(n.ID), true },
	"node.name":     func(n *cluster.Node) (string, bool) { return n.Spec.Name, true },
	"node.hostname": func(n *cluster.Node) (string, bool) { return n.Description.Hostname, n.Description.Hostname != "" },
	"node.os":       func(n *cluster.Node) (string, bool) { return n.Description.OS, n.Description.OS != "" },
	"node.arch":     func(n *cluster.Node) (string, bool) { return n.Description.Arch, n.Description.Arch != "" },
}

// lookup returns an attribute of a node, and whether the node has it.
type lookup func(n *cluster.Node) (string, bool)

// compile makes a test of the expression. Its errors are mistakes.
func (e *expression) compile() (test, error) {
	if e.attribute == ipAttribute {
		return e.compileIP()
	}
	if key, ok := strings.CutPrefix(e.attribute, labelPrefix); ok && key != "" {
		if t := e.labelTest(key); t != nil {
			return t, nil
		}
		return e.compileText(func(n *cluster.Node) (string, bool) { v, ok := n.Spec.Labels[key]; return v, ok })
	}
	if key, ok := strings.CutPrefix(e.attribute, attributePrefix); ok && key != "" {
		return e.compileText(func(n *cluster.Node) (string, bool) { v, ok := n.Description.Attributes[key]; return v, ok })
	}
	if get, ok := plain[e.attribute]; ok {
		return e.compileText(get)
	}
	return nil, e.unknownAttribute()
}

// labelTest makes the tests that are most common, on labels, without a call in between. It returns nil for others.
func (e *expression) labelTest(key string) test {
	want := e.value
	switch e.operator {
	case equal:
		return func(n *cluster.Node) bool { v, ok := n.Spec.Labels[key]; return ok && v == want }
	case notEqual:
		return func(n *cluster.Node) bool { v, ok := n.Spec.Labels[key]; return !ok || v != want }
	case exists:
		return func(n *cluster.Node) bool { _, ok := n.Spec.Labels[key]; return ok }
	case notExists:
		return func(n *cluster.Node) bool { _, ok := n.Spec.Labels[key]; return !ok }
	}
	return nil
}

func (e *expression) compileText(get lookup) (test, error) {
	want, list := e.value, e.list
	switch e.operator {
	case equal:
		return func(n *cluster.Node) bool { v, ok := get(n); return ok && v == want }, nil
	case notEqual:
		return func(n *cluster.Node) bool { v, ok := get(n); return !ok || v != want }, nil
	case exists:
		return func(n *cluster.Node) bool { _, ok := get(n); return ok }, nil
	case notExists:
		return func(n *cluster.Node) bool { _, ok := get(n); return !ok }, nil
	case in:
		return func(n *cluster.Node) bool { v, ok := get(n); return ok && slices.Contains(list, v) }, nil
	case notIn:
		return func(n *cluster.Node) bool { v, ok := get(n); return !ok || !slices.Contains(list, v) }, nil
	case matches, matchesNot:
		return e.compilePattern(get)
	}
	return e.compileOrder(get)
}

func (e *expression) compilePattern(get lookup) (test, error) {
	pattern, err := regexp.Compile(e.value)
	if err != nil {
		return nil, &mistake{e.valueAt, fmt.Sprintf("the pattern cannot be read: %v", err)}
	}
	if e.operator == matches {
		return func(n *cluster.Node) bool { v, ok := get(n); return ok && pattern.MatchString(v) }, nil
	}
	return func(n *cluster.Node) bool { v, ok := get(n); return !ok || !pattern.MatchString(v) }, nil
}

func (e *expression) compileOrder(get lookup) (test, error) {
	want, ok := parseQuantity(e.value)
	if !ok {
		return nil, &mistake{e.valueAt, fmt.Sprintf("%q compares whole numbers and versions, and %q is neither", e.operator, e.value)}
	}
	holds := map[operator]func(int) bool{
		less:         func(c int) bool { return c < 0 },
		lessEqual:    func(c int) bool { return c <= 0 },
		greater:      func(c int) bool { return c > 0 },
		greaterEqual: func(c int) bool { return c >= 0 },
	}[e.operator]
	return func(n *cluster.Node) bool {
		text, ok := get(n)
		if !ok {
			return false
		}
		have, ok := parseQuantity(text)
		return ok && holds(have.compare(want))
	}, nil
}

// compileIP makes a test of node.ip, which a node meets with any of its addresses.
func (e *expression) compileIP() (test, error) {
	wanted := e.list
	switch e.operator {
	case exists:
		return func(n *cluster.Node) bool { return len(n.Description.Addresses) > 0 }, nil
	case notExists:
		return func(n *cluster.Node) bool { return len(n.Description.Addresses) == 0 }, nil
	case equal, notEqual:
		wanted = []string{e.value}
	case in, notIn:
	default:
		return nil, &mistake{e.at, fmt.Sprintf("%q cannot be asked of node.ip; use ==, !=, in, not in, exists or not exists", e.operator)}
	}
	var ranges []netip.Prefix
	for _, text := range wanted {
		p, ok := parseRange(text)
		if !ok {
			return nil, &mistake{e.valueAt, fmt.Sprintf("%q is no address and no range such as 10.2.0.0/16", text)}
		}
		ranges = append(ranges, p)
	}
	within := e.operator == equal || e.operator == in
	return func(n *cluster.Node) bool { return anyWithin(n.Description.Addresses, ranges) == within }, nil
}

func anyWithin(addresses []string, ranges []netip.Prefix) bool {
	for _, text := range addresses {
		p, ok := parseRange(text)
		if !ok {
			continue
		}
		for _, r := range ranges {
			if r.Contains(p.Addr()) {
				return true
			}
		}
	}
	return false
}

// parseRange reads an address, or a range in CIDR notation, keeping the address itself.
func parseRange(text string) (netip.Prefix, bool) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		return p, true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), true
}

// unknownAttribute says what could have been meant.
func (e *expression) unknownAttribute() error {
	known := []string{ipAttribute, labelPrefix + "KEY", attributePrefix + "KEY"}
	for name := range plain {
		known = append(known, name)
	}
	slices.Sort(known)
	if parts := strings.SplitN(e.attribute, ".", 3); len(parts) == 3 {
		known = append(known, labelPrefix+parts[2], attributePrefix+parts[2])
	}
	hint := sdk.Suggest(e.attribute, known)
	switch {
	case e.attribute == labelPrefix || e.attribute == attributePrefix:
		hint = ": want a key after the last dot"
	case hint == "":
		hint = "; known are " + strings.Join(known[:8], ", ")
	}
	return &mistake{e.at, fmt.Sprintf("unknown attribute %q%s", e.attribute, hint)}
}
