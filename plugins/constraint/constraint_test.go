package constraint_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/plugins/constraint"
	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

func request(constraints ...string) sdk.CompileRequest {
	var quoted []string
	for _, c := range constraints {
		text, _ := json.Marshal(c)
		quoted = append(quoted, string(text))
	}
	return sdk.CompileRequest{JobType: cluster.TypeReplicated, Settings: sdk.Settings(`{"constraints":[` + strings.Join(quoted, ",") + `]}`)}
}

// machine has a bit of everything.
func machine() *cluster.Node {
	n := sdktest.Node("web-1", "disk=ssd", "zone=eu-1a", "empty", "com.example/rack=r 7", "count=12")
	n.ID = "id-1"
	n.Description.Attributes = map[string]string{"kernel": "5.15.0-91-generic", "docker": "v27.3.1", "cores": "16", "beta": "2.0.0-rc1", "cold": "-5"}
	n.Description.Addresses = []string{"10.2.3.4", "fd00::1", "192.168.1.9/24"}
	return n
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		expr string
		want bool
	}{
		{"node.labels.disk == ssd", true},
		{"node.labels.disk==ssd", true},
		{`  node.labels.disk  ==  "ssd"  `, true},
		{"node.labels.disk == SSD", false},
		{"node.labels.disk != ssd", false},
		{"node.labels.disk != hdd", true},
		{"node.labels.gone != ssd", true},
		{"node.labels.gone == ssd", false},
		{`node.labels.gone == ""`, false},
		{`node.labels.empty == ""`, true},
		{"node.labels.com.example/rack == r 7", true},
		{"node.labels.disk exists", true},
		{"node.labels.gone exists", false},
		{"node.labels.gone not exists", true},
		{"node.labels.disk not  exists", false},
		{"node.labels.zone in (eu-1a, eu-1b)", true},
		{`node.labels.zone in ("eu-1b","eu-1c")`, false},
		{"node.labels.gone in (a)", false},
		{"node.labels.zone not in (eu-1b)", true},
		{"node.labels.zone not in (eu-1a,eu-1b)", false},
		{"node.labels.gone not in (a)", true},
		{"node.labels.zone =~ ^eu-", true},
		{"node.labels.zone =~ us", false},
		{"node.labels.gone =~ .*", false},
		{"node.labels.zone !~ ^us-", true},
		{"node.labels.zone !~ 1a$", false},
		{"node.labels.gone !~ .*", true},
		{"node.labels.count > 9", true},
		{"node.labels.count < 9", false},
		{"node.labels.count >= 12", true},
		{"node.labels.count <= 012", true},
		{"node.labels.disk > 1", false},
		{"node.labels.gone < 1", false},
		{"node.attributes.cores >= 8", true},
		{"node.attributes.cold < 0", true},
		{"node.attributes.cold > -6", true},
		{"node.attributes.kernel >= 5.10", true},
		{"node.attributes.kernel >= 5.15.0", true},
		{"node.attributes.kernel > 5.15.0-90", true},
		{"node.attributes.kernel >= 5.15.0-92", false},
		{"node.attributes.kernel >= 5.9", true},
		{"node.attributes.kernel < 5.16", true},
		{"node.attributes.kernel >= 6", false},
		{"node.attributes.docker >= 27.3", true},
		{"node.attributes.docker < v27.3.10", true},
		{"node.attributes.beta < 2.0.0", true},
		{"node.attributes.beta < 2", true},
		{"node.attributes.beta > 2.0.0-beta9", true},
		{"node.attributes.beta < 2.0.0-rc10", true},
		{"node.id == id-1", true},
		{"node.name == web-1", true},
		{"node.name =~ ^web-", true},
		{"node.hostname == web-1", true},
		{"node.os == linux", true},
		{"node.arch != arm64", true},
		{"node.ip == 10.2.0.0/16", true},
		{"node.ip == 10.2.3.4", true},
		{"node.ip == 10.3.0.0/16", false},
		{"node.ip != 10.3.0.0/16", true},
		{"node.ip != 10.0.0.0/8", false},
		{"node.ip in (172.16.0.0/12, 192.168.1.0/24)", true},
		{"node.ip not in (172.16.0.0/12, fd00::/8)", false},
		{"node.ip exists", true},
	} {
		t.Run(test.expr, func(t *testing.T) {
			m, err := constraint.New().Filter.Compile(t.Context(), request(test.expr))
			if err != nil {
				t.Fatalf("compile: %v", err)
			}
			if got := m.Match(machine()) == nil; got != test.want {
				t.Errorf("matches: %t, want %t", got, test.want)
			}
		})
	}
}

