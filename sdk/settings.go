package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Settings is what the configuration or a job says to the plugin: one JSON object, or nothing.
type Settings string

// Decode writes the settings into a struct whose fields are tagged as for SchemaOf, with the defaults of its tags. It returns Diagnostics for what does not
// fit.
func (s Settings) Decode(into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode settings: want a pointer to a struct, not %T", into)
	}
	schema := schemaOf(target.Elem().Type())
	full, err := schema.complete(s)
	if err != nil {
		return err
	}
	v, err := parseJSON(string(full))
	if err != nil {
		return fmt.Errorf("decode settings: %w", err)
	}
	var d Diagnostics
	assign(target.Elem(), v, nil, &d)
	return d.Err()
}

// assign writes a value that was checked against the schema of target's type.
func assign(target reflect.Value, v any, path Path, d *Diagnostics) {
	switch {
	case target.Type() == durationType:
		text, _ := v.(string)
		duration, err := time.ParseDuration(text)
		if err != nil {
			d.Add(path, fmt.Sprintf("%q is no duration", text), "write it like 10s or 1m30s")
		}
		target.SetInt(int64(duration))
	case target.Kind() == reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		assign(target.Elem(), v, path, d)
	case target.Kind() == reflect.Struct:
		object, _ := v.(map[string]any)
		for _, f := range taggedFields(target.Type()) {
			if x, ok := object[f.name]; ok {
				assign(target.FieldByIndex(f.index), x, path.Attribute(f.name), d)
			}
		}
	case target.Kind() == reflect.Slice:
		list, _ := v.([]any)
		target.Set(reflect.MakeSlice(target.Type(), len(list), len(list)))
		for i, x := range list {
			assign(target.Index(i), x, path.Index(i), d)
		}
	case target.Kind() == reflect.Map:
		m, _ := v.(map[string]any)
		target.Set(reflect.MakeMapWithSize(target.Type(), len(m)))
		for _, k := range sortedKeys(m) {
			element := reflect.New(target.Type().Elem()).Elem()
			assign(element, m[k], path.Key(k), d)
			target.SetMapIndex(reflect.ValueOf(k).Convert(target.Type().Key()), element)
		}
	default:
		assignScalar(target, v, path, d)
	}
}

func assignScalar(target reflect.Value, v any, path Path, d *Diagnostics) {
	switch x := v.(type) {
	case string:
		target.SetString(x)
	case bool:
		target.SetBool(x)
	case json.Number:
		assignNumber(target, x, path, d)
	}
}

func assignNumber(target reflect.Value, n json.Number, path Path, d *Diagnostics) {
	switch {
	case target.CanFloat():
		if f, err := n.Float64(); err == nil {
			target.SetFloat(f)
			return
		}
	case target.CanInt():
		if i, err := n.Int64(); err == nil && !target.OverflowInt(i) {
			target.SetInt(i)
			return
		}
	case target.CanUint():
		if i, err := n.Int64(); err == nil && i >= 0 && !target.OverflowUint(uint64(i)) {
			target.SetUint(uint64(i))
			return
		}
	}
	d.Add(path, fmt.Sprintf("%s is no number that fits here", n), "want one like "+target.Kind().String())
}

// parseJSON reads exactly one value, numbers as they are written.
func parseJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: something follows the first value")
	}
	return v, nil
}

func jsonKind(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a bool"
	case []any:
		return "a list"
	}
	return "a map"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
