package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// What is recorded is written as JSON by the fields of Go's types, not by the forms that they have for people: those leave out engine time. Fields that are
// zero are left out, and functions are: what a report's sender is told is no matter of decisions.

// named is a value of one of several types.
type named struct {
	Type  string          `json:"t"`
	Value json.RawMessage `json:"v,omitempty"`
}

// recordedTypes are the types that a record may hold, by name.
func recordedTypes() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, v := range []any{
		AgentUp{},
		AgentDown{},
		AgentsHeard{},
		AgentDescribes{},
		AgentReports{},
		PluginUp{},
		PluginDown{},
		PluginGone{},
		PluginApplied{},
		PluginVerdicts{},
		PluginSlots{},
		PluginDrain{},
		SinksKnown{},
		SinkTold{},
		SinkFails{},
		RunJob{},
		StopJob{},
		StartJob{},
		RestartJob{},
		ScaleJob{},
		RollbackJob{},
		RebalanceJob{},
		RemoveJob{},
		ControlUpdate{},
		StopTask{},
		JoinNode{},
		SetAvailability{},
		LabelNode{},
		Decommission{},
		RemoveNode{},
		ConfirmPlugin{},
		ConfirmDown{},
		NoteStall{},
		cluster.Node{},
		cluster.Job{},
		cluster.Slot{},
		cluster.Task{},
		cluster.Stall{},
		cluster.Request{},
		cluster.Notice{},
	} {
		t := reflect.TypeOf(v)
		out[t.Name()] = t
	}
	return out
}

// asks reports whether an operation changes nothing, so that it need not be recorded.
func asks(op Op) bool {
	switch op.(type) {
	case Why, Inspect, Foresee, Rehearse, TrialLabels:
		return true
	}
	return false
}

// encodeNamed writes a value, or what it points at, with the name of its type.
func encodeNamed(v any) (named, error) {
	x := reflect.Indirect(reflect.ValueOf(v))
	tree, err := treeOf(x)
	if err != nil {
		return named{}, fmt.Errorf("record %T: %w", v, err)
	}
	b, err := json.Marshal(tree)
	return named{Type: x.Type().Name(), Value: b}, err
}

// decode returns a pointer to the value.
func (n named) decode(types map[string]reflect.Type) (any, error) {
	t, ok := types[n.Type]
	if !ok {
		return nil, fmt.Errorf("a record of type %q: this version knows none", n.Type)
	}
	p := reflect.New(t)
	if len(n.Value) == 0 {
		return p.Interface(), nil
	}
	if err := setTree(p.Elem(), n.Value); err != nil {
		return nil, fmt.Errorf("read %s: %w", n.Type, err)
	}
	return p.Interface(), nil
}

// treeOf returns a value as encoding/json writes it without the methods of its types.
func treeOf(v reflect.Value) (any, error) {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return treeOf(v.Elem())
	case reflect.Struct:
		return structTree(v)
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return nil, nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return base64.StdEncoding.EncodeToString(v.Bytes()), nil
		}
		out := make([]any, v.Len())
		for i := range out {
			x, err := treeOf(v.Index(i))
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case reflect.Map:
		if v.IsNil() {
			return nil, nil
		}
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			x, err := treeOf(it.Value())
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(it.Key().Interface())] = x
		}
		return out, nil
	default:
		return nil, fmt.Errorf("a value of type %s cannot be recorded", v.Type())
	}
}

func structTree(v reflect.Value) (any, error) {
	out := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Type.Kind() == reflect.Func || v.Field(i).IsZero():
			continue
		case !f.IsExported():
			return nil, fmt.Errorf("field %s.%s cannot be recorded", v.Type(), f.Name)
		}
		x, err := treeOf(v.Field(i))
		if err != nil {
			return nil, err
		}
		out[f.Name] = x
	}
	return out, nil
}

// setTree sets a value from what treeOf made of it.
func setTree(v reflect.Value, raw json.RawMessage) error {
	if string(raw) == "null" {
		return nil
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Float32, reflect.Float64:
		return json.Unmarshal(raw, v.Addr().Interface())
	case reflect.String:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		v.SetString(s)
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
		v.SetInt(n)
		return err
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(string(raw), 10, v.Type().Bits())
		v.SetUint(n)
		return err
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setTree(v.Elem(), raw)
	case reflect.Struct:
		return setStruct(v, raw)
	case reflect.Slice, reflect.Array:
		return setList(v, raw)
	case reflect.Map:
		return setMap(v, raw)
	default:
		return fmt.Errorf("a value of type %s cannot be read", v.Type())
	}
}

func setStruct(v reflect.Value, raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	for name, x := range fields {
		f := v.FieldByName(name)
		if !f.IsValid() || !f.CanSet() {
			return fmt.Errorf("%s has no field %q in this version", v.Type(), name)
		}
		if err := setTree(f, x); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setList(v reflect.Value, raw json.RawMessage) error {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		var b []byte
		if err := json.Unmarshal(raw, &b); err != nil {
			return err
		}
		v.SetBytes(b)
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	} else if len(items) != v.Len() {
		return fmt.Errorf("%d values instead of %d", len(items), v.Len())
	}
	for i, x := range items {
		if err := setTree(v.Index(i), x); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func setMap(v reflect.Value, raw json.RawMessage) error {
	var items map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(items)))
	for k, x := range items {
		key := reflect.New(v.Type().Key()).Elem()
		text := json.RawMessage(k)
		if key.Kind() == reflect.String {
			text, _ = json.Marshal(k) // a string can always be written
		}
		if err := setTree(key, text); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := setTree(value, x); err != nil {
			return fmt.Errorf("[%s]: %w", k, err)
		}
		v.SetMapIndex(key, value)
	}
	return nil
}
