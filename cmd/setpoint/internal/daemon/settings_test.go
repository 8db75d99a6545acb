package daemon

import (
	"fmt"
	"testing"

	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

func TestPathSteps(t *testing.T) {
	for path, want := range map[string]string{
		"": "", ".a": "a;", ".zones[1]": "zones;#1;", `.limits["gpu.x]"].rule[0].weight`: "limits;@gpu.x];rule;#0;weight;", "[3]": "#3;",
		".a[": "a;", ".a[x]": "a;", ".": "", ".a..b": "a;",
	} {
		got := ""
		for _, s := range pathSteps(path) {
			switch x := s.GetStep().(type) {
			case *pluginv1.PathStep_Attribute:
				got += x.Attribute + ";"
			case *pluginv1.PathStep_Key:
				got += "@" + x.Key + ";"
			case *pluginv1.PathStep_Index:
				got += fmt.Sprintf("#%d;", x.Index)
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestCheckSettings(t *testing.T) {
	schema := &pluginv1.Schema{Attributes: []*pluginv1.Attribute{{Name: "model", Type: "string", Required: true}}}
	if found := checkSettings(schema, `{"model":"a100"}`); len(found) != 0 {
		t.Errorf("good settings: %v", found)
	}
	found := checkSettings(schema, `{"model":[1]}`)
	if len(found) != 1 || len(found[0].Path) != 1 || found[0].Path[0].GetAttribute() != "model" || found[0].Warning {
		t.Errorf("got %v", found)
	}
}
