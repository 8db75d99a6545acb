package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func asks(expr string) sdk.CompileRequest {
	return sdk.CompileRequest{JobType: "replicated", Settings: sdk.Settings(`{"expr":` + strconv.Quote(expr) + `}`)}
}

func TestWhatExpressionsCanSay(t *testing.T) {
	n := sdktest.Node("n1", "disk=ssd", "zone=eu-1")
	n.Description.Attributes["kernel"] = "6.1.0"
	n.Description.Addresses, n.Description.Drivers = []string{"10.1.0.7"}, []string{"process", "sim"}
	n.Description.Capacity = cluster.Resources{MilliCPU: 7500, Memory: 16 << 30, Units: map[string]int64{"gpu": 2}}
	for expr, want := range map[string]string{ // "": allowed, otherwise the code
		`node.labels.disk == "ssd"`:                             "",
		`node.labels["disk"] == "ssd"`:                          "",
		`node.labels.disk != "ssd"`:                             "constraint",
		`node.labels.zone.startsWith("eu-") && node.cpu >= 7.5`: "",
		`node.labels.zone in ["eu-1", "eu-2"]`:                  "",
		`node.labels.zone.matches("^us-[0-9]$")`:                "constraint",
		`has(node.labels.gpu)`:                                  "constraint",
		`!("gpu" in node.labels)`:                               "",
		`node.labels.gpu == "a100"`:                             "constraint",
		`node.labels.gpu == "a100" || node.units.gpu > 1`:       "",
		`node.memory >= 8 * 1024 * 1024 * 1024`:                 "",
		`node.addresses.exists(a, a.startsWith("10.1."))`:       "",
		`node.drivers.all(d, d != "sim")`:                       "constraint",
		`node.attributes.kernel.split(".")[0] == "6"`:           "",
		`int(node.labels.zone) > 3`:                             "cel.no_answer",
		`node.labels.disk.size() / 0 > 1`:                       "cel.no_answer",
		`dyn(node.labels.disk)`:                                 "cel.no_answer",
		`node.id == "n1" && node.name == "n1" && node.os == "linux" && node.arch == "amd64" && node.hostname == "n1"`: "",
	} {
		h := sdktest.New(t, New())
		h.SetNodes(n)
		a := h.AddClass(asks(expr)).Answer()
		if a.Stall != nil || a.Failure != nil {
			t.Errorf("%s: %v %v", expr, a.Stall, a.Failure)
			continue
		}
		got := a.Verdicts["n1"]
		if got.Code != want || got.Allowed != (want == "") || got.Evicts != (want == "constraint") {
			t.Errorf("%s: got %+v, want %q", expr, got, want)
		}
	}
}

