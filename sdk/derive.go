package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// SchemaOf derives a schema from the fields of a struct:
//
//	type Config struct {
//		Zones   []string      `setpoint:"zones,required" desc:"Zones that may be used."`
//		Token   string        `setpoint:"token,sensitive"`
//		Timeout time.Duration `setpoint:"timeout" default:"5s"`
//		Limits  []Limit       `setpoint:"limit" desc:"A limit; may be repeated."` // a struct: a block
//	}
//
// Strings, bools, numbers, slices and maps of them become attributes, time.Duration a string like "10s"; a struct becomes a block, a slice of structs a
// repeated one. Fields without the tag are left out. A default is written as JSON, or as plain text for a string. SchemaOf panics if T is no struct, or has a
// tagged field of another kind or with a word in its tag that means nothing, because only its author can do something about it.
func SchemaOf[T any]() Schema { return schemaOf(reflect.TypeFor[T]()) }

var durationType = reflect.TypeFor[time.Duration]()

func schemaOf(t reflect.Type) Schema {
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("setpoint: a schema is derived from a struct, not from %s", t))
	}
	var out Schema
	for _, f := range taggedFields(t) {
		if element, repeated, ok := blockOf(f.typ); ok {
			block := schemaOf(element)
			block.Description = f.desc
			out.Blocks = append(out.Blocks, Block{Name: f.name, Repeated: repeated, Schema: block})
			continue
		}
		typ, ok := typeExpr(f.typ)
		if !ok {
			panic(fmt.Sprintf("setpoint: field %q of %s has type %s, which no setting can have", f.name, t, f.typ))
		}
		out.Attributes = append(out.Attributes, Attribute{
			Name: f.name, Type: typ, Description: f.desc, Required: f.required, Sensitive: f.sensitive, Default: defaultJSON(typ, f.fallback),
		})
	}
	return out
}

type taggedField struct {
	name, desc, fallback string
	required, sensitive  bool
	index                []int
	typ                  reflect.Type
}

func taggedFields(t reflect.Type) []taggedField {
	var out []taggedField
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("setpoint")
		if !ok || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		field := taggedField{name: name, desc: f.Tag.Get("desc"), fallback: f.Tag.Get("default"), index: f.Index, typ: f.Type}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "":
			case "required":
				field.required = true
			case "sensitive":
				field.sensitive = true
			default:
				panic(fmt.Sprintf("setpoint: field %s of %s: its tag says %q, which means nothing%s", f.Name, t, option, Suggest(option, []string{"required", "sensitive"})))
			}
		}
		out = append(out, field)
	}
	return out
}

// blockOf returns the struct type of a field that is a block.
func blockOf(t reflect.Type) (element reflect.Type, repeated, ok bool) {
	switch t.Kind() {
	case reflect.Struct:
		return t, false, true
	case reflect.Pointer:
		return t.Elem(), false, t.Elem().Kind() == reflect.Struct
	case reflect.Slice:
		return t.Elem(), true, t.Elem().Kind() == reflect.Struct
	}
	return nil, false, false
}

func typeExpr(t reflect.Type) (string, bool) {
	switch {
	case t == durationType || t.Kind() == reflect.String:
		return "string", true
	case t.Kind() == reflect.Bool:
		return "bool", true
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr:
		return "number", true
	case t.Kind() == reflect.Pointer:
		return typeExpr(t.Elem())
	case t.Kind() == reflect.Slice:
		of, ok := typeExpr(t.Elem())
		return "list(" + of + ")", ok
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		of, ok := typeExpr(t.Elem())
		return "map(" + of + ")", ok
	}
	return "", false
}

func defaultJSON(typ, text string) string {
	if text == "" || typ != "string" || strings.HasPrefix(text, `"`) {
		return text
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("setpoint: default %q: %v", text, err))
	}
	return string(quoted)
}
