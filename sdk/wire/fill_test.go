package wire

import (
	"fmt"
	"reflect"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// filler sets the fields of a record. Leaves are numbered in the order of the walk; a list has two elements, so that it has leaves.
type filler struct {
	only int // the one leaf to set; -1: all, each to a value of its own
	next int // the number of the next leaf
	path string
}

// newFilled returns a new record like sample with one leaf set, or all of them, and the path of the last leaf set; ok is false once there is no such leaf.
func newFilled[T any](only int) (record *T, path string, ok bool) {
	record = new(T)
	f := filler{only: only}
	f.fill(reflect.ValueOf(record).Elem(), "")
	return record, f.path, only < f.next
}

func (f *filler) fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		n := f.next
		f.next++
		if f.only < 0 || f.only == n {
			f.path = path
			set(v, n+1)
		}
	}
}

func set(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case cluster.DesiredState:
		v.Set(reflect.ValueOf(cluster.DesiredShutdown))
		return
	case cluster.ObservedState:
		v.Set(reflect.ValueOf(cluster.Rejected))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n) << 33)
	case reflect.Uint64:
		v.SetUint(uint64(n) << 40)
	case reflect.Uint32:
		v.SetUint(uint64(n) << 16)
	case reflect.Uint16:
		v.SetUint(uint64(65535 - n))
	case reflect.Float64:
		v.SetFloat(float64(n) / 64)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for i := range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			set(key, 1000*n+i)
			set(value, 2000*n+i)
			m.SetMapIndex(key, value)
		}
		v.Set(m)
	default:
		panic(fmt.Sprintf("a record has a field of kind %s, which the filler does not know", v.Kind()))
	}
}
