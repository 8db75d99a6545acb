package hcltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// maxExponent limits numbers to those whose digits can be written down.
const maxExponent = 1024 // of 2

// ErrHuge is returned for a number with more digits than anybody wants to write down.
var ErrHuge = errors.New("the number is too large, or has too many digits")

func isHuge(v cty.Value) bool {
	if v.Type() != cty.Number || v.IsNull() {
		return false
	}
	f := v.AsBigFloat()
	exponent := f.MantExp(nil)
	return f.IsInf() || exponent > maxExponent || exponent < -maxExponent
}

// Plain returns a known value as encoding/json would: nil, bool, string, json.Number, []any or map[string]any.
func Plain(v cty.Value) (any, error) {
	switch t := v.Type(); {
	case v.IsNull():
		return nil, nil
	case !v.IsKnown():
		return nil, errors.New("the value is not known")
	case t == cty.String:
		return v.AsString(), nil
	case t == cty.Bool:
		return v.True(), nil
	case t == cty.Number:
		if isHuge(v) {
			return nil, ErrHuge
		}
		return json.Number(v.AsBigFloat().Text('f', -1)), nil
	case isList(t):
		out := make([]any, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			plain, err := Plain(element)
			if err != nil {
				return nil, err
			}
			out = append(out, plain)
		}
		return out, nil
	case t.IsMapType() || t.IsObjectType():
		out := make(map[string]any, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			plain, err := Plain(element)
			if err != nil {
				return nil, err
			}
			out[key.AsString()] = plain
		}
		return out, nil
	default:
		return nil, fmt.Errorf("a %s has no JSON", t.FriendlyName())
	}
}

// Encode returns a plain value as JSON with sorted keys, on one line, with <, > and & as they are.
func Encode(plain any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plain); err != nil {
		return "", fmt.Errorf("encode JSON: %w", err)
	}
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}
