package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// topology is the schema of a plugin that has one of everything.
func topology() *pluginv1.Schema {
	return &pluginv1.Schema{
		Attributes: []*pluginv1.Attribute{
			{Name: "endpoint", Type: "string", Required: true},
			{Name: "zones", Type: "list(string)"},
			{Name: "weights", Type: "map(number)", DefaultJson: `{"a": 1}`},
			{Name: "strict", Type: "bool", DefaultJson: "false"},
			{Name: "cost", Type: "number"},
			{Name: "anything", Type: "any"},
			{Name: "shape", Type: "object({width = number, tags = list(string)})"},
			{Name: "key", Type: "string", Required: true, Sensitive: true, DefaultJson: `"k"`},
		},
		Blocks: []*pluginv1.NestedBlock{
			{Name: "cache", Block: &pluginv1.Schema{Attributes: []*pluginv1.Attribute{{Name: "size", Type: "number", Required: true}}}},
			{Name: "rule", Repeated: true, Block: &pluginv1.Schema{
				Attributes: []*pluginv1.Attribute{{Name: "expr", Type: "string", Required: true}, {Name: "tags", Type: "list(string)"}},
				Blocks:     []*pluginv1.NestedBlock{{Name: "limit", Repeated: true, Block: &pluginv1.Schema{Attributes: []*pluginv1.Attribute{{Name: "n", Type: "number"}}}}},
			}},
		},
	}
}

const topologyConfig = `plugin "topology" {
  path = "/bin/topology"
  config {
    endpoint = "https://topology"
    zones    = ["eu-1a", "mars-1"]
    weights  = { a = 2, b = 0.5 }
    cost     = 10
    anything = [1, { x = null }]
    shape    = { width = 3, tags = ["t"] }
    cache {
      size = 5
    }
    rule {
      expr = "a < b"
      tags = ["x", "y"]
      limit {
        n = 1
      }
      limit {
        n = 2
      }
    }
    rule {
      expr = "c"
    }
  }
}
`

func pluginConfig(t *testing.T, text string) (*Config, hcl.Body) {
	t.Helper()
	c := mustLoad(t, writeFile(t, "a.hcl", text))
	return c, c.Plugin("topology").Config
}