func TestARefusalSaysWhatIsNotMet(t *testing.T) {
	h := sdktest.New(t, New())
	h.SetNodes(sdktest.Node("a", "gpu=1"), sdktest.Node("b"))
	a := h.AddClass(asks("node.labels.gpu ==\n  \"2\"")).Answer()
	want := sdktest.Verdict{Code: "constraint", Detail: `node.labels.gpu == "2"`, Clears: `a node meets node.labels.gpu == "2"`, Evicts: true}
	for _, id := range []cluster.NodeID{"a", "b"} {
		if diff := cmp.Diff(want, a.Verdicts[id]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

func TestRank(t *testing.T) {
	h := sdktest.New(t, New())
	h.SetNodes(sdktest.Node("a", "gen=7"), sdktest.Node("b", "gen=x"), sdktest.Node("c", "gen=1000"), sdktest.Node("d"))
	a := h.AddClass(sdk.CompileRequest{Settings: `{"expr":"true","rank":"int(node.labels.gen) * 10"}`}).Answer()
	for id, want := range map[cluster.NodeID]int{"a": 70, "b": 0, "c": 100, "d": 0} {
		if got := a.Verdicts[id]; !got.Allowed || got.Rank != want {
			t.Errorf("%s: got %+v, want rank %d", id, got, want)
		}
	}
}

func TestCostIsLimited(t *testing.T) {
	many := make([]string, 60)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	list := "[" + strings.Join(many, ",") + "]"
	costly := asks(list + ".all(a, " + list + ".all(b, a + b >= 0))")
	for config, want := range map[string]string{`{}`: "cel.too_costly", `{"max_cost":1000000}`: ""} {
		h := sdktest.NewWith(t, New(), sdktest.Options{Config: config})
		h.SetNodes(sdktest.Node("a"))
		if got := h.AddClass(costly).Answer().Verdicts["a"]; got.Code != want || got.Evicts {
			t.Errorf("%s: got %+v, want %q", config, got, want)
		}
	}
	h := sdktest.New(t, New())
	if d := h.Configure(`{"max_cost":0}`); len(d) != 1 || d[0].Summary != "max_cost is 0; it must be above 0" {
		t.Errorf("max_cost 0: got %v", d)
	}
}

func TestJobsAreCheckedAtSubmit(t *testing.T) {
	h := sdktest.New(t, New())
	for _, test := range []struct {
		settings string
		want     []string
	}{
		{`{"expr":"node.labels.disk == 'ssd'"}`, nil},
		{`{"expr":"node.labels.disk == 1"}`, []string{
			"expr: found no matching overload for '_==_' applied to '(string, int)' | column 18 of node.labels.disk == 1",
		}},
		{`{"expr":"node.lables.disk == 'ssd'"}`, []string{
			`expr: undeclared reference to 'node' (in container ''), did you mean "node.labels"? | column 1 of node.lables.disk == 'ssd'`,
		}},
		{`{"expr":"true &&\n  node.cpu > 'x'"}`, []string{
			"expr: found no matching overload for '_>_' applied to '(double, string)' | line 2, column 12: node.cpu > 'x'",
		}},
		{`{"expr":"node.labels.disk","rank":"2.5"}`, []string{
			"expr: the expression is of type string; want bool | node.labels.disk", "rank: the expression is of type double; want int | 2.5",
		}},
		{`{"expr":" "}`, []string{"expr: the expression is empty | "}},
		{`{"exp":"true"}`, []string{`expr: "expr" is required | What must be true of a node that may run the job.`, `exp: unknown setting "exp", did you mean "expr"? | `}},
	} {
		var got []string
		for _, d := range h.Validate(sdk.CompileRequest{JobType: "replicated", Settings: sdk.Settings(test.settings)}) {
			got = append(got, d.Path[0].GetAttribute()+": "+d.Summary+" | "+d.Detail)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.settings, diff)
		}
	}
	for text, want := range map[string]string{
		"node.labels.a.matches('(')": "invalid matches argument", "a ==": "Syntax error", strings.Repeat("x", maxExpression+1): "size exceeds limit",
	} {
		if d := h.Validate(asks(text)); len(d) == 0 || !strings.Contains(d[0].Summary, want) {
			t.Errorf("%.30s: got %v, want %s", text, d, want)
		}
	}
}

func TestConformance(t *testing.T) {
	sdktest.Conformance(t, New, sdktest.Cases{Config: `{"max_cost":500}`, Classes: []sdk.CompileRequest{
		{},
		asks(`node.labels.disk == "ssd"`),
		asks(`node.labels.zone in ["1", "2"] && node.arch == "amd64"`),
		asks(`int(node.labels.gpu) > 1`),
		asks(`node.addresses.exists(a, a.startsWith("10.1."))`),
		asks(`node.labels.disk = "ssd"`),
		{Settings: `{"expr":"has(node.labels.zone)","rank":"node.labels.zone == '1' ? 50 : -50"}`},
	}})
}

func BenchmarkMatch(b *testing.B) {
	f := &filter{}
	f.maxCost.Store(10_000)
	m, err := f.Compile(b.Context(), asks(`node.labels.disk == "ssd" && node.labels.zone in ["a", "b"]`))
	if err != nil {
		b.Fatal(err)
	}
	n := sdktest.Node("n1", "disk=ssd", "zone=b")
	for b.Loop() {
		if err := m.Match(n); err != nil {
			b.Fatal(err)
		}
	}
}
