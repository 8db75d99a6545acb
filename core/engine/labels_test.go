package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestLabelsOfNodesAreChecked(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	join(e, 1, "n1")
	many := map[string]string{}
	for i := range cluster.MaxLabels + 1 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	full := map[string]string{}
	for i := range cluster.MaxLabels {
		full[fmt.Sprintf("f%d", i)] = "v"
	}
	tests := []struct {
		name string
		set  map[string]string
		want Kind
	}{
		{"no key", map[string]string{"": "x"}, Invalid},
		{"a key with a blank", map[string]string{"a b": "x"}, Invalid},
		{"a value that cannot be printed", map[string]string{"a": "\xff"}, Invalid},
		{"too many at once", many, Invalid},
		{"a value of any language", map[string]string{"a": "значение"}, ""},
		{"as many as there may be, and one", full, Refused},
	}
	for _, tt := range tests {
		out := step(e, 2, command{op: LabelNode{Node: "n1", Set: tt.set}})
		var refusal *OpError
		err := out.Replies[0].err
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &refusal) || refusal.Kind != tt.want) {
			t.Errorf("%s: %v, want kind %q", tt.name, err, tt.want)
		}
	}
	if got := e.View().NodeNamed("n1").Spec.Labels; len(got) != 1 || got["a"] != "значение" {
		t.Errorf("the node's labels are %v, want a alone", got)
	}
}