func TestDecodePluginConfig(t *testing.T) {
	c, body := pluginConfig(t, topologyConfig)
	got, diags := DecodePluginConfig(body, topology())
	if len(diags) > 0 {
		t.Fatal(written(t, c, diags))
	}
	want := `{"anything":[1,{}],"cache":{"size":5},"cost":10,"endpoint":"https://topology","key":"k",` +
		`"rule":[{"expr":"a < b","limit":[{"n":1},{"n":2}],"tags":["x","y"]},{"expr":"c","limit":[]}],"shape":{"tags":["t"],"width":3},` +
		`"strict":false,"weights":{"a":2,"b":0.5},"zones":["eu-1a","mars-1"]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodePluginConfigInJSON(t *testing.T) {
	_, body := pluginConfig(t, `{"plugin": {"topology": {"path": "/bin/topology", "config": {
		"endpoint": "e", "zones": ["z"], "cache": {"size": "5"}, "rule": [{"expr": "a"}, {"expr": "b"}]
	}}}}`)
	got, diags := DecodePluginConfig(body, topology())
	want := `{"cache":{"size":5},"endpoint":"e","key":"k","rule":[{"expr":"a","limit":[]},{"expr":"b","limit":[]}],"strict":false,"weights":{"a":1},"zones":["z"]}`
	if got != want || len(diags) > 0 {
		t.Errorf("got  %s, %v\nwant %s", got, diags, want)
	}
	at := LocateDiagnostic(body, topology(), []*pluginv1.PathStep{attr("rule"), index(1), attr("expr")})
	if at.Start.Line != 2 || !strings.HasSuffix(at.Filename, "a.hcl") {
		t.Errorf("located at %s", at)
	}
}

func TestDecodePluginConfigRefuses(t *testing.T) {
	c, body := pluginConfig(t, `plugin "topology" {
  path = "/bin/topology"
  config {
    endpont = "e"
    zones   = "eu-1a"
    weights = { a = "heavy" }
    shape   = { width = 1 }
    cache {}
    cache {
      size = 1
    }
    rule {
      tags = [["x"]]
    }
  }
}
`)
	text, diags := DecodePluginConfig(body, topology())
	if want := `{"cache":{},"key":"k","strict":false}`; text != want {
		t.Errorf("of what is right it read %s, want %s", text, want)
	}
	var got []string
	for _, d := range diags {
		got = append(got, strings.TrimSpace(string(d.Subject.SliceBytes(c.files[d.Subject.Filename].Bytes)))+": "+d.Summary+": "+d.Detail)
	}
	for _, want := range []string{
		`endpont: Unsupported argument: An argument named "endpont" is not expected here. Did you mean "endpoint"?`,
		`Missing required argument: The argument "endpoint" is required`,
		`list of string required`,
		`{ a = "heavy" }: Incorrect attribute value type: Inappropriate value for attribute "weights": a number is required`,
		`attribute "tags" is required`,
		`Duplicate cache block`,
		`The argument "size" is required`,
		`The argument "expr" is required`,
		`element 0: string required`,
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("nobody says %q", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestPluginWithoutConfig(t *testing.T) {
	c, body := pluginConfig(t, `plugin "topology" { path = "/bin/topology" }`)
	if got, diags := DecodePluginConfig(body, nil); got != "{}" || len(diags) > 0 {
		t.Errorf("got %s, %v, want {}", got, diags)
	}
	_, diags := DecodePluginConfig(body, topology())
	if got := written(t, c, diags); !strings.Contains(got, `a.hcl line 1, in plugin "topology"`) || !strings.Contains(got, `"endpoint" is required`) {
		t.Errorf("a missing block is not pointed at:\n%s", got)
	}
	if got, diags := DecodePluginConfig(Default().Plugin("drain").Config, nil); got != "{}" || len(diags) > 0 {
		t.Errorf("a plugin that is not named: got %s, %v, want {}", got, diags)
	}
}

func attr(name string) *pluginv1.PathStep {
	return &pluginv1.PathStep{Step: &pluginv1.PathStep_Attribute{Attribute: name}}
}

func key(k string) *pluginv1.PathStep {
	return &pluginv1.PathStep{Step: &pluginv1.PathStep_Key{Key: k}}
}

func index(i int64) *pluginv1.PathStep {
	return &pluginv1.PathStep{Step: &pluginv1.PathStep_Index{Index: i}}
}

func TestLocateDiagnostic(t *testing.T) {
	c, body := pluginConfig(t, topologyConfig)
	for _, test := range []struct {
		path []*pluginv1.PathStep
		text string // what it points at, and as what the path is written
		as   string
	}{
		{[]*pluginv1.PathStep{attr("endpoint")}, `"https://topology"`, "endpoint"},
		{[]*pluginv1.PathStep{attr("zones"), index(1)}, `"mars-1"`, "zones[1]"},
		{[]*pluginv1.PathStep{attr("zones"), index(9)}, `["eu-1a", "mars-1"]`, "zones[9]"},
		{[]*pluginv1.PathStep{attr("weights"), key("b")}, `0.5`, `weights["b"]`},
		{[]*pluginv1.PathStep{attr("shape"), attr("tags"), index(0)}, `"t"`, "shape.tags[0]"},
		{[]*pluginv1.PathStep{attr("cache")}, `cache`, "cache"},
		{[]*pluginv1.PathStep{attr("cache"), attr("size")}, `5`, "cache.size"},
		{[]*pluginv1.PathStep{attr("rule"), index(0), attr("tags"), index(1)}, `"y"`, "rule[0].tags[1]"},
		{[]*pluginv1.PathStep{attr("rule"), index(0), attr("limit"), index(1), attr("n")}, `2`, "rule[0].limit[1].n"},
		{[]*pluginv1.PathStep{attr("rule"), index(1), attr("expr")}, `"c"`, "rule[1].expr"},
		{[]*pluginv1.PathStep{attr("rule"), index(1), attr("tags")}, `rule`, "rule[1].tags"},
		{nil, "", ""},
		{[]*pluginv1.PathStep{attr("nothing"), nil, {}}, "", "nothing"},
	} {
		at := LocateDiagnostic(body, topology(), test.path)
		if got := string(at.SliceBytes(c.files[at.Filename].Bytes)); got != test.text {
			t.Errorf("%s: points at %q, want %q", test.as, got, test.text)
		}
		if got := PathString(test.path); got != test.as {
			t.Errorf("written as %s, want %s", got, test.as)
		}
	}
}

func TestPluginDiagnostics(t *testing.T) {
	c, body := pluginConfig(t, topologyConfig)
	got := written(t, c, PluginDiagnostics("topology", body, topology(), []*pluginv1.Diagnostic{
		{Summary: "Slow\nrule", Path: []*pluginv1.PathStep{attr("rule"), index(1)}, Warning: true},
		{Summary: "Unknown zone", Detail: `Zone "mars-1" is not known to the topology service.`, Path: []*pluginv1.PathStep{attr("zones"), index(1)}},
		{},
	}))
	dir, _, _ := strings.Cut(strings.SplitAfter(got, "on ")[1], "a.hcl")
	want := `Error: Invalid setting

  on a.hcl line 3, in plugin "topology":
   3:   config {

(reported by plugin "topology")

Error: Unknown zone

  on a.hcl line 5, in plugin "topology":
   5:     zones    = ["eu-1a", "mars-1"]

Zone "mars-1" is not known to the topology service. (reported by plugin "topology")

Warning: Slow rule

  on a.hcl line 23, in plugin "topology":
  23:     rule {

(reported by plugin "topology")

`
	if diff := cmp.Diff(want, strings.ReplaceAll(got, dir, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCheckSettings(t *testing.T) {
	got, problems := CheckSettings("topology", `{
		"rule": {"expr": "a", "limit": {"n": "3"}}, "endpoint": 7, "zones": ["a", true], "cache": [{"size": 1}], "strict": null, "anything": {"x": [1, "y", null]}
	}`, topology())
	want := `{"anything":{"x":[1,"y",null]},"cache":{"size":1},"endpoint":"7","rule":[{"expr":"a","limit":[{"n":3}]}],"zones":["a","true"]}`
	if got != want || problems != nil {
		t.Errorf("got  %s, %v\nwant %s", got, problems, want)
	}
	if got, problems := CheckSettings("drain", " {} ", nil); got != "{}" || problems != nil {
		t.Errorf("got %s, %v, want {}", got, problems)
	}
}

func TestCheckSettingsRefuses(t *testing.T) {
	for _, c := range []struct {
		json string
		want []string
	}{
		{`[]`, []string{`plugin["topology"]: Not a block. It must be a block, or a JSON object.`}},
		{`{`, []string{`plugin["topology"]: Not a block. It must be a block, or a JSON object.`}},
		{`{}`, []string{`plugin["topology"]: Missing setting. The attribute "endpoint" is required.`}},
		{`{"endpoint": null}`, []string{`plugin["topology"]: Missing setting. The attribute "endpoint" is required.`}},
		{
			`{"endpont": "e", "a b": 1}`, []string{
				`plugin["topology"]["a b"]: Unknown setting. The plugin has no setting "a b".`,
				`plugin["topology"].endpont: Unknown setting. The plugin has no setting "endpont". Did you mean "endpoint"?`,
				`plugin["topology"]: Missing setting. The attribute "endpoint" is required.`,
			},
		},
		{
			`{"endpoint": [], "zones": ["a", ["b"]], "weights": {"a": 1, "b": "x"}, "shape": {"width": "w", "tags": []}, "cost": 1e600000000}`, []string{
				`plugin["topology"].cost: Wrong type of value. The number is too large, or has too many digits.`,
				`plugin["topology"].endpoint: Wrong type of value. String required, but have tuple.`,
				`plugin["topology"].shape["width"]: Wrong type of value. A number is required.`,
				`plugin["topology"].weights["b"]: Wrong type of value. A number is required.`,
				`plugin["topology"].zones: Wrong type of value. Element 1: string required, but have tuple.`,
			},
		},
		{
			`{"endpoint": "e", "cache": [{"size": 1}, {"size": 2}], "rule": [{"expr": "a"}, {"exp": "b"}, 3]}`, []string{
				`plugin["topology"].cache: Not a block. It must be a block, or a JSON object.`,
				`plugin["topology"].rule[1].exp: Unknown setting. The plugin has no setting "exp". Did you mean "expr"?`,
				`plugin["topology"].rule[1]: Missing setting. The attribute "expr" is required.`,
				`plugin["topology"].rule[2]: Not a block. It must be a block, or a JSON object.`,
			},
		},
	} {
		text, problems := CheckSettings("topology", c.json, topology())
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" || text != "" {
			t.Errorf("%s: %q (-want +got):\n%s", c.json, text, diff)
		}
	}
	_, problems := CheckSettings("drain", `{"a": 1}`, nil)
	want := []cluster.Problem{{Path: `plugin["drain"]`, Summary: "Plugin without settings", Detail: `Jobs cannot say anything to the plugin "drain".`}}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPluginProblems(t *testing.T) {
	got := PluginProblems("constraint", []*pluginv1.Diagnostic{
		{Summary: "Unknown attribute", Detail: "There is no node.lables.", Path: []*pluginv1.PathStep{attr("constraints"), index(1)}},
		{Summary: "Only a warning", Warning: true},
		{Summary: "Odd", Path: []*pluginv1.PathStep{key("a b")}},
		{},
	})
	const by = `(reported by plugin "constraint")`
	want := []cluster.Problem{
		{Path: `plugin["constraint"].constraints[1]`, Summary: "Unknown attribute", Detail: "There is no node.lables. " + by},
		{Path: `plugin["constraint"]["a b"]`, Summary: "Odd", Detail: by},
		{Path: `plugin["constraint"]`, Summary: "Invalid setting", Detail: by},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCheckSchema(t *testing.T) {
	if err := CheckSchema(topology()); err != nil {
		t.Error(err)
	}
	deep := &pluginv1.Schema{}
	for range 20 {
		deep = &pluginv1.Schema{Blocks: []*pluginv1.NestedBlock{{Name: "b", Block: deep}}}
	}
	one := func(a *pluginv1.Attribute) *pluginv1.Schema {
		return &pluginv1.Schema{Attributes: []*pluginv1.Attribute{a}}
	}
	for want, s := range map[string]*pluginv1.Schema{
		"nested more than 16 deep":           deep,
		`there is no type "strng"`:           one(&pluginv1.Attribute{Name: "a", Type: "strng"}),
		`there is no type ""`:                one(&pluginv1.Attribute{Name: "a"}),
		`there is no type "list("`:           one(&pluginv1.Attribute{Name: "a", Type: "list("}),
		"its type has 1001 characters":       one(&pluginv1.Attribute{Name: "a", Type: strings.Repeat("a", 1001)}),
		`"a b" cannot be the name`:           one(&pluginv1.Attribute{Name: "a b", Type: "string"}),
		`"" cannot be the name`:              {Blocks: []*pluginv1.NestedBlock{{}}},
		`"a" is described twice`:             {Attributes: []*pluginv1.Attribute{{Name: "a", Type: "string"}}, Blocks: []*pluginv1.NestedBlock{{Name: "a"}}},
		`attribute "a": its default: a num`:  one(&pluginv1.Attribute{Name: "a", Type: "number", DefaultJson: `"x"`}),
		`block "b": attribute "c": there is`: {Blocks: []*pluginv1.NestedBlock{{Name: "b", Block: one(&pluginv1.Attribute{Name: "c", Type: "x"})}}},
	} {
		if err := CheckSchema(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	_, diags := DecodePluginConfig(Default().Plugin("drain").Config, deep)
	_, problems := CheckSettings("drain", "{}", deep)
	if len(diags) != 1 || len(problems) != 1 || diags[0].Summary != "The plugin describes its settings wrongly" || problems[0].Summary != diags[0].Summary {
		t.Errorf("got %v, %v", diags, problems)
	}
}

func FuzzCheckSettings(f *testing.F) {
	f.Add(`{"endpoint": "e", "rule": [{"expr": "a", "limit": {}}], "weights": {"a": 1}, "anything": [1e400]}`)
	f.Add(`{"endpoint": "e", "cache": {"size": 1}, "shape": {"width": 1, "tags": []}}`)
	f.Fuzz(func(t *testing.T, settings string) {
		text, problems := CheckSettings("topology", settings, topology())
		if (text == "") != (len(problems) > 0) {
			t.Fatalf("%q with problems %v", text, problems)
		}
		if text == "" {
			return
		}
		if again, problems := CheckSettings("topology", text, topology()); again != text || problems != nil {
			t.Errorf("not stable: %s became %s, %v", text, again, problems)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(topologyConfig))
	f.Add([]byte(`{"plugin": {"topology": {"path": "/b", "config": {"endpoint": "e"}}}, "store": {"bbolt": {"max_size": "1GiB"}}, "agent": {"labels": {"a": "b"}}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		c := Default()
		file, diags := hcltext.Parse("f", src)
		c.files["f"] = file
		if !diags.HasErrors() {
			diags = append(diags, c.decode([]*hcl.File{file})...)
		}
		written(t, c, diags)
		for _, p := range c.Plugins {
			text, found := DecodePluginConfig(p.Config, topology())
			if text == "" && !found.HasErrors() || text != "" && !json.Valid([]byte(text)) {
				t.Errorf("%q, %v", text, found)
			}
		}
	})
}
