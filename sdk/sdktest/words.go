package sdktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// words are what nodes are made of, so that what classes ask for is met by some.
type words struct{ keys, values []string }

var word = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9_.-]*`)

// wordsOf collects the words of what the plugin is asked about and of its defaults, besides a few that most plugins know.
func wordsOf(c Cases, about *pluginv1.DescribeResponse) *words {
	w := &words{keys: []string{"disk", "zone", "gpu"}, values: []string{"1", "2", "ssd"}}
	found := map[string]bool{}
	add := func(text string) {
		for _, x := range word.FindAllString(text, -1) {
			if i := strings.LastIndexByte(x, '.'); i >= 0 && i < len(x)-1 && !isNumber(x) {
				found[x[i+1:]] = true // node.labels.disk names disk
			}
			found[x] = true
		}
	}
	settings := func(s sdk.Settings, labels map[string]string) {
		var v any
		if json.Unmarshal([]byte(s), &v) == nil {
			eachString(v, add)
		}
		for k, x := range labels {
			add(k)
			add(x)
		}
	}
	for _, req := range c.Classes {
		settings(req.Settings, req.Labels)
	}
	for i := range c.Jobs {
		settings(c.Jobs[i].Settings, c.Jobs[i].Labels)
	}
	settings(sdk.Settings(c.Config), nil)
	for _, schema := range []*pluginv1.Schema{about.GetConfig(), about.GetJob()} {
		for _, a := range schema.GetAttributes() {
			settings(sdk.Settings(a.DefaultJson), nil)
			add(a.Name)
		}
	}
	const most = 24
	for _, x := range slices.Sorted(maps.Keys(found)) {
		if cluster.ValidateLabelKey(x) == nil && !slices.Contains(w.keys, x) && len(w.keys) < most && !isNumber(x) {
			w.keys = append(w.keys, x)
		}
		if cluster.ValidateLabelValue(x) == nil && !slices.Contains(w.values, x) && len(w.values) < most {
			w.values = append(w.values, x)
		}
	}
	return w
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789.") == "" }

// eachString calls f for every string in decoded JSON, except names of attributes.
func eachString(v any, f func(string)) {
	switch x := v.(type) {
	case string:
		f(x)
	case float64:
		f(fmt.Sprint(x))
	case []any:
		for _, y := range x {
			eachString(y, f)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			eachString(x[k], f)
		}
	}
}

// node draws a node out of the words. It has few of them, and often the same, so that changes repeat what was before.
func (w *words) node(r *rand.Rand, id cluster.NodeID) *cluster.Node {
	n := DrawNode(r, id)
	for range r.IntN(3 + len(w.keys)/3) {
		n.Spec.Labels[pick(r, w.keys)] = pick(r, w.values)
	}
	for range r.IntN(3) {
		n.Description.Attributes[pick(r, w.keys)] = pick(r, w.values)
	}
	return n
}

// seen returns a node as a plugin sees it that watches some fields, so that nothing else is drawn, compared or shown.
func seen(n *cluster.Node, watches []string) *cluster.Node {
	watched := func(w sdk.Watch) bool { return slices.Contains(watches, string(w)) }
	out := &cluster.Node{ID: n.ID, Spec: cluster.NodeSpec{Name: n.Spec.Name, Decommissioned: n.Spec.Decommissioned}}
	if watched(sdk.WatchLabels) {
		out.Spec.Labels = n.Spec.Labels
	}
	d := n.Description
	if watched(sdk.WatchAttributes) {
		out.Description.Attributes = d.Attributes
	}
	if watched(sdk.WatchCapacity) {
		out.Description.Capacity = d.Capacity
	}
	if watched(sdk.WatchPlatform) {
		d.Attributes, d.Capacity = out.Description.Attributes, out.Description.Capacity
		out.Description = d
	}
	if watched(sdk.WatchAvailability) {
		out.Spec.Availability = n.Spec.Availability
	}
	if watched(sdk.WatchState) {
		out.Status.State = n.Status.State
	}
	return out
}

func pick[E any](r *rand.Rand, of []E) E { return of[r.IntN(len(of))] }

// DrawNode draws a node with a few labels, attributes and addresses out of few values, so that changes often repeat one.
func DrawNode(r *rand.Rand, id cluster.NodeID) *cluster.Node {
	n := Node(string(id))
	for _, key := range []string{"disk", "zone", "gpu"} {
		if v := pick(r, []string{"", "1", "2", "ssd"}); v != "" {
			n.Spec.Labels[key] = v
		}
	}
	n.Description.Attributes["kernel"] = pick(r, []string{"5.9.0", "5.10.1-generic", "6.1.0-rc2"})
	n.Description.Addresses = []string{pick(r, []string{"10.1.0.1", "10.2.0.1"})}
	n.Description.Arch = pick(r, []string{"amd64", "arm64"})
	n.Description.Drivers = []string{"exec", "docker"}[:1+r.IntN(2)]
	n.Description.Capacity.MilliCPU = pick(r, []int64{1000, 4000, 16000})
	n.Spec.Availability = pick(r, []cluster.Availability{cluster.Active, cluster.Pause, cluster.Drain})
	n.Spec.Decommissioned = r.IntN(10) == 0
	return n
}

// suggestClasses makes classes of what a schema says a job may say.
func suggestClasses(schema *pluginv1.Schema) []sdk.CompileRequest {
	out := []sdk.CompileRequest{{JobType: cluster.TypeReplicated}}
	for i, text := range suggestSettings(schema) {
		req := sdk.CompileRequest{JobType: cluster.TypeReplicated, Settings: sdk.Settings(text)}
		if i%2 == 1 {
			req.Labels = map[string]string{"zone": "1"}
		}
		out = append(out, req)
	}
	return out
}

// suggestSettings makes settings out of a schema: with what is required only, and with every attribute, in a few ways.
func suggestSettings(schema *pluginv1.Schema) []string {
	var out []string
	for i := range 4 {
		for _, all := range []bool{false, true} {
			text, err := json.Marshal(suggestBlock(schema, i, all))
			if err == nil && !slices.Contains(out, string(text)) {
				out = append(out, string(text))
			}
		}
	}
	return out
}

func suggestBlock(schema *pluginv1.Schema, way int, all bool) map[string]any {
	out := map[string]any{}
	for _, a := range schema.GetAttributes() {
		if a.Required || all {
			out[a.Name] = suggestValue(a.Type, a.DefaultJson, way)
		}
	}
	for _, b := range schema.GetBlocks() {
		if !all {
			continue
		}
		inner := suggestBlock(b.Block, way, all)
		if out[b.Name] = inner; b.Repeated {
			out[b.Name] = []any{inner}
		}
	}
	return out
}

func suggestValue(typ, fallback string, way int) any {
	var v any
	if way > 0 && fallback != "" && json.Unmarshal([]byte(fallback), &v) == nil {
		return v
	}
	kind, of, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(typ), ")"), "(")
	switch kind {
	case "number":
		return way
	case "bool":
		return way%2 == 0
	case "list", "set":
		return []any{suggestValue(of, "", way)}
	case "map":
		return map[string]any{"disk": suggestValue(of, "", way)}
	}
	return []string{"disk", "zone", "ssd", "1"}[way%4]
}
