package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

// zoneType has a slot for each zone, which any of its nodes may take, and holds that of a zone named 2.
type zoneType struct{}

func (zoneType) Slots(_ context.Context, req sdk.SlotsRequest) (sdk.SlotsResponse, error) {
	var out sdk.SlotsResponse
	byZone := map[string]*sdk.Slot{}
	for _, n := range req.Nodes {
		zone := n.Spec.Labels["zone"]
		if zone == "" {
			continue
		}
		if byZone[zone] == nil {
			byZone[zone] = &sdk.Slot{Key: cluster.SlotKey("zone-" + zone)}
			if zone == "2" {
				byZone[zone].Held = sdk.NewStall("closed", "zone 2 is closed")
			}
		}
		byZone[zone].Nodes = append(byZone[zone].Nodes, n.ID)
	}
	for _, s := range byZone {
		out.Slots = append(out.Slots, *s)
	}
	if len(req.Nodes) == 0 {
		return out, sdk.NewStall("no_zones", "there are no nodes")
	}
	return out, nil
}

func TestConformance(t *testing.T) {
	plugin := func() sdk.Plugin {
		p := labelPlugin()
		p.JobTypes = map[string]sdk.JobType{"per-zone": zoneType{}}
		return p
	}
	cases := sdktest.Cases{Classes: []sdk.CompileRequest{{}, settings("x", "stall")}, Jobs: []sdk.Job{sdktest.Job("z", "per-zone"), sdktest.Job("y", "per-zone")}}
	for _, label := range []string{"disk", "zone", "gpu"} {
		cases.Classes = append(cases.Classes, settings(label, ""))
	}
	sdktest.Conformance(t, plugin, cases)
}

// TestConformanceWithManyReasons has a plugin whose refusals name the node, which is all that is wrong with it, although its answers come in many parts.
func TestConformanceWithManyReasons(t *testing.T) {
	cases := sdktest.Cases{}
	for i := range 3 {
		cases.Classes = append(cases.Classes, settings([]string{"disk", "zone", fmt.Sprint("none-", i)}[i], ""))
	}
	report, err := sdktest.Check(t.Context(), sdktest.Go(verbosePlugin), cases)
	if err != nil {
		t.Fatal(err)
	}
	if broken := report.Broken(); !slices.Equal(broken, []sdktest.Rule{sdktest.RuleBounded}) {
		t.Errorf("broken rules: %v, want %s only: %v", broken, sdktest.RuleBounded, report.Results)
	}
}
