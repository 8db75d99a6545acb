package hcltext

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Strings reads a list of texts.
func Strings(v Value) ([]string, bool) {
	value, ok := Any(v)
	if !ok {
		return nil, false
	}
	if !isList(value.Type()) {
		v.wrongType("a list of texts", `["like", "this"]`)
		return nil, false
	}
	out, i := make([]string, 0, value.LengthInt()), 0
	for it := value.ElementIterator(); it.Next(); i++ {
		_, element := it.Element()
		text, fine := asString(element)
		if !fine {
			v.failAt(fmt.Sprintf("%s[%d]", v.Path, i), "Wrong type of element", fmt.Sprintf(`Element %d must be text, "like this".`, i+1))
			ok = false
		}
		out = append(out, text)
	}
	return out, ok
}

// StringMap reads a map of texts.
func StringMap(v Value) (map[string]string, bool) {
	return readMap(v, `a map of texts, { name = "value" }`, `text, "like this"`, asString)
}

// IntMap reads a map of whole numbers.
func IntMap(v Value) (map[string]int64, bool) {
	return readMap(v, "a map of whole numbers, { name = 1 }", "a whole number", func(value cty.Value) (int64, bool) {
		if value.IsNull() || value.Type() != cty.Number {
			return 0, false
		}
		return whole(value)
	})
}

// TextMap reads a map of whatever; what is no text, number or flag becomes JSON.
func TextMap(v Value) (map[string]string, bool) {
	return readMap(v, "a map, { name = value }", "text, a number, a flag, a list or a map", func(value cty.Value) (string, bool) {
		if text, ok := asString(value); ok {
			return text, true
		}
		plain, err := Plain(value)
		if err != nil || plain == nil {
			return "", false
		}
		text, err := Encode(plain)
		return text, err == nil
	})
}

func readMap[T any](v Value, what, each string, read func(cty.Value) (T, bool)) (map[string]T, bool) {
	value, ok := Any(v)
	if !ok {
		return nil, false
	}
	if !value.Type().IsObjectType() && !value.Type().IsMapType() {
		v.Fail("Wrong type of value", "It must be "+what+".")
		return nil, false
	}
	out := make(map[string]T, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		k, element := it.Element()
		got, fine := read(element)
		if !fine {
			v.failAt(Keyed(v.Path, k.AsString()), "Wrong type of value", fmt.Sprintf("The value of %q must be %s.", k.AsString(), each))
			ok = false
			continue
		}
		out[k.AsString()] = got
	}
	return out, ok
}

func (v Value) failAt(path, summary, detail string) {
	at, ok := v.decoder.Ranges.Find(path)
	if !ok {
		at = v.Expr.Range()
	}
	v.decoder.Fail(path, at, summary, detail)
}

func isList(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }

// asString returns a text, number or flag as text.
func asString(value cty.Value) (string, bool) {
	if value.IsNull() || !value.Type().IsPrimitiveType() || isHuge(value) {
		return "", false
	}
	text, err := convert.Convert(value, cty.String)
	if err != nil || text.IsNull() || !text.IsKnown() {
		return "", false
	}
	return text.AsString(), true
}
