package sdk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk"
)

type allSettings struct {
	Name    string            `setpoint:"name,required" desc:"What it is called."`
	Token   string            `setpoint:"token,sensitive"`
	On      bool              `setpoint:"on" default:"true"`
	Count   int               `setpoint:"count" default:"3"`
	Share   float64           `setpoint:"share" default:"0.5"`
	Small   uint8             `setpoint:"small"`
	Timeout time.Duration     `setpoint:"timeout" default:"5s"`
	Zones   []string          `setpoint:"zones" default:"[\"a\",\"b\"]"`
	Limits  map[string]int    `setpoint:"limits"`
	Maybe   *string           `setpoint:"maybe"`
	Rules   []rule            `setpoint:"rule" desc:"A rule."`
	Inner   rule              `setpoint:"inner"`
	Outer   *rule             `setpoint:"outer"`
	Nested  map[string][]bool `setpoint:"nested"`
	Hidden  string
}

type rule struct {
	Key  string `setpoint:"key,required"`
	Keep bool   `setpoint:"keep" default:"true"`
}

func TestSchemaOf(t *testing.T) {
	of := sdk.Schema{Attributes: []sdk.Attribute{{Name: "key", Type: "string", Required: true}, {Name: "keep", Type: "bool", Default: "true"}}}
	described := of
	described.Description = "A rule."
	want := sdk.Schema{
		Attributes: []sdk.Attribute{
			{Name: "name", Type: "string", Required: true, Description: "What it is called."},
			{Name: "token", Type: "string", Sensitive: true},
			{Name: "on", Type: "bool", Default: "true"},
			{Name: "count", Type: "number", Default: "3"},
			{Name: "share", Type: "number", Default: "0.5"},
			{Name: "small", Type: "number"},
			{Name: "timeout", Type: "string", Default: `"5s"`},
			{Name: "zones", Type: "list(string)", Default: `["a","b"]`},
			{Name: "limits", Type: "map(number)"},
			{Name: "maybe", Type: "string"},
			{Name: "nested", Type: "map(list(bool))"},
		},
		Blocks: []sdk.Block{{Name: "rule", Repeated: true, Schema: described}, {Name: "inner", Schema: of}, {Name: "outer", Schema: of}},
	}
	if diff := cmp.Diff(want, sdk.SchemaOf[allSettings]()); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	var got allSettings
	err := sdk.Settings(`{"name":"x","count":7,"timeout":"1m","limits":{"gpu":2},"maybe":"","rule":[{"key":"a"},{"key":"b","keep":false}],
		"outer":{"key":"o"},"nested":{"n":[true]},"zones":null}`).Decode(&got)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	empty := ""
	want := allSettings{
		Name: "x", On: true, Count: 7, Share: 0.5, Timeout: time.Minute, Zones: []string{"a", "b"}, Limits: map[string]int{"gpu": 2}, Maybe: &empty,
		Rules: []rule{{Key: "a", Keep: true}, {Key: "b"}}, Outer: &rule{Key: "o", Keep: true}, Nested: map[string][]bool{"n": {true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// In a job nobody knows whether a block may be repeated, so that one that is written once comes as it is.
func TestABlockThatMayBeRepeatedIsWrittenOnce(t *testing.T) {
	var got allSettings
	if err := sdk.Settings(`{"name":"x","rule":{"key":"a"}}`).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rule{{Key: "a", Keep: true}}, got.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	err := sdk.Settings(`{"name":"x","rule":{"kee":"a"}}`).Decode(&got)
	if want := `rule[0].key: "key" is required; rule[0].kee: unknown setting "kee", did you mean "key"?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDecodeSaysAllThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                               `name: "name" is required: What it is called.`,
		`{"name":1,"on":"yes"}`:            `name: want a string: found a number; on: want a bool: found a string`,
		`{"name":"x","cuont":1}`:           `cuont: unknown setting "cuont", did you mean "count"?`,
		`{"name":"x","rule":[{}]}`:         `rule[0].key: "key" is required`,
		`{"name":"x","rule":3}`:            `rule: want a list of blocks: found a number`,
		`{"name":"x","zones":["",2]}`:      `zones[1]: want a string: found a number`,
		`{"name":"x","limits":{"gpu":[]}}`: `limits["gpu"]: want a number: found a list`,
		`{"name":"x","timeout":"soon"}`:    `timeout: "soon" is no duration: write it like 10s or 1m30s`,
		`{"name":"x","count":1.5}`:         `count: 1.5 is no number that fits here: want one like int`,
		`{"name":"x","small":256}`:         `small: 256 is no number that fits here: want one like uint8`,
		`{"name":"x","small":-1}`:          `small: -1 is no number that fits here: want one like uint8`,
		`[]`:                               `want a block: found a list`,
		`{"name":"x"} {}`:                  `the settings are not JSON: read JSON: something follows the first value`,
	} {
		err := sdk.Settings(text).Decode(&allSettings{})
		var d sdk.Diagnostics
		if !errors.As(err, &d) || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// FuzzDecode checks that no text makes decoding fail in another way than with diagnostics.
func FuzzDecode(f *testing.F) {
	f.Add(`{"name":"x","count":7,"timeout":"1m","limits":{"gpu":2},"rule":[{"key":"a"}],"nested":{"n":[true]}}`)
	f.Add(`{"name":"x","share":1e400,"small":1e2}`)
	f.Fuzz(func(t *testing.T, text string) {
		var d sdk.Diagnostics
		if err := sdk.Settings(text).Decode(&allSettings{}); err != nil && !errors.As(err, &d) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestDefinitionsAreChecked(t *testing.T) {
	long := strings.Repeat("a", 64)
	if _, err := sdk.NewServer(sdk.Plugin{Name: long[1:], Filter: labelFilter{}}, nil, nil); err != nil {
		t.Errorf("with a name of 63 letters: %v", err)
	}
	for want, p := range map[string]sdk.Plugin{
		`plugin "": name "": want at most 63 lower-case letters, digits, - and _, beginning with a letter` + "\nnothing is served: set Filter, Drainer or JobTypes": {},
		`plugin "` + long + `": name "` + long + `": want at most 63 lower-case letters, digits, - and _, beginning with a letter`:                                  {Name: long, Filter: labelFilter{}},
		`plugin "x": job type "batch": it is nil, has a bad name, or is the core's own`:                                                                             {Name: "x", JobTypes: map[string]sdk.JobType{"batch": zoneType{}}},
		`plugin "x": watched field "label" is unknown`:                                                                                                              {Name: "x", Filter: labelFilter{}, Watches: []sdk.Watch{"label"}},
		`plugin "x": schema of job: a: type "text": want string, number, bool, any, or list, set or map of such`: {
			Name: "x", Filter: labelFilter{}, Job: sdk.Schema{Attributes: []sdk.Attribute{{Name: "a", Type: "text"}}},
		},
		`plugin "x": schema of config: default of a: want a number: found a string`: {
			Name: "x", Filter: labelFilter{}, Config: sdk.Schema{Attributes: []sdk.Attribute{{Name: "a", Type: "number", Default: `"1"`}}},
		},
	} {
		if _, err := sdk.NewServer(p, nil, nil); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// A tag that means nothing is its author's mistake, and is not passed over.
func TestTagsAreChecked(t *testing.T) {
	defer func() {
		want := `setpoint: field Value of struct { Value string "setpoint:\"value,requird\"" }: its tag says "requird", which means nothing, did you mean "required"?`
		if got := recover(); got != want {
			t.Errorf("got  %v\nwant %s", got, want)
		}
	}()
	sdk.SchemaOf[struct {
		Value string `setpoint:"value,requird"`
	}]()
}

func TestSuggest(t *testing.T) {
	known := []string{"labels", "attributes", "platform"}
	for word, want := range map[string]string{
		"lables": `, did you mean "labels"?`, "atributes": `, did you mean "attributes"?`, "x": "", "zzzzzz": "", "labels": `, did you mean "labels"?`,
	} {
		if got := sdk.Suggest(word, known); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}
