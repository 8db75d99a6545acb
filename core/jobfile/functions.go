package jobfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/setpointd/setpoint/core/hcltext"
)

// Function is one that job files can call.
type Function struct {
	Name string
	Says string // how it is called, and what comes of it

	f function.Function
}

// Functions returns the functions that job files can call, by name. All of them give the same for the same, and none makes more of its arguments than a job
// file could hold.
func Functions() []Function {
	return []Function{
		{"abs", "`abs(-3)` is 3", stdlib.AbsoluteFunc},
		{"ceil", "`ceil(1.2)` is 2", stdlib.CeilFunc},
		{"chomp", "a text without the line ends at its end", stdlib.ChompFunc},
		{"coalesce", "the first of its arguments that is not null", stdlib.CoalesceFunc},
		{"compact", "a list of texts without the empty ones", stdlib.CompactFunc},
		{"concat", "`concat([1], [2, 3])` is `[1, 2, 3]`", stdlib.ConcatFunc},
		{"contains", "`contains([\"a\"], \"a\")` is true", stdlib.ContainsFunc},
		{"distinct", "a list without what is in it twice", stdlib.DistinctFunc},
		{"element", "`element([\"a\", \"b\"], 1)` is `b`, and goes round at the end", stdlib.ElementFunc},
		{"flatten", "`flatten([[1], [2]])` is `[1, 2]`", stdlib.FlattenFunc},
		{"floor", "`floor(1.8)` is 1", stdlib.FloorFunc},
		{"format", "`format(\"%s-%02d\", \"web\", 7)` is `web-07`", stdlib.FormatFunc},
		{"join", "`join(\",\", [\"a\", \"b\"])` is `a,b`", stdlib.JoinFunc},
		{"jsonencode", "a value as JSON", stdlib.JSONEncodeFunc},
		{"keys", "the keys of a map, sorted", stdlib.KeysFunc},
		{"length", "how many elements a list or map has", stdlib.LengthFunc},
		{"lookup", "`lookup(map, key, default)`", stdlib.LookupFunc},
		{"lower", "`lower(\"A\")` is `a`", stdlib.LowerFunc},
		{"max", "the greatest of its arguments", stdlib.MaxFunc},
		{"merge", "`merge({ a = 1 }, { a = 2 })` is `{ a = 2 }`", stdlib.MergeFunc},
		{"min", "the least of its arguments", stdlib.MinFunc},
		{"parseint", "`parseint(\"ff\", 16)` is 255", stdlib.ParseIntFunc},
		{"replace", "`replace(\"a-b\", \"-\", \"_\")` is `a_b`", stdlib.ReplaceFunc},
		{"reverse", "a list from its end", stdlib.ReverseListFunc},
		{"slice", "`slice(list, 0, 2)` is its first two elements", stdlib.SliceFunc},
		{"sort", "a list of texts, sorted", stdlib.SortFunc},
		{"split", "`split(\",\", \"a,b\")` is `[\"a\", \"b\"]`", stdlib.SplitFunc},
		{"strlen", "how many characters a text has", stdlib.StrlenFunc},
		{"substr", "`substr(\"hello\", 1, 3)` is `ell`", stdlib.SubstrFunc},
		{"title", "`title(\"a b\")` is `A B`", stdlib.TitleFunc},
		{"tonumber", "`tonumber(\"3\")` is 3", stdlib.MakeToFunc(cty.Number)},
		{"tostring", "`tostring(3)` is `3` as text", stdlib.MakeToFunc(cty.String)},
		{"trim", "`trim(\"--a-\", \"-\")` is `a`", stdlib.TrimFunc},
		{"trimprefix", "`trimprefix(\"v1\", \"v\")` is `1`", stdlib.TrimPrefixFunc},
		{"trimspace", "a text without space around it", stdlib.TrimSpaceFunc},
		{"trimsuffix", "`trimsuffix(\"a.hcl\", \".hcl\")` is `a`", stdlib.TrimSuffixFunc},
		{"upper", "`upper(\"a\")` is `A`", stdlib.UpperFunc},
		{"values", "the values of a map, in the order of its keys", stdlib.ValuesFunc},
		{"zipmap", "`zipmap([\"a\"], [1])` is `{ a = 1 }`", stdlib.ZipmapFunc},
	}
}

// FileFunction says of the function file what Functions says of the others.
const FileFunction = "the content of a text file at or below the directory of the job file, which the path is relative to"

// functions are ready to be called.
func functions(readFile func(path string) ([]byte, error)) map[string]function.Function {
	all := Functions()
	out := make(map[string]function.Function, len(all)+1)
	for _, f := range all {
		out[f.Name] = limited(f.f, tooMuch[f.Name])
	}
	out["file"] = fileFunction(readFile)
	return out
}

// errTooLarge is what becomes of a call that would make too much.
var errTooLarge = fmt.Errorf("the result would have more than %d bytes", hcltext.MaxValueSize)

// limited refuses a call whose result is too large: before it is made, where a check says so, or else before anybody uses it.
func limited(f function.Function, tooMuch func([]cty.Value) bool) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(args) },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if tooMuch != nil && tooMuch(args) {
				return cty.NilVal, errTooLarge
			}
			v, err := f.Call(args)
			if err == nil && hcltext.Size(v) > hcltext.MaxValueSize {
				return cty.NilVal, errTooLarge
			}
			return v, err
		},
	})
}

// tooMuch says, of the functions whose results are larger than their arguments together, whether one would be too large.
var tooMuch = map[string]func([]cty.Value) bool{
	"format": func(args []cty.Value) bool {
		if !isText(args[0]) {
			return false
		}
		text, size := args[0].AsString(), 0
		for _, a := range args[1:] {
			size += hcltext.Size(a) * 8 // as JSON, at the worst
		}
		return strings.Count(text, "%")*size > hcltext.MaxValueSize || wide.MatchString(text)
	},
	"join": func(args []cty.Value) bool {
		n := 0
		for _, a := range args[1:] {
			if a.IsKnown() && !a.IsNull() && a.CanIterateElements() {
				n += a.LengthInt()
			}
		}
		return isText(args[0]) && len(args[0].AsString())*n > hcltext.MaxValueSize
	},
	"replace": func(args []cty.Value) bool {
		if !isText(args[0]) || !isText(args[1]) || !isText(args[2]) {
			return false
		}
		return (strings.Count(args[0].AsString(), args[1].AsString())+1)*len(args[2].AsString()) > hcltext.MaxValueSize
	},
}

// wide is a width or precision of a thousand characters or more.
var wide = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{4}`)

func isText(v cty.Value) bool { return v.IsKnown() && !v.IsNull() && v.Type() == cty.String }

func fileFunction(readFile func(path string) ([]byte, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if readFile == nil {
				return cty.NilVal, errors.New("files cannot be read here")
			}
			text, err := readFile(args[0].AsString())
			switch {
			case err != nil:
				return cty.NilVal, err
			case len(text) > hcltext.MaxFileSize:
				return cty.NilVal, fmt.Errorf("the file has %d bytes; the limit is %d", len(text), hcltext.MaxFileSize)
			case !utf8.Valid(text):
				return cty.NilVal, errors.New("the file is no text in UTF-8")
			}
			return cty.StringVal(string(text)), nil
		},
	})
}
