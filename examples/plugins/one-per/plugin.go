package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// Settings is what a job says in its plugin "one-per" block.
type Settings struct {
	Attribute string `setpoint:"attribute,required" desc:"What nodes differ by, such as node.labels.rack: there is one task for each value that it has."`
}

// The job types: tasks run until they are told to stop, or end by themselves.
const (
	typeOnePer      = "one-per"
	typeOnePerBatch = "one-per-batch"
)

// New returns the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name: "one-per", Version: "1.0.0", JobTypes: map[string]sdk.JobType{typeOnePer: onePer{}, typeOnePerBatch: onePer{ends: true}},
		Job: sdk.SchemaOf[Settings](), Watches: []sdk.Watch{sdk.WatchLabels, sdk.WatchAttributes, sdk.WatchPlatform},
	}
}

type onePer struct{ ends bool }

// Validate refuses an attribute that no node can have.
func (onePer) Validate(_ context.Context, req sdk.CompileRequest) error {
	_, err := read(req.Settings)
	return err
}

// Slots names a slot for each value of the attribute, limited to the nodes that have it. Where in there its task runs is the core's to decide.
func (o onePer) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	attribute, err := read(req.Job.Settings)
	if err != nil {
		return sdk.SlotsResponse{}, &sdk.Stall{Code: "bad_settings", Message: err.Error(), Clears: "the job says another attribute"}
	}
	nodes := map[string][]cluster.NodeID{}
	for _, n := range req.Nodes {
		if value := attribute.of(n); value != "" && !n.Spec.Decommissioned {
			nodes[value] = append(nodes[value], n.ID)
		}
	}
	if len(nodes) == 0 {
		// Not an answer without slots, by which every task would be unwanted: more likely the attribute is mistyped.
		return sdk.SlotsResponse{}, &sdk.Stall{
			Code: "no_values", Message: "no node has " + attribute.name, Detail: attribute.name, Clears: "a node has " + attribute.name,
		}
	}
	var out sdk.SlotsResponse
	for _, value := range slices.Sorted(maps.Keys(nodes)) {
		// Values are any text and keys are not, so it is written as in the path of a URL.
		out.Slots = append(out.Slots, sdk.Slot{Key: cluster.SlotKey(url.PathEscape(value)), Nodes: nodes[value], Ends: o.ends})
	}
	return out, nil
}

// attribute is something that nodes differ by.
type attribute struct {
	name string
	of   func(n *cluster.Node) string // "": the node has none
}

var plain = map[string]func(n *cluster.Node) string{
	"node.hostname": func(n *cluster.Node) string { return n.Description.Hostname },
	"node.os":       func(n *cluster.Node) string { return n.Description.OS },
	"node.arch":     func(n *cluster.Node) string { return n.Description.Arch },
}

// read returns the attribute that a job names, or sdk.Diagnostics as error.
func read(settings sdk.Settings) (attribute, error) {
	var s Settings
	if err := settings.Decode(&s); err != nil {
		return attribute{}, err
	}
	if s.Attribute == "" {
		return attribute{}, sdk.Diagnostics{{Summary: "no attribute is named", Path: sdk.At("attribute")}}
	}
	if of := plain[s.Attribute]; of != nil {
		return attribute{s.Attribute, of}, nil
	}
	if key, ok := strings.CutPrefix(s.Attribute, "node.labels."); ok && key != "" {
		return attribute{s.Attribute, func(n *cluster.Node) string { return n.Spec.Labels[key] }}, nil
	}
	if key, ok := strings.CutPrefix(s.Attribute, "node.attributes."); ok && key != "" {
		return attribute{s.Attribute, func(n *cluster.Node) string { return n.Description.Attributes[key] }}, nil
	}
	known := slices.Sorted(maps.Keys(plain))
	if parts := strings.SplitN(s.Attribute, ".", 3); len(parts) == 3 && parts[2] != "" {
		known = append(known, "node.labels."+parts[2], "node.attributes."+parts[2])
	}
	return attribute{}, sdk.Diagnostics{{
		Summary: fmt.Sprintf("unknown attribute %q%s", s.Attribute, sdk.Suggest(s.Attribute, known)),
		Detail:  "It is node.labels.KEY, node.attributes.KEY, node.hostname, node.os or node.arch.", Path: sdk.At("attribute"),
	}}
}
