package hcltext

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "1KiB": 1024, "256MiB": 256 << 20, "1.5GiB": 3 << 29, "2TiB": 2 << 40, "1KB": 1000, "1kB": 1000, "3MB": 3e6, "4GB": 4e9,
		"5TB": 5e12, " 1 MiB ": 1 << 20, "0.0001KiB": 1, "0.1MB": 100_000, "9223372036854775807": math.MaxInt64,
	} {
		if got, ok := ParseBytes(text); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "MiB", "-1", "+1", "1e3", "1/2", "1 2", "0x10", "1MiBs", "1M", "256megabytes", "1.2.3", "9223372036854775808", "8388608TiB", strings.Repeat("9", 41),
	} {
		if got, ok := ParseBytes(text); ok {
			t.Errorf("%q: got %d, want a refusal", text, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1: "1B", 1000: "1000B", 1024: "1KiB", 1 << 20: "1MiB", 3 << 29: "1536MiB", 1 << 40: "1TiB", 1 << 50: "1024TiB", math.MaxInt64: "9223372036854775807B",
	} {
		got := FormatBytes(n)
		if back, ok := ParseBytes(got); got != want || !ok || back != n {
			t.Errorf("%d: got %s, read as %d, want %s", n, got, back, want)
		}
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string][]string{
		"":                          nil,
		"a":                         {"a"},
		"a.b.c":                     {"a", "b", "c"},
		`a["b"].c`:                  {"a", "b", "c"},
		`a["b.c[0]"][1]`:            {"a", "b.c[0]", "[1"},
		`a["quote\" and \\"].x`:     {"a", `quote" and \`, "x"},
		`a["never closed`:           {"a", `["never closed`},
		`a[12`:                      {"a", "[12"},
		`plugin["constraint"].x[1]`: {"plugin", "constraint", "x", "[1"},
	} {
		if diff := cmp.Diff(want, splitPath(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(`a["b"].c[0]`)
	f.Add(`a["`)
	f.Fuzz(func(t *testing.T, path string) {
		want := hcl.Range{Filename: "here"}
		if got, ok := (Ranges{"": want}).Find(path); !ok || got != want {
			t.Errorf("%q is in nothing", path)
		}
		r := make(Ranges)
		r.add(path, want)
		if got, ok := r.Find(path); !ok || got != want {
			t.Errorf("%q was recorded and is not found", path)
		}
		if _, ok := (Ranges{}).Find(path); ok {
			t.Errorf("%q was found in nothing", path)
		}
	})
}

func TestPlain(t *testing.T) {
	v := cty.ObjectVal(map[string]cty.Value{
		"z": cty.True, "a": cty.MustParseNumberVal("0.1"), "n": cty.NullVal(cty.String), "l": cty.TupleVal([]cty.Value{cty.StringVal("<&>"), cty.NumberIntVal(1e15)}),
		"m": cty.MapVal(map[string]cty.Value{"k": cty.StringVal("é")}),
	})
	plain, err := Plain(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Encode(plain)
	if want := `{"a":0.1,"l":["<&>",1000000000000000],"m":{"k":"é"},"n":null,"z":true}`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for _, v := range []cty.Value{cty.MustParseNumberVal("1e400"), cty.PositiveInfinity, cty.UnknownVal(cty.String), cty.TupleVal([]cty.Value{cty.MustParseNumberVal("1e-400")})} {
		if plain, err := Plain(v); err == nil {
			t.Errorf("%#v became %v", v, plain)
		}
	}
}

func TestParseKeepsTheFileForDiagnostics(t *testing.T) {
	file, diags := Parse("x.hcl", []byte("a = 1\nb = = 2\n"))
	var out strings.Builder
	if err := Write(&out, map[string]*hcl.File{"x.hcl": file}, diags, Look{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "x.hcl line 2:\n   2: b = = 2") {
		t.Errorf("the line is not shown:\n%s", out.String())
	}
}
