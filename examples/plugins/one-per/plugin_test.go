package main

import (
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func job(jobType, attribute string) sdk.Job {
	j := sdktest.Job("log", jobType)
	j.Settings = sdk.Settings(`{"attribute":"` + attribute + `"}`)
	return j
}

func slot(key cluster.SlotKey, nodes ...cluster.NodeID) sdktest.Slot {
	return sdktest.Slot{Key: key, Nodes: nodes}
}

func check(t *testing.T, what string, got sdktest.Slots, want ...sdktest.Slot) {
	t.Helper()
	if got.Stall != nil || got.Failure != nil {
		t.Errorf("%s: %v %v", what, got.Stall, got.Failure)
	}
	if diff := cmp.Diff(want, got.Slots); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOneSlotForEachValue(t *testing.T) {
	h := sdktest.New(t, New())
	gone := sdktest.Node("g", "rack=r9")
	gone.Spec.Decommissioned = true
	h.SetNodes(sdktest.Node("a", "rack=r1"), sdktest.Node("b", "rack=r2"), sdktest.Node("c", "rack=r1"), sdktest.Node("d"), sdktest.Node("e", "rack="), gone)
	check(t, "at first", h.AddJob(job("one-per", "node.labels.rack")), slot("r1", "a", "c"), slot("r2", "b"))

	h.UpdateNode(sdktest.Node("c", "rack=upstairs 3/4"))
	check(t, "after c moved", h.Slots("log"), slot("r1", "a"), slot("r2", "b"), slot("upstairs%203%2F4", "c"))
	h.RemoveNode("b")
	check(t, "after b left", h.Slots("log"), slot("r1", "a"), slot("upstairs%203%2F4", "c"))
}

func TestBatchesEnd(t *testing.T) {
	h := sdktest.New(t, New())
	h.SetNodes(sdktest.Node("a"))
	check(t, "batch", h.AddJob(job("one-per-batch", "node.arch")), sdktest.Slot{Key: "amd64", Nodes: []cluster.NodeID{"a"}, Ends: true})
}

func TestAttributes(t *testing.T) {
	h := sdktest.New(t, New())
	n := sdktest.Node("a", "zone=z")
	n.Description.Attributes["cpu.model"] = "x"
	h.SetNodes(n)
	for attribute, want := range map[string]cluster.SlotKey{
		"node.labels.zone": "z", "node.attributes.cpu.model": "x", "node.hostname": "a", "node.os": "linux", "node.arch": "amd64",
	} {
		check(t, attribute, h.AddJob(job("one-per", attribute)), slot(want, "a"))
	}
}

func TestAnAttributeThatNoNodeHasHoldsTheJob(t *testing.T) {
	h := sdktest.New(t, New())
	h.SetNodes(sdktest.Node("a", "rack=r1"))
	h.AddJob(job("one-per", "node.labels.rack"))
	h.UpdateNode(sdktest.Node("a"))
	got := h.Slots("log")
	if got.Stall.GetCode() != "one-per.no_values" || got.Stall.GetClears() != "a node has node.labels.rack" {
		t.Errorf("got %v, want the job held", got.Stall)
	}
	if diff := cmp.Diff([]sdktest.Slot{slot("r1", "a")}, got.Slots); diff != "" {
		t.Errorf("its slots changed (-want +got):\n%s", diff)
	}
}

func TestJobsAreCheckedAtSubmit(t *testing.T) {
	h := sdktest.New(t, New())
	for settings, want := range map[sdk.Settings]string{
		`{"attribute":"node.labels.rack"}`:  "",
		`{"attribute":"node.lables.rack"}`:  `unknown attribute "node.lables.rack", did you mean "node.labels.rack"?`,
		`{"attribute":"rack"}`:              `unknown attribute "rack"`,
		`{"attribute":"node.labels."}`:      `unknown attribute "node.labels."`,
		`{"attribute":""}`:                  "no attribute is named",
		`{}`:                                `"attribute" is required`,
		`{"atribute":"node.os","extra":""}`: `"attribute" is required`,
	} {
		got := h.Validate(sdk.CompileRequest{JobType: "one-per", Settings: settings})
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) == 0 || got[0].Summary != want || got[0].Path[0].GetAttribute() != "attribute" {
			t.Errorf("%s: got %v, want %s", settings, got, want)
		}
	}
}

var _ = flag.Bool("update", false, "rewrite golden files")

func TestGolden(t *testing.T) { sdktest.Golden(t, New, "testdata/*.txtar") }

func TestConformance(t *testing.T) {
	named := func(name, jobType, attribute string) sdk.Job {
		j := job(jobType, attribute)
		j.Name = name
		return j
	}
	sdktest.Conformance(t, New, sdktest.Cases{Jobs: []sdk.Job{
		named("by-zone", "one-per", "node.labels.zone"), named("by-kernel", "one-per", "node.attributes.kernel"), named("by-arch", "one-per-batch", "node.arch"),
		named("by-nothing", "one-per", "node.labels.nobody-has-it"), sdktest.Job("silent", "one-per"),
	}})
}
