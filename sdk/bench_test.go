package sdk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// benchNodes are like those of a large cluster: ten labels each.
func benchNodes(n int) []*cluster.Node {
	return sdktest.Nodes(n, func(i int, node *cluster.Node) {
		for k := range 10 {
			node.Spec.Labels[fmt.Sprintf("example.com/key-%d", k)] = fmt.Sprintf("value-%d", i%(k+2))
		}
	})
}

// keyFilter wants one label to have one value, as most constraints do.
type keyFilter struct{}

type keySettings struct {
	Key   string `setpoint:"key"`
	Value string `setpoint:"value"`
}

type keyMatcher struct {
	keySettings
	refusal *sdk.Stall
}

func (keyFilter) Compile(_ context.Context, req sdk.CompileRequest) (sdk.Matcher, error) {
	m := &keyMatcher{refusal: &sdk.Stall{Code: cluster.CodeConstraint, Detail: string(req.Settings)}}
	return m, req.Settings.Decode(&m.keySettings)
}

func (m *keyMatcher) Match(n *cluster.Node) error {
	if n.Spec.Labels[m.Key] != m.Value {
		return m.refusal
	}
	return nil
}

func keyPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "key", Version: "1.0.0", Filter: keyFilter{}, Job: sdk.SchemaOf[keySettings](), Watches: []sdk.Watch{sdk.WatchLabels},
	}
}

func keyClass(i int) sdk.CompileRequest {
	return sdk.CompileRequest{
		Labels:   map[string]string{"i": fmt.Sprint(i)},
		Settings: sdk.Settings(fmt.Sprintf(`{"key":"example.com/key-%d","value":"value-%d"}`, i%10, i%7)),
	}
}

// BenchmarkFirstVerdicts is 100 new classes on 10,000 nodes, until the last answer has arrived.
func BenchmarkFirstVerdicts(b *testing.B) {
	h := sdktest.New(b, keyPlugin())
	h.SetNodes(benchNodes(10_000)...)
	h.AddClass(keyClass(0))
	for b.Loop() {
		classes := make([]*sdktest.Class, 100)
		for i := range classes {
			classes[i] = h.RegisterClass(keyClass(i))
		}
		h.Settle()
		for _, c := range classes {
			c.Remove()
		}
	}
}

// BenchmarkLabelChange is one changed label with 1,000 classes, until the plugin says that it was applied.
func BenchmarkLabelChange(b *testing.B) {
	h := sdktest.New(b, keyPlugin())
	h.SetNodes(benchNodes(10_000)...)
	for i := range 1000 {
		h.RegisterClass(keyClass(i))
	}
	h.Settle()
	nodes := append(benchNodes(1), benchNodes(1)...)
	nodes[1].Spec.Labels["example.com/key-0"] = "value-3"
	for i := 0; b.Loop(); i++ {
		h.UpdateNode(nodes[i%2])
	}
}

// BenchmarkSnapshot is 10,000 nodes from scratch, with no class.
func BenchmarkSnapshot(b *testing.B) {
	h := sdktest.New(b, keyPlugin())
	nodes := benchNodes(10_000)
	for b.Loop() {
		h.SetNodes(nodes...)
	}
}