func TestRefusedConstraints(t *testing.T) {
	h := sdktest.New(t, constraint.New())
	for _, test := range []struct{ expr, summary, detail string }{
		{"", "want an attribute such as node.labels.disk", "column 1 of "},
		{"node.lables.disk == ssd", `unknown attribute "node.lables.disk", did you mean "node.labels.disk"?`, "column 1 of node.lables.disk == ssd"},
		{"  node.naem == x", `unknown attribute "node.naem", did you mean "node.name"?`, "column 3 of   node.naem == x"},
		{"node.labels. == x", `unknown attribute "node.labels.": want a key after the last dot`, "column 1 of node.labels. == x"},
		{"node.labels.disk", "want an operator: ==, !=, <, <=, >, >=, =~, !~, in, not in, exists, not exists", "column 17 of node.labels.disk"},
		{"node.labels.disk = ssd", `unknown operator "=", did you mean "=="?`, "column 18 of node.labels.disk = ssd"},
		{"node.labels.disk exist", `unknown operator "exist", did you mean "exists"?`, "column 18 of node.labels.disk exist"},
		{"node.labels.disk ==", `want a value; write "" for an empty one`, "column 20 of node.labels.disk =="},
		{`node.labels.disk == "ssd`, "the quoted value is not closed, or something follows it", `column 21 of node.labels.disk == "ssd`},
		{"node.labels.disk exists yes", `"exists" takes no value`, "column 25 of node.labels.disk exists yes"},
		{"node.labels.disk in ssd", "want a list such as (a, b)", "column 21 of node.labels.disk in ssd"},
		{"node.labels.disk in (a, b", "the list is not closed: want )", "column 26 of node.labels.disk in (a, b"},
		{"node.labels.disk in (a,)", `want a value; write "" for an empty one`, "column 24 of node.labels.disk in (a,)"},
		{"node.labels.disk in (a) b", "something follows the list", "column 25 of node.labels.disk in (a) b"},
		{"node.labels.n > many", `">" compares whole numbers and versions, and "many" is neither`, "column 17 of node.labels.n > many"},
		{
			"node.labels.n =~ (", "the pattern cannot be read: error parsing regexp: missing closing ): `(`",
			"column 18 of node.labels.n =~ (",
		},
		{"node.ip == 10.0.0.0/33", `"10.0.0.0/33" is no address and no range such as 10.2.0.0/16`, "column 12 of node.ip == 10.0.0.0/33"},
		{"node.ip > 10.0.0.0", `">" cannot be asked of node.ip; use ==, !=, in, not in, exists or not exists`, "column 1 of node.ip > 10.0.0.0"},
	} {
		t.Run(test.expr, func(t *testing.T) {
			d := h.Validate(request("node.os == linux", test.expr))
			if len(d) != 1 {
				t.Fatalf("got %d diagnostics, want 1: %v", len(d), d)
			}
			if d[0].Summary != test.summary || d[0].Detail != test.detail {
				t.Errorf("got %q, %q\nwant %q, %q", d[0].Summary, d[0].Detail, test.summary, test.detail)
			}
			if len(d[0].Path) != 2 || d[0].Path[0].GetAttribute() != "constraints" || d[0].Path[1].GetIndex() != 1 {
				t.Errorf("path %v, want constraints[1]", d[0].Path)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	h := sdktest.New(t, constraint.New())
	h.SetNodes(sdktest.Node("a", "disk=ssd", "zone=1"), sdktest.Node("b", "disk=ssd"), sdktest.Node("c"))
	got := h.AddClass(request("node.labels.disk == ssd", "node.labels.zone exists")).Answer().Verdicts
	want := map[cluster.NodeID]sdktest.Verdict{
		"a": {Allowed: true},
		"b": {Code: "constraint", Detail: "node.labels.zone exists", Clears: "a node meets node.labels.zone exists", Evicts: true},
		"c": {Code: "constraint", Detail: "node.labels.disk == ssd", Clears: "a node meets node.labels.disk == ssd", Evicts: true},
	}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("%s: got %+v, want %+v", id, got[id], w)
		}
	}
	if !h.AddClass(sdk.CompileRequest{}).Answer().Indifferent || !h.AddClass(request()).Answer().Indifferent {
		t.Error("a job without constraints is of interest, want indifference")
	}
	s := h.AddClass(request("node.labels.disk = ssd")).Answer().Stall
	if s.GetCode() != "constraint" || s.GetMessage() != `unknown operator "=", did you mean "=="?` {
		t.Errorf("stall %v, want what is wrong with the constraint", s)
	}
}

func TestAffinity(t *testing.T) {
	h := sdktest.New(t, constraint.New())
	h.SetNodes(sdktest.Node("a", "disk=ssd", "zone=1"), sdktest.Node("b", "zone=1"), sdktest.Node("c"))
	c := h.AddClass(sdk.CompileRequest{Settings: `{"affinity":[{"expr":"node.labels.disk == ssd"},{"expr":"node.labels.zone == 1","weight":-70}]}`})
	got := c.Answer().Verdicts
	for id, want := range map[cluster.NodeID]int{"a": -20, "b": -70, "c": 0} {
		if !got[id].Allowed || got[id].Rank != want {
			t.Errorf("%s: got %+v, want rank %d", id, got[id], want)
		}
	}
	d := h.Validate(sdk.CompileRequest{Settings: `{"affinity":[{"expr":"node.os == linux","weight":101}]}`})
	if len(d) != 1 || d[0].Summary != "weight 101 is not within -100 and 100" {
		t.Errorf("diagnostics %v, want a weight out of bounds", d)
	}
	d = h.Validate(sdk.CompileRequest{Settings: `{"constraint":["node.os == linux"]}`})
	if len(d) != 1 || d[0].Summary != `unknown setting "constraint", did you mean "constraints"?` {
		t.Errorf("diagnostics %v, want a hint at constraints", d)
	}
}

func TestLabelEditFlipsTheNode(t *testing.T) {
	h := sdktest.New(t, constraint.New())
	h.SetNodes(sdktest.Node("a", "disk=ssd"), sdktest.Node("b", "disk=ssd"))
	c := h.AddClass(request("node.labels.disk == ssd"))
	h.UpdateNode(sdktest.Node("a", "disk=hdd"))
	if got, want := c.Answer().Allowed(), []cluster.NodeID{"b"}; !slices.Equal(got, want) {
		t.Errorf("allowed %v, want %v", got, want)
	}
}
