package trace

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
)

// maxText is how much of a text an attribute has, in bytes.
const maxText = 256

// attributes are what is said of a span. What is empty is not said.
type attributes []*commonpb.KeyValue

func (a *attributes) text(key, value string) {
	if value != "" {
		*a = append(*a, &commonpb.KeyValue{Key: key, Value: textValue(value)})
	}
}

func (a *attributes) texts(key string, values []string) {
	if len(values) == 0 {
		return
	}
	list := &commonpb.ArrayValue{}
	for _, v := range values {
		list.Values = append(list.Values, textValue(v))
	}
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}})
}

func (a *attributes) number(key string, n int64) {
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}})
}

func (a *attributes) seconds(key string, s float64) {
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: s}}})
}

func (a *attributes) flag(key string, on bool) {
	if on {
		*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}})
	}
}

func textValue(text string) *commonpb.AnyValue {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(text, "")}}
}
